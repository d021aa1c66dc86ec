"""The rows of requests, answers and attempts: what is wanted, what is bought, and in which batches it was asked for.

An answer is known by its fingerprint, and bought once in the whole database: "at most one open attempt" is a unique
index, and a batch is sent only where nobody has, or asks for, any of its answers. A request that wants what is there,
or on its way, finds the row: nothing is copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError

from layton_batch.errors import SentElsewhereError
from layton_batch.records import Batch, End, Move, NewAttempt, NewRequest, RequestCost
from layton_batch.states import PERHAPS_BILLED, AnswerState, Lifecycle, RequestOutcome
from layton_batch.store import schema
from layton_batch.store.rows import chunks

FOLLOWED = frozenset({Lifecycle.SUBMITTING, Lifecycle.PLANNED, Lifecycle.COLLECTED})
"""States of a batch whose beginning its requests and answers follow."""


class KnownRequest(NamedTuple):
    """A request of a job, and how the answer stands that it wants. ``run_id``: of the answer's batch.
    ``without_limit``: fingerprint of what it asks without its output limit, ``room``; ``is_cut``: the answer ended
    there; ``reask``: how often it was asked once more, ``doublings``: of its room meanwhile.

    After the manifest's limit is raised, an answer that ended by itself stays (found by ``without_limit``), a cut one
    is asked anew (``lacks_room``), and one on its way is looked at when its job is graded (``stages/grade.py``).
    """

    custom_id: str
    item_id: str
    fingerprint: bytes | None
    answer: bytes
    reask: int
    doublings: int
    retired: bool
    state: AnswerState
    batch: int | None
    batch_id: str | None
    run_id: str | None
    without_limit: bytes | None = None
    room: int | None = None
    is_cut: bool = False

    def lacks_room(self, room: int | None) -> bool:
        """Return whether the answer was cut, and another output limit gives it more room (None: the provider's)."""
        if not self.is_cut or room == self.room:
            return False
        return self.room is None or room is None or room > self.room * 2**self.doublings


def asked_again(fingerprint: bytes, reask: int) -> bytes:
    """Return the fingerprint of a further answer to the same request, which was answered and is asked for once more."""
    return fingerprint if reask == 0 else sha256(b"reask %d " % reask + fingerprint).digest()


# ---- entering ------------------------------------------------------------------------------------------------------


def enter_requests(connection: Connection, run_id: str, job_id: str, new: Iterable[NewRequest]) -> None:
    """Enter what a job wants beside what it wanted before."""
    key = connection.execute(job_key(run_id, job_id)).scalar_one()
    if values := [{"job": key, **request._asdict()} for request in new]:
        connection.execute(schema.requests.insert().values(doublings=0, retired=False), values)


def keep_requests(connection: Connection, run_id: str, job_id: str, wanted: Collection[str]) -> None:
    """Mark as retired the requests of a job that are not among ``wanted``, custom_ids, and the others as wanted."""
    table = schema.requests
    job = table.c.job == job_key(run_id, job_id).scalar_subquery()
    was_retired = dict(connection.execute(select(table.c.custom_id, table.c.retired).where(job)).all())
    for retired in (True, False):
        names = [name for name, was in was_retired.items() if was != retired and (name not in wanted) == retired]
        for chunk in chunks(names):
            connection.execute(update(table).where(job, table.c.custom_id.in_(chunk)).values(retired=retired))


def retire(connection: Connection, run_id: str, job_id: str, custom_ids: Collection[str]) -> None:
    """Mark requests of a job as retired."""
    table = schema.requests
    job = table.c.job == job_key(run_id, job_id).scalar_subquery()
    for chunk in chunks(list(custom_ids)):
        connection.execute(update(table).where(job, table.c.custom_id.in_(chunk)).values(retired=True))


def enter_attempts(connection: Connection, run_id: str, batches: Sequence[Batch]) -> None:
    """Enter what new batches of a run ask for, and what came of those that are over already."""
    contents = {batch.id: batch.content for batch in batches if batch.content}
    table = schema.batches
    for chunk in chunks(list(contents)):
        keys = select(table.c.batch_id, table.c.key).where(table.c.run_id == run_id, table.c.batch_id.in_(chunk))
        for batch_id, key in connection.execute(keys).all():
            _enter_attempts(connection, key, contents[batch_id])


def _enter_attempts(connection: Connection, key: int, content: Sequence[NewAttempt]) -> None:
    values = [
        {"line": line, "custom_id": custom_id, "fingerprint": answer, "max_cost": max_cost, **_columns(end)}
        for line, (custom_id, answer, max_cost, end) in enumerate(content)
    ]
    connection.execute(schema.attempts.insert().values(batch=key, is_open=False, is_cut=False), values)
    if _enter_answers(connection, [attempt.answer for attempt in content], AnswerState.PLANNED, key) != len(values):
        answers = schema.answers
        theirs = and_(answers.c.state == AnswerState.PLANNED, answers.c.batch != key)
        free = or_(answers.c.state.in_([AnswerState.WANTED, AnswerState.FAILED]), theirs)
        _set_answers(connection, key, AnswerState.PLANNED, free, batch=key)
    if any(attempt.end for attempt in content):
        _settle(connection, key, ())


def _enter_answers(
    connection: Connection, fingerprints: Collection[bytes], state: AnswerState, batch: int | None
) -> int:
    """Enter answers; one that is there stays as it is. Return how many are new; -1: the driver does not say."""
    values = [{"fingerprint": fingerprint} for fingerprint in fingerprints]
    if not values:
        return 0
    named = {"state": state, "batch": batch}
    if connection.dialect.name == "postgresql":
        insert = postgresql.insert(schema.answers).values(**named).on_conflict_do_nothing()
        return int(connection.execute(insert, values).rowcount)
    ignoring = schema.answers.insert().prefix_with("OR IGNORE").values(**named)
    return int(connection.execute(ignoring, values).rowcount)


def ask_once_more(
    connection: Connection, run_id: str, job_id: str, requests: Collection[KnownRequest], doublings: Mapping[str, int]
) -> None:
    """Have answered requests of a job want a further answer each. ``doublings``: of the room for it, by custom_id."""
    table, answers = schema.requests, schema.answers
    further_answers = [
        (request, asked_again(request.fingerprint or request.answer, request.reask + 1)) for request in requests
    ]
    update_requests = update(table).where(
        table.c.job == job_key(run_id, job_id).scalar_subquery(), table.c.custom_id == bindparam("name")
    )
    connection.execute(
        update_requests.values(
            answer=bindparam("further_answer"), reask=bindparam("number"), doublings=bindparam("times")
        ),
        [
            {
                "name": request.custom_id,
                "further_answer": answer,
                "number": request.reask + 1,
                "times": doublings[request.custom_id],
            }
            for request, answer in further_answers
        ],
    )
    _enter_answers(connection, [answer for _, answer in further_answers], AnswerState.WANTED, None)
    set_parent = update(answers).where(answers.c.fingerprint == bindparam("further_answer"), answers.c.batch.is_(None))
    rows = [{"further_answer": answer, "earlier": request.batch} for request, answer in further_answers]
    connection.execute(set_parent.values(batch=bindparam("earlier")), rows)


def want_again(connection: Connection, fingerprints: Collection[bytes]) -> None:
    """Have answers be asked for again that no batch brought."""
    table = schema.answers
    in_state = table.c.state.in_([AnswerState.FAILED, AnswerState.UNCERTAIN])
    for chunk in chunks(list(fingerprints)):
        these = update(table).where(table.c.fingerprint.in_(chunk), in_state)
        connection.execute(these.values(state=AnswerState.WANTED))


def set_max_costs(connection: Connection, key: int, max_costs: Mapping[str, Decimal | None]) -> None:
    """Give the requests of a batch, by custom_id, other upper bounds in USD."""
    table, prints = schema.attempts, _prints_of(connection, key)
    update_attempts = update(table).where(table.c.batch == key, table.c.fingerprint == bindparam("asked"))
    rows = [{"asked": prints[name], "cost": cost} for name, cost in max_costs.items()]
    if rows:
        connection.execute(update_attempts.values(max_cost=bindparam("cost")), rows)


def set_charges(connection: Connection, key: int, charges: Sequence[RequestCost]) -> None:
    """Enter what answers of a batch cost."""
    table, prints = schema.attempts, _prints_of(connection, key)
    update_attempts = update(table).where(table.c.batch == key, table.c.fingerprint == bindparam("asked"))
    columns = [field.name for field in fields(RequestCost) if field.name != "custom_id"]
    rows = [
        {"asked": prints[charge.custom_id], **{f"its_{name}": getattr(charge, name) for name in columns}}
        for charge in charges
    ]
    if rows:
        connection.execute(update_attempts.values({name: bindparam(f"its_{name}") for name in columns}), rows)


def _prints_of(connection: Connection, key: int) -> dict[str, bytes]:
    """The answers that a batch asks for, by custom_id: its rows are found by these."""
    table = schema.attempts
    query = select(table.c.custom_id, table.c.fingerprint).where(table.c.batch == key)
    return dict(connection.execute(query).all())


# ---- a batch's life ------------------------------------------------------------------------------------------------


def follow_batch(connection: Connection, key: int, before: Batch, move: Move) -> None:
    """Have the attempts of a batch, and their answers, follow a move of it. Raises SentElsewhereError before it is paid
    for, where somebody has, or asks for, some of them."""
    after = move.after
    if after.state is Lifecycle.SUBMITTING and before.state is not Lifecycle.SUBMITTING:
        _open(connection, key, before)
    elif after.state is Lifecycle.PLANNED and before.state is not Lifecycle.PLANNED:
        if not after.creates_of_unknown_cost:
            _close(connection, key)
    elif after.state is Lifecycle.COLLECTED:
        _end(connection, key, move.ends)
        names = _prints_of(connection, key)
        _settle(connection, key, [names[name] for name in move.again])
        _tell_other_jobs(connection, key)
        set_charges(connection, key, move.charges)
        attempts = schema.attempts
        for chunk in chunks([names[name] for name in move.cut]):
            these = update(attempts).where(attempts.c.batch == key, attempts.c.fingerprint.in_(chunk))
            connection.execute(these.values(is_cut=True))


def _open(connection: Connection, key: int, batch: Batch) -> None:
    attempts, answers = schema.attempts, schema.answers
    mine = attempts.c.batch == key
    taken = or_(  # what may have been billed is wanted again only by a person's word, which has it WANTED
        answers.c.state.in_([AnswerState.ANSWERED, AnswerState.UNCERTAIN]),
        and_(answers.c.state == AnswerState.SENT, answers.c.batch != key),
    )
    query = select(func.count(), func.min(answers.c.batch)).select_from(attempts)
    query = query.join(answers, answers.c.fingerprint == attempts.c.fingerprint).where(mine, taken)
    number, other = connection.execute(query).one()
    if number:
        raise _sent_elsewhere(connection, batch, number, other)
    try:
        connection.execute(update(attempts).where(mine).values(is_open=True))
    except IntegrityError as error:  # another transaction opened some of them a moment ago
        raise SentElsewhereError(f"batch {batch.id}: another batch asks for some of its answers") from error
    _set_answers(connection, key, AnswerState.SENT, batch=key)


def _sent_elsewhere(connection: Connection, batch: Batch, number: int, other: int) -> SentElsewhereError:
    names = select(schema.batches.c.run_id, schema.batches.c.batch_id).where(schema.batches.c.key == other)
    run_id, batch_id = connection.execute(names).one()
    return SentElsewhereError(
        f"batch {batch.id}: {number} of its {batch.requests} answers are asked for, or were bought, elsewhere "
        f"(batch {batch_id} of run {run_id})"
    )


def _close(connection: Connection, key: int) -> None:
    mine = schema.attempts.c.batch == key
    connection.execute(update(schema.attempts).where(mine, schema.attempts.c.is_open).values(is_open=False))
    _set_answers(connection, key, AnswerState.PLANNED, schema.answers.c.batch == key)


def _end(connection: Connection, key: int, ends: Mapping[str, End]) -> None:
    """Close a batch's attempts with what came of each. Most of them end alike: one statement says so of all."""
    attempts, names = schema.attempts, _prints_of(connection, key)
    if not names:
        return
    outcomes = {name: ends[name] for name in names}
    usual, _ = Counter(outcomes.values()).most_common(1)[0]
    mine = attempts.c.batch == key
    connection.execute(update(attempts).where(mine).values(is_open=False, **_columns(usual)))
    other_ends = [{"wanted": names[name], **_columns(end)} for name, end in outcomes.items() if end != usual]
    if other_ends:
        this = update(attempts).where(mine, attempts.c.fingerprint == bindparam("wanted"))
        connection.execute(this.values(outcome=bindparam("outcome"), error_class=bindparam("error_class")), other_ends)


def _settle(connection: Connection, key: int, again: Sequence[bytes]) -> None:
    """Set the state of the answers that a collected batch asked for. ``again``: the fingerprints of those that go into
    another batch."""
    attempts, answers = schema.attempts, schema.answers
    ours = answers.c.batch == key
    answered = attempts.c.outcome == RequestOutcome.SUCCEEDED
    uncertain = and_(~answered, attempts.c.error_class.in_(PERHAPS_BILLED))
    _set_answers(connection, key, AnswerState.FAILED, ours)
    _set_answers(connection, key, AnswerState.UNCERTAIN, ours, chosen=uncertain)
    _set_answers(connection, key, AnswerState.ANSWERED, ours, chosen=answered)
    for chunk in chunks(again):
        these = update(answers).where(answers.c.fingerprint.in_(chunk), ours)
        connection.execute(these.values(state=AnswerState.WANTED))


def _tell_other_jobs(connection: Connection, key: int) -> None:
    """Note that there is news of other jobs, of whichever run, that want answers which a batch has asked for last."""
    requests, jobs, batches = schema.requests, schema.jobs, schema.batches
    attempts, answers = schema.attempts, schema.answers
    still_its = and_(answers.c.fingerprint == attempts.c.fingerprint, answers.c.batch == attempts.c.batch)
    brought = select(attempts.c.fingerprint).join(answers, still_its).where(attempts.c.batch == key)
    run_id, job_id = connection.execute(select(batches.c.run_id, batches.c.job_id).where(batches.c.key == key)).one()
    sharing = select(requests.c.job).where(requests.c.answer.in_(brought), ~requests.c.retired)
    own = and_(jobs.c.run_id == run_id, jobs.c.job_id == job_id)
    connection.execute(update(jobs).where(jobs.c.key.in_(sharing), ~own).values(news=jobs.c.news + 1))


def _columns(end: End | None) -> dict[str, object]:
    outcome, error_class = end or (None, None)
    return {"outcome": outcome, "error_class": error_class}


def _set_answers(
    connection: Connection,
    key: int,
    state: AnswerState,
    *conditions: ColumnElement[bool],
    chosen: ColumnElement[bool] | None = None,
    batch: int | None = None,
) -> None:
    """Set the state of the answers that a batch asks for, of ``chosen`` of its attempts or all, and whose they are."""
    attempts, answers = schema.attempts, schema.answers
    mine = select(attempts.c.fingerprint).where(attempts.c.batch == key)
    mine = mine if chosen is None else mine.where(chosen)
    values: dict[str, object] = {"state": state} | ({} if batch is None else {"batch": batch})
    connection.execute(update(answers).where(answers.c.fingerprint.in_(mine), *conditions).values(**values))


def batch_key(connection: Connection, run_id: str, batch_id: str) -> int:
    """Return a batch's number in the database."""
    return connection.execute(batch_key_query(run_id, batch_id)).scalar_one()


def batch_key_query(run_id: str, batch_id: str) -> Select[int]:
    """Select a batch's number in the database."""
    batches = schema.batches.c
    return select(batches.key).where(batches.run_id == run_id, batches.batch_id == batch_id)


def job_key(run_id: str, job_id: str) -> Select[int]:
    """Select a job's number in the database."""
    jobs = schema.jobs
    return select(jobs.c.key).where(jobs.c.run_id == run_id, jobs.c.job_id == job_id)
