"""The rows of requests, answers and attempts: what is wanted, what is bought, and in which batches it was asked for.

An answer is known by its fingerprint, and bought once in the whole database: "at most one open attempt" is a unique
index, and a batch is sent only where nobody has, or asks for, any of its answers. A request that wants what is there,
or on its way, finds the row: nothing is copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError

from layton_batch.errors import SentElsewhereError
from layton_batch.records import Batch, Content, End, Move, RequestCost
from layton_batch.states import PERHAPS_BILLED, AnswerState, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.store import schema

FOLLOWED = frozenset({Lifecycle.SUBMITTING, Lifecycle.PLANNED, Lifecycle.COLLECTED})
"""States of a batch whose beginning its requests and answers follow."""
CHUNK = 500
"""The number of values that one SQL statement names: SQLite takes 999 in its older versions."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NewRequests:
    """Requests of a job that are entered, a column each, in their order. ``fingerprints``: of what they ask (None:
    nobody was asked); ``answers``: of what they want; ``reasks``: how often an answer to the same was bought before."""

    custom_ids: Sequence[str]
    item_ids: Sequence[str]
    fingerprints: Sequence[bytes | None]
    answers: Sequence[bytes]
    reasks: Sequence[int]


class KnownRequest(NamedTuple):
    """A request of a job, and how the answer stands that it wants. ``run_id``: of the answer's batch."""

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


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The row of an answer. ``run_id``: of the batch that has it, asks for it or asked last."""

    state: AnswerState
    run_id: str | None


class OtherRunBatch(NamedTuple):
    """A batch of another run that has so many ``answers`` which a run waits for. ``was_left``: nobody has driven that
    run for long."""

    run_id: str
    batch_id: str
    state: Lifecycle
    was_left: bool
    answers: int


class AnswerLocation(NamedTuple):
    """A request of a job that the manifest asks, and where its answer is: under the name ``batch_custom_id`` in the
    batch ``batch_id`` of a run (None: in no batch yet), which has so many ``responses`` on file (None: nobody was
    asked)."""

    custom_id: str
    item_id: str
    fingerprint: bytes | None
    answer: bytes
    reask: int
    state: AnswerState
    run_id: str | None
    batch_id: str | None
    responses: int | None
    batch_custom_id: str | None


class RequestCount(NamedTuple):
    """Count of a job's requests that are alike: in the state of their answers, the end of the last attempt, and,
    where a batch may bring them yet, its state and whether its file is uploaded."""

    job_id: str
    state: AnswerState
    end: End | None
    batch: Lifecycle | None
    is_uploaded: bool
    number: int


def asked_again(fingerprint: bytes, reask: int) -> bytes:
    """Return the fingerprint of a further answer to the same request, which was answered and is asked for once more."""
    return fingerprint if reask == 0 else sha256(b"reask %d " % reask + fingerprint).digest()


# ---- entering ------------------------------------------------------------------------------------------------------


def enter_requests(connection: Connection, run_id: str, job_id: str, new: NewRequests) -> None:
    """Enter what a job wants beside what it wanted before."""
    key = connection.execute(_job_key(run_id, job_id)).scalar_one()
    rows = zip(new.custom_ids, new.item_ids, new.fingerprints, new.answers, new.reasks, strict=True)
    values = [
        {"job": key, "custom_id": name, "item_id": item, "fingerprint": fingerprint, "answer": answer, "reask": reask}
        for name, item, fingerprint, answer, reask in rows
    ]
    if values:
        connection.execute(schema.requests.insert().values(doublings=0, retired=False), values)


def keep_requests(connection: Connection, run_id: str, job_id: str, wanted: Collection[str]) -> None:
    """Mark as retired the requests of a job that are not among ``wanted``, custom_ids, and the others as wanted."""
    table = schema.requests
    job = table.c.job == _job_key(run_id, job_id).scalar_subquery()
    was_retired = dict(connection.execute(select(table.c.custom_id, table.c.retired).where(job)).all())
    for retired in (True, False):
        names = [name for name, was in was_retired.items() if was != retired and (name not in wanted) == retired]
        for chunk in _chunks(names):
            connection.execute(update(table).where(job, table.c.custom_id.in_(chunk)).values(retired=retired))


def retire(connection: Connection, run_id: str, job_id: str, custom_ids: Collection[str]) -> None:
    """Mark requests of a job as retired."""
    table = schema.requests
    job = table.c.job == _job_key(run_id, job_id).scalar_subquery()
    for chunk in _chunks(list(custom_ids)):
        connection.execute(update(table).where(job, table.c.custom_id.in_(chunk)).values(retired=True))


def take_turn(connection: Connection) -> None:
    """Wait until no other transaction of the database enters or moves answers; they belong to all its runs.

    On SQLite every write transaction is alone from its start. Each transaction takes its own run's row first, and then
    this turn before it touches a job, a request or an answer, so that two never wait for each other.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_ANSWERS)))


_ANSWERS = 0x616E7377
"""PostgreSQL's advisory lock on answers."""


def rebind(connection: Connection, run_id: str, job_id: str, fingerprints: Mapping[str, bytes]) -> None:
    """Have requests of a job, by custom_id, ask as others from now on, for answers of their own."""
    table = schema.requests
    this = update(table).where(
        table.c.job == _job_key(run_id, job_id).scalar_subquery(), table.c.custom_id == bindparam("name")
    )
    rows = [{"name": name, "own": fingerprint} for name, fingerprint in fingerprints.items()]
    values = {"fingerprint": bindparam("own"), "answer": bindparam("own"), "reask": 0, "doublings": 0}
    connection.execute(this.values(**values), rows)
    _enter_answers(connection, fingerprints.values(), AnswerState.WANTED, None)


def enter_attempts(connection: Connection, run_id: str, batches: Sequence[Batch]) -> None:
    """Enter what new batches of a run ask for, and what came of those that are over already."""
    contents = {batch.id: batch.content for batch in batches if batch.content is not None}
    table = schema.batches
    for chunk in _chunks(list(contents)):
        keys = select(table.c.batch_id, table.c.key).where(table.c.run_id == run_id, table.c.batch_id.in_(chunk))
        for batch_id, key in connection.execute(keys).all():
            _enter_attempts(connection, key, contents[batch_id])


def _enter_attempts(connection: Connection, key: int, content: Content) -> None:
    columns = zip(content.custom_ids, content.answers, content.max_costs, strict=True)
    ends = content.ends or {}
    nothing = (None, None)
    values = []
    for line, (name, answer, cost) in enumerate(columns):
        outcome, error_class = ends.get(name, nothing)
        values.append(
            {
                "fingerprint": answer,
                "line": line,
                "custom_id": name,
                "max_cost": cost,
                "outcome": outcome and str(outcome),
                "error_class": error_class and str(error_class),
            }
        )
    if not values:
        return
    connection.execute(schema.attempts.insert().values(batch=key, is_open=False), values)
    if _enter_answers(connection, content.answers, AnswerState.PLANNED, key) != len(values):
        answers = schema.answers
        theirs = and_(answers.c.state == str(AnswerState.PLANNED), answers.c.batch != key)
        free = or_(answers.c.state.in_([str(AnswerState.WANTED), str(AnswerState.FAILED)]), theirs)
        _set_answers(connection, key, AnswerState.PLANNED, free, batch=key)
    if content.ends is not None:
        _settle(connection, key, ())


def _enter_answers(
    connection: Connection, fingerprints: Collection[bytes], state: AnswerState, batch: int | None
) -> int:
    """Enter answers; one that is there stays as it is. Return how many are new; -1: the driver does not say."""
    values = [{"fingerprint": fingerprint} for fingerprint in fingerprints]
    if not values:
        return 0
    named = {"state": str(state), "batch": batch}
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
        table.c.job == _job_key(run_id, job_id).scalar_subquery(), table.c.custom_id == bindparam("name")
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
    in_state = table.c.state.in_([str(AnswerState.FAILED), str(AnswerState.UNCERTAIN)])
    for chunk in _chunks(list(fingerprints)):
        these = update(table).where(table.c.fingerprint.in_(chunk), in_state)
        connection.execute(these.values(state=str(AnswerState.WANTED)))


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
        if not after.facts.creates_of_unknown_cost:
            _close(connection, key)
    elif after.state is Lifecycle.COLLECTED:
        _end(connection, key, move.ends)
        names = _prints_of(connection, key)
        _settle(connection, key, [names[name] for name in move.again])
        _tell_other_jobs(connection, key)
        set_charges(connection, key, move.charges)


def _open(connection: Connection, key: int, batch: Batch) -> None:
    attempts, answers = schema.attempts, schema.answers
    mine = attempts.c.batch == key
    taken = or_(  # what may have been billed is wanted again only by a person's word, which has it WANTED
        answers.c.state.in_([str(AnswerState.ANSWERED), str(AnswerState.UNCERTAIN)]),
        and_(answers.c.state == str(AnswerState.SENT), answers.c.batch != key),
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
    answered = attempts.c.outcome == str(RequestOutcome.SUCCEEDED)
    uncertain = and_(~answered, attempts.c.error_class.in_([str(cause) for cause in PERHAPS_BILLED]))
    _set_answers(connection, key, AnswerState.FAILED, ours)
    _set_answers(connection, key, AnswerState.UNCERTAIN, ours, chosen=uncertain)
    _set_answers(connection, key, AnswerState.ANSWERED, ours, chosen=answered)
    for chunk in _chunks(again):
        these = update(answers).where(answers.c.fingerprint.in_(chunk), ours)
        connection.execute(these.values(state=str(AnswerState.WANTED)))


def _tell_other_jobs(connection: Connection, key: int) -> None:
    """Note that there is news of other jobs, of whichever run, that want answers which a batch has brought."""
    requests, jobs, batches, answers = schema.requests, schema.jobs, schema.batches, schema.answers
    brought = select(answers.c.fingerprint).join(
        schema.attempts,
        and_(schema.attempts.c.batch == answers.c.batch, schema.attempts.c.fingerprint == answers.c.fingerprint),
    )
    brought = brought.where(schema.attempts.c.batch == key, answers.c.state == str(AnswerState.ANSWERED))
    run_id, job_id = connection.execute(select(batches.c.run_id, batches.c.job_id).where(batches.c.key == key)).one()
    sharing = select(requests.c.job).where(requests.c.answer.in_(brought), ~requests.c.retired)
    own = and_(jobs.c.run_id == run_id, jobs.c.job_id == job_id)
    connection.execute(update(jobs).where(jobs.c.key.in_(sharing), ~own).values(news=jobs.c.news + 1))


def _columns(end: End) -> dict[str, str]:
    outcome, error_class = end
    return {"outcome": str(outcome), "error_class": str(error_class)}


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
    values: dict[str, object] = {"state": str(state)} | ({} if batch is None else {"batch": batch})
    connection.execute(update(answers).where(answers.c.fingerprint.in_(mine), *conditions).values(**values))


# ---- reading -------------------------------------------------------------------------------------------------------


def known_answers(connection: Connection, fingerprints: Collection[bytes]) -> dict[bytes, KnownAnswer]:
    """Return what is known of these answers; nothing of one that nobody ever wanted."""
    answers, batches = schema.answers, schema.batches
    query = select(answers.c.fingerprint, answers.c.state, batches.c.run_id)
    query = query.outerjoin_from(answers, batches, batches.c.key == answers.c.batch)
    answers_by_print: dict[bytes, KnownAnswer] = {}
    for chunk in _chunks(list(fingerprints)):
        for fingerprint, state, owner in connection.execute(query.where(answers.c.fingerprint.in_(chunk))):
            answers_by_print[fingerprint] = KnownAnswer(AnswerState(state), owner)
    return answers_by_print


def known_requests(connection: Connection, run_id: str, job_id: str) -> list[KnownRequest]:
    """Return every request that a job ever had, in the order of entry."""
    query = _of_requests(run_id).where(schema.jobs.c.job_id == job_id)
    return [_known_request(*row) for row in connection.execute(_in_order(query))]


def requests_to_ask(connection: Connection, run_id: str, job_id: str) -> list[KnownRequest]:
    """Return the requests of a job for whose answers it is to write a batch, an answer once: those that are wanted, and
    those that another run was to ask for and did not, or asked for in vain while this one never did."""
    states = [str(state) for state in (AnswerState.WANTED, AnswerState.PLANNED, AnswerState.FAILED)]
    query = _of_requests(run_id).where(schema.jobs.c.job_id == job_id, ~schema.requests.c.retired)
    query = query.where(schema.answers.c.state.in_(states))
    by_answer: dict[bytes, KnownRequest] = {}
    for row in connection.execute(_in_order(query)):
        request = _known_request(*row)
        if request.state is AnswerState.WANTED or request.run_id != run_id:
            by_answer.setdefault(request.answer, request)
    failed = [request.answer for request in by_answer.values() if request.state is AnswerState.FAILED]
    planned = [request.answer for request in by_answer.values() if request.state is AnswerState.PLANNED]
    already_asked = attempted_by(connection, run_id, failed) | attempted_by(
        connection, run_id, planned, to_be_sent=True
    )
    return [request for request in by_answer.values() if request.answer not in already_asked]


def _of_requests(run_id: str) -> Select[tuple[object, ...]]:
    requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
    return (
        select(
            requests.c.custom_id, requests.c.item_id, requests.c.fingerprint, requests.c.answer, requests.c.reask,
            requests.c.doublings, requests.c.retired, answers.c.state, batches.c.key, batches.c.batch_id,
            batches.c.run_id,
        )
        .join(jobs, jobs.c.key == requests.c.job)
        .join(answers, answers.c.fingerprint == requests.c.answer)
        .outerjoin(batches, batches.c.key == answers.c.batch)
        .where(jobs.c.run_id == run_id)
    )  # fmt: skip


def _known_request(*row: object) -> KnownRequest:
    request = KnownRequest(*row)  # type: ignore[arg-type]
    return request._replace(state=AnswerState(request.state))


def _in_order(query: Select[tuple[object, ...]]) -> Select[tuple[object, ...]]:
    """Numbers in custom_ids have six digits, or more."""
    name = schema.requests.c.custom_id
    return query.order_by(func.length(name), name)


def requests_of(connection: Connection, wanted: Collection[bytes]) -> list[tuple[bytes, str, str, str]]:
    """Return the requests of all runs that want these answers: the answer, the run's id, the job's and the item's."""
    requests, jobs = schema.requests, schema.jobs
    query = select(requests.c.answer, jobs.c.run_id, jobs.c.job_id, requests.c.item_id)
    query = query.join(jobs, jobs.c.key == requests.c.job).where(~requests.c.retired)
    return [
        (answer, run_id, job_id, item_id)
        for chunk in _chunks(list(wanted))
        for answer, run_id, job_id, item_id in connection.execute(query.where(requests.c.answer.in_(chunk)))
    ]


def attempted_by(
    connection: Connection, run_id: str, fingerprints: Collection[bytes], *, to_be_sent: bool = False
) -> frozenset[bytes]:
    """Return those of these answers that a batch of the run has asked for, or is to ask for; not what was withdrawn
    before it was sent. ``to_be_sent``: those alone that are in a planned batch."""
    attempts, batches = schema.attempts, schema.batches
    was_withdrawn = and_(batches.c.outcome == str(BatchOutcome.CANCELLED), batches.c.provider_id.is_(None))
    query = select(attempts.c.fingerprint).join(batches, batches.c.key == attempts.c.batch)
    query = query.where(or_(batches.c.outcome.is_(None), ~was_withdrawn))
    query = query.where(batches.c.state == str(Lifecycle.PLANNED)) if to_be_sent else query
    attempted: set[bytes] = set()
    for chunk in _chunks(list(fingerprints)):
        in_run = query.where(batches.c.run_id == run_id, attempts.c.fingerprint.in_(chunk))
        attempted |= set(connection.execute(in_run).scalars())
    return frozenset(attempted)


def jobs_with_wanted(connection: Connection, run_id: str) -> frozenset[str]:
    """Return the jobs of a run that want answers for which a batch is to be written.

    It is asked in each tick, and mostly finds none. So it goes from the few answers to the requests: the state is a
    literal, for an index of part of a table serves no parameter.
    """
    return frozenset(connection.execute(_wanted_query(run_id)).scalars())


@lru_cache(256)
def _wanted_query(run_id: str) -> Select[Any]:
    requests, jobs, answers = schema.requests, schema.jobs, schema.answers
    wanted = select(answers.c.fingerprint).where(answers.c.state == literal_column(f"'{AnswerState.WANTED}'"))
    asking = select(requests.c.job).where(requests.c.answer.in_(wanted), ~requests.c.retired)
    return select(jobs.c.job_id).where(jobs.c.run_id == run_id, ~jobs.c.retired, jobs.c.key.in_(asking))


def unfinished(connection: Connection, run_id: str, job_ids: Collection[str]) -> frozenset[str]:
    """Return those of a run's jobs that want answers which may still come, in whichever run's batch."""
    requests, jobs, answers = schema.requests, schema.jobs, schema.answers
    to_come = [str(state) for state in (AnswerState.WANTED, AnswerState.PLANNED, AnswerState.SENT)]
    query = (
        select(jobs.c.job_id)
        .join(requests, requests.c.job == jobs.c.key)
        .join(answers, answers.c.fingerprint == requests.c.answer)
        .where(jobs.c.run_id == run_id, ~requests.c.retired, answers.c.state.in_(to_come))
        .distinct()
    )
    jobs_to_wait: set[str] = set()
    for chunk in _chunks(list(job_ids)):
        jobs_to_wait |= set(connection.execute(query.where(jobs.c.job_id.in_(chunk))).scalars())
    return frozenset(jobs_to_wait)


def awaited_batches(connection: Connection, run_id: str, was_left: ColumnElement[bool]) -> list[OtherRunBatch]:
    """Return the batches of other runs that a run waits for. ``was_left``: the condition on a run's row."""
    requests, jobs, answers, batches, runs = (
        schema.requests, schema.jobs, schema.answers, schema.batches, schema.runs,
    )  # fmt: skip
    columns = batches.c.run_id, batches.c.batch_id, batches.c.state, was_left
    query = (
        select(*columns, func.count(answers.c.fingerprint.distinct()))
        .join(answers, answers.c.batch == batches.c.key)
        .join(requests, requests.c.answer == answers.c.fingerprint)
        .join(jobs, jobs.c.key == requests.c.job)
        .join(runs, runs.c.run_id == batches.c.run_id)
        .where(jobs.c.run_id == run_id, ~jobs.c.retired, ~requests.c.retired, batches.c.run_id != run_id)
        .where(answers.c.state == str(AnswerState.SENT))
        .group_by(*columns)
        .order_by(batches.c.run_id, batches.c.batch_id)
    )
    return [
        OtherRunBatch(other, batch_id, Lifecycle(state), bool(is_left), count)
        for other, batch_id, state, is_left, count in connection.execute(query)
    ]


def answer_locations(connection: Connection, run_id: str, job_id: str) -> list[AnswerLocation]:
    """Return where the answer to each request of a job is that is not retired, in the order of entry."""
    requests, jobs, answers = schema.requests, schema.jobs, schema.answers
    batches, attempts = schema.batches, schema.attempts
    same = and_(attempts.c.batch == answers.c.batch, attempts.c.fingerprint == answers.c.fingerprint)
    query = (
        select(
            requests.c.custom_id, requests.c.item_id, requests.c.fingerprint, requests.c.answer, requests.c.reask,
            answers.c.state, batches.c.run_id, batches.c.batch_id, _filed(), attempts.c.custom_id,
        )
        .join(jobs, jobs.c.key == requests.c.job)
        .join(answers, answers.c.fingerprint == requests.c.answer)
        .outerjoin(attempts, same)
        .outerjoin(batches, batches.c.key == attempts.c.batch)
        .where(jobs.c.run_id == run_id, jobs.c.job_id == job_id, ~requests.c.retired)
    )  # fmt: skip
    return [_answer_location(*row) for row in connection.execute(_in_order(query))]


def _filed() -> ColumnElement[int | None]:
    """Select the number of filed responses of a batch; none for a batch that was never to be sent."""
    return case((schema.batches.c.path != "", schema.batches.c.requests))


def _answer_location(*row: object) -> AnswerLocation:
    location = AnswerLocation(*row)  # type: ignore[arg-type]
    return location._replace(state=AnswerState(location.state))


def locate_answers(connection: Connection, fingerprints: Collection[bytes]) -> dict[bytes, AnswerLocation]:
    """Return where these answers are, of those that are here; the requests are left empty."""
    answers, batches, attempts = schema.answers, schema.batches, schema.attempts
    same = and_(attempts.c.batch == answers.c.batch, attempts.c.fingerprint == answers.c.fingerprint)
    query = (
        select(answers.c.fingerprint, batches.c.run_id, batches.c.batch_id, _filed(), attempts.c.custom_id)
        .join(attempts, same)
        .join(batches, batches.c.key == attempts.c.batch)
        .where(answers.c.state == str(AnswerState.ANSWERED))
    )  # fmt: skip
    locations: dict[bytes, AnswerLocation] = {}
    for chunk in _chunks(list(fingerprints)):
        for fingerprint, *location in connection.execute(query.where(answers.c.fingerprint.in_(chunk))):
            locations[fingerprint] = _answer_location("", "", None, fingerprint, 0, AnswerState.ANSWERED, *location)
    return locations


def bought_elsewhere(connection: Connection, run_id: str, job_id: str) -> list[tuple[str, str, str, RequestCost]]:
    """Return, for each request of a job that is not retired and whose answer another request paid for, in this run or
    another one: its custom_id, the run and the batch that paid, and the charge."""
    requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
    attempts = schema.attempts
    same = and_(attempts.c.batch == answers.c.batch, attempts.c.fingerprint == answers.c.fingerprint)
    own = and_(batches.c.run_id == run_id, attempts.c.custom_id == requests.c.custom_id)
    charge = [attempts.c[field.name] for field in fields(RequestCost)]
    query = (
        select(requests.c.custom_id, batches.c.run_id, batches.c.batch_id, *charge)
        .select_from(requests)
        .join(jobs, jobs.c.key == requests.c.job)
        .join(answers, answers.c.fingerprint == requests.c.answer)
        .join(attempts, same)
        .join(batches, batches.c.key == answers.c.batch)
        .where(jobs.c.run_id == run_id, jobs.c.job_id == job_id, ~requests.c.retired, ~own)
        .where(answers.c.state == str(AnswerState.ANSWERED), attempts.c.input_tokens.is_not(None))
        .order_by(func.length(requests.c.custom_id), requests.c.custom_id)
    )
    return [(name, other, batch_id, RequestCost(*row)) for name, other, batch_id, *row in connection.execute(query)]


def answering_batches(connection: Connection, run_id: str) -> list[tuple[str, str, str]]:
    """Return job, run and batch wherever a batch has an answer that the job wants."""
    requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
    query = (
        select(jobs.c.job_id, batches.c.run_id, batches.c.batch_id)
        .select_from(requests)
        .join(jobs, jobs.c.key == requests.c.job)
        .join(answers, answers.c.fingerprint == requests.c.answer)
        .join(batches, batches.c.key == answers.c.batch)
        .where(jobs.c.run_id == run_id, ~requests.c.retired, answers.c.state == str(AnswerState.ANSWERED))
        .distinct()
    )
    return [(job_id, other, batch_id) for job_id, other, batch_id in connection.execute(query)]


def count_requests(connection: Connection, run_id: str) -> list[RequestCount]:
    """Count the requests of each job of a run that are not retired."""
    requests, jobs, answers = schema.requests, schema.jobs, schema.answers
    attempts, batches = schema.attempts, schema.batches
    same = and_(attempts.c.batch == answers.c.batch, attempts.c.fingerprint == answers.c.fingerprint)
    is_to_come = answers.c.state.in_([str(AnswerState.PLANNED), str(AnswerState.SENT)])
    groups = (
        jobs.c.job_id, answers.c.state, attempts.c.outcome, attempts.c.error_class,
        case((is_to_come, batches.c.state)), and_(is_to_come, batches.c.input_ref.is_not(None)),
    )  # fmt: skip
    query = (
        select(*groups, func.count())
        .select_from(requests)
        .join(jobs, jobs.c.key == requests.c.job)
        .join(answers, answers.c.fingerprint == requests.c.answer)
        .outerjoin(attempts, same)
        .outerjoin(batches, batches.c.key == answers.c.batch)
        .where(jobs.c.run_id == run_id, ~requests.c.retired)
        .group_by(*groups)
    )
    return [_request_count(*row) for row in connection.execute(query)]


def _request_count(
    job_id: str, state: str, outcome: str | None, error_class: str | None, batch: str | None, uploaded: bool, count: int
) -> RequestCount:
    end = None if outcome is None else (RequestOutcome(outcome), ErrorClass(str(error_class)))
    return RequestCount(
        job_id, AnswerState(state), end, None if batch is None else Lifecycle(batch), bool(uploaded), count
    )


def items_of(connection: Connection, run_id: str, job_id: str) -> dict[str, str]:
    """Return the item of each request of a job that is not retired, by custom_id."""
    table = schema.requests
    mine = table.c.job == _job_key(run_id, job_id).scalar_subquery()
    name = table.c.custom_id
    query = select(name, table.c.item_id).where(mine, ~table.c.retired).order_by(func.length(name), name)
    return dict(connection.execute(query).all())


def asked_of(connection: Connection, key: int) -> dict[str, Decimal | None]:
    """Return the custom_ids of a batch in the order of its lines, with the most that each request can cost in USD."""
    table = schema.attempts
    query = select(table.c.custom_id, table.c.max_cost).where(table.c.batch == key).order_by(table.c.line)
    return dict(connection.execute(query).all())


def ends_of(connection: Connection, key: int) -> dict[str, End]:
    """Return how the requests of a collected batch ended, by custom_id in the order of its lines."""
    table = schema.attempts
    query = select(table.c.custom_id, table.c.outcome, table.c.error_class).where(table.c.batch == key)
    rows = connection.execute(query.order_by(table.c.line))
    return {name: (RequestOutcome(outcome), ErrorClass(error_class)) for name, outcome, error_class in rows}


def charges_of(connection: Connection, key: int) -> list[RequestCost]:
    """Return the charges of a batch's requests that were answered, or may have been billed, in the order of lines."""
    table = schema.attempts
    has_charge = or_(table.c.input_tokens.is_not(None), table.c.unknown_cost.is_not(None))
    query = select(*(table.c[field.name] for field in fields(RequestCost))).where(table.c.batch == key, has_charge)
    return [RequestCost(*row) for row in connection.execute(query.order_by(table.c.line))]


def batches_of_unknown_cost(connection: Connection, run_id: str) -> frozenset[str]:
    """Return the batches of a run with requests whose cost nobody can tell. An index has these requests alone."""
    return frozenset(connection.execute(_unknown_cost_query(run_id)).scalars())


@lru_cache(256)
def _unknown_cost_query(run_id: str) -> Select[Any]:
    attempts, batches = schema.attempts, schema.batches
    unknown = select(attempts.c.batch).where(attempts.c.unknown_cost.is_not(None))
    return select(batches.c.batch_id).where(batches.c.run_id == run_id, batches.c.key.in_(unknown))


def answered_batches(connection: Connection, run_id: str) -> list[str]:
    """Return the batches of a run that brought answers from a provider, in the order in which they were planned."""
    attempts, batches = schema.attempts, schema.batches
    answered = and_(attempts.c.batch == batches.c.key, attempts.c.outcome == str(RequestOutcome.SUCCEEDED))
    query = select(batches.c.batch_id).where(
        batches.c.run_id == run_id, batches.c.provider_id.is_not(None), exists().where(answered)
    )
    return list(connection.execute(query.order_by(batches.c.key)).scalars())


def retired_among(connection: Connection, run_id: str, job_id: str, key: int) -> int:
    """Count the requests of a batch that the manifest does not ask for any more."""
    requests, attempts = schema.requests, schema.attempts
    same = and_(requests.c.custom_id == attempts.c.custom_id, attempts.c.batch == key)
    query = select(func.count()).select_from(requests).join(attempts, same)
    mine = requests.c.job == _job_key(run_id, job_id).scalar_subquery()
    return int(connection.execute(query.where(mine, requests.c.retired)).scalar_one())


def was_absent_before(connection: Connection, key: int) -> bool:
    """Tell whether a create of another batch for some of the same answers was given up, because no list showed it."""
    attempts, batches = schema.attempts, schema.batches
    mine = select(attempts.c.fingerprint).where(attempts.c.batch == key)
    query = select(batches.c.key).join(attempts, attempts.c.batch == batches.c.key)
    query = query.where(batches.c.key != key, batches.c.absent_creates > 0, attempts.c.fingerprint.in_(mine))
    return connection.execute(query.limit(1)).first() is not None


def batch_key(connection: Connection, run_id: str, batch_id: str) -> int:
    """Return a batch's number in the database."""
    batches = schema.batches
    query: Select[int] = select(batches.c.key).where(batches.c.run_id == run_id, batches.c.batch_id == batch_id)
    return connection.execute(query).scalar_one()


def _job_key(run_id: str, job_id: str) -> Select[int]:
    jobs = schema.jobs
    return select(jobs.c.key).where(jobs.c.run_id == run_id, jobs.c.job_id == job_id)


def _chunks(values: Sequence[Value]) -> Iterator[list[Value]]:
    rest = iter(values)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
