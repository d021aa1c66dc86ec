"""The rows of requests, answers and attempts: what is wanted, what is bought, and in which batches it was asked for.

An answer is known by its fingerprint, and bought once in the whole database: "at most one open attempt" is a unique
index, and a batch is sent only where nobody has, or asks for, any of its answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, or_, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError

from layton_batch.errors import SentElsewhereError
from layton_batch.records import Batch, Content, End
from layton_batch.states import OPEN, PERHAPS_BILLED, AnswerState, Lifecycle, RequestOutcome
from layton_batch.store import schema

CHUNK = 500
"""The number of values that one SQL statement names: SQLite takes 999 in its older versions."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class NewRequests:
    """Requests of a job that are entered, a column each, in their order."""

    custom_ids: Sequence[str]
    item_ids: Sequence[str]
    fingerprints: Sequence[bytes | None]


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The row of an answer in the database. ``custom_id``: its name in the batch; ``key``: the batch's number in the
    database; ``is_open``: the batch may bring it."""

    state: AnswerState
    key: int
    run_id: str
    batch_id: str
    custom_id: str
    is_open: bool


def asked_again(fingerprint: bytes, reask: int) -> bytes:
    """Return the fingerprint of a further answer to the same request, which was answered and is asked for once more."""
    return fingerprint if reask == 0 else sha256(b"reask %d " % reask + fingerprint).digest()


# ---- entering ------------------------------------------------------------------------------------------------------


def enter_requests(connection: Connection, run_id: str, job_id: str, new: NewRequests) -> None:
    """Enter what a job wants beside what it wanted before."""
    key = connection.execute(_job_key(run_id, job_id)).scalar_one()
    rows = zip(new.custom_ids, new.item_ids, new.fingerprints, strict=True)
    values = [
        {"job": key, "custom_id": name, "item_id": item, "fingerprint": fingerprint, "retired": False}
        for name, item, fingerprint in rows
    ]
    if values:
        connection.execute(schema.requests.insert(), values)


def keep_requests(connection: Connection, run_id: str, job_id: str, kept: Collection[str]) -> None:
    """Mark as retired the requests of a job that are not among ``kept``, custom_ids, and the others as wanted."""
    table = schema.requests
    job = table.c.job == _job_key(run_id, job_id).scalar_subquery()
    known = dict(connection.execute(select(table.c.custom_id, table.c.retired).where(job)).all())
    for retired in (True, False):
        names = [name for name, before in known.items() if before != retired and (name not in kept) == retired]
        for chunk in _chunks(names):
            connection.execute(update(table).where(job, table.c.custom_id.in_(chunk)).values(retired=retired))


def take_turn(connection: Connection) -> None:
    """Wait until no other transaction of the database enters or moves answers; they belong to all its runs.

    On SQLite every write transaction is alone from its start. Each transaction takes its own run's row first, so that
    two never wait for each other.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_ANSWERS)))


_ANSWERS = 0x616E7377
"""PostgreSQL's advisory lock on answers."""


def rebind(connection: Connection, run_id: str, job_id: str, fingerprints: Mapping[str, bytes]) -> None:
    """Have requests of a job, by custom_id, want other answers from now on."""
    table = schema.requests
    this = update(table).where(
        table.c.job == _job_key(run_id, job_id).scalar_subquery(), table.c.custom_id == bindparam("name")
    )
    rows = [{"name": name, "wanted": fingerprint} for name, fingerprint in fingerprints.items()]
    connection.execute(this.values(fingerprint=bindparam("wanted")), rows)


def enter_attempts(connection: Connection, run_id: str, batches: Sequence[Batch]) -> None:
    """Enter what batches of a run ask for, or what their requests took over from others."""
    by_job: dict[str, list[Batch]] = {}
    for batch in batches:
        if batch.content is not None:
            by_job.setdefault(batch.job_id, []).append(batch)
    for job_id, of_job in by_job.items():
        job = connection.execute(_job_key(run_id, job_id)).scalar_one()
        names = [name for batch in of_job if batch.content for name in batch.content.custom_ids]
        known = _fingerprints(connection, job, names)
        for batch in of_job:
            if batch.content is not None:
                _enter_attempts(connection, run_id, batch, batch.content, known)


def _enter_attempts(
    connection: Connection, run_id: str, planned: Batch, content: Content, known: Mapping[str, bytes]
) -> None:
    """``known``: fingerprints by custom_id."""
    batch = connection.execute(_batch_key(run_id, planned.id)).scalar_one()
    rows = {asked_again(known[name], planned.reask): name for name in content.custom_ids if name in known}
    if not rows:
        return
    named = {"batch": batch, "is_open": False, "outcome": None, "error_class": None}
    ends = {} if content.ends is None else {name: _columns(end) for name, end in content.ends.items()}
    values = [
        {**named, "fingerprint": fingerprint, "custom_id": name, **ends.get(name, {})}
        for fingerprint, name in rows.items()
    ]
    connection.execute(schema.attempts.insert(), values)
    if content.ends is None:
        _want(connection, batch, rows)


def _want(connection: Connection, batch: int, fingerprints: Collection[bytes]) -> None:
    """Have answers that nobody has or asks for be wanted from this batch, whose attempts are entered."""
    table, batches, attempts = schema.answers, schema.batches, schema.attempts
    wanted = {"state": str(AnswerState.WANTED), "batch": batch}
    _insert_new(connection, [{"fingerprint": fingerprint, **wanted} for fingerprint in fingerprints])
    query = select(table.c.fingerprint, table.c.state, batches.c.state, _is_retired())
    query = query.join(batches, batches.c.key == table.c.batch)
    query = query.join(attempts, attempts.c.fingerprint == table.c.fingerprint)
    others = query.where(attempts.c.batch == batch, table.c.batch != batch)
    free = [
        fingerprint
        for fingerprint, state, *batch_is in connection.execute(others)
        if _is_free(state, is_open=_may_bring(*batch_is))
    ]
    for chunk in _chunks(free):
        connection.execute(update(table).where(table.c.fingerprint.in_(chunk)).values(**wanted))


def _insert_new(connection: Connection, answers: Sequence[Mapping[str, object]]) -> None:
    """Enter answers; one that is there stays as it is."""
    if connection.dialect.name == "postgresql":
        connection.execute(postgresql.insert(schema.answers).on_conflict_do_nothing(), answers)
    else:
        connection.execute(schema.answers.insert().prefix_with("OR IGNORE"), answers)


def _is_free(state: str, *, is_open: bool) -> bool:
    """Return whether an answer may be wanted from another batch. ``is_open``: its own batch may bring it."""
    return state in (AnswerState.FAILED, AnswerState.UNCERTAIN) or (state == AnswerState.WANTED and not is_open)


def _is_retired() -> ColumnElement[bool]:
    """Return whether the job of a selected batch is one that the manifest does not have any more."""
    jobs, batches = schema.jobs, schema.batches
    mine = and_(jobs.c.run_id == batches.c.run_id, jobs.c.job_id == batches.c.job_id)
    return select(jobs.c.retired).where(mine).correlate(batches).scalar_subquery()


def _may_bring(state: str, is_retired: bool) -> bool:
    """Return whether a batch in this state may bring answers. What is only planned for a retired job is not sent."""
    return state in _OPEN and not (is_retired and state == Lifecycle.PLANNED)


_OPEN = frozenset(map(str, OPEN))


def _fingerprints(connection: Connection, job: int, custom_ids: Sequence[str]) -> dict[str, bytes]:
    """Fingerprints by custom_id; none of requests whose answers came from a file."""
    table = schema.requests
    query = select(table.c.custom_id, table.c.fingerprint).where(table.c.job == job, table.c.fingerprint.is_not(None))
    if len(custom_ids) > CHUNK:
        return dict(connection.execute(query).all())
    return dict(connection.execute(query.where(table.c.custom_id.in_(list(custom_ids)))).all())


# ---- a batch's life ------------------------------------------------------------------------------------------------


def follow_batch(connection: Connection, key: int, before: Batch, after: Batch, ends: Mapping[str, End]) -> None:
    """Have the attempts of a batch, and their answers, follow a move of it. ``ends``: of its requests, where it is
    collected now. Raises SentElsewhereError before it is paid for, where somebody has, or asks for, some of them."""
    if after.state is Lifecycle.SUBMITTING and before.state is not Lifecycle.SUBMITTING:
        _open(connection, key, before)
    elif after.state is Lifecycle.PLANNED and before.state is not Lifecycle.PLANNED:
        if not after.facts.creates_in_doubt:
            _close(connection, key, AnswerState.WANTED)
    elif after.state is Lifecycle.COLLECTED:
        _end(connection, key, ends)


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


def _close(connection: Connection, key: int, state: AnswerState) -> None:
    mine = schema.attempts.c.batch == key
    connection.execute(update(schema.attempts).where(mine, schema.attempts.c.is_open).values(is_open=False))
    _set_answers(connection, key, state, schema.answers.c.batch == key)


def _end(connection: Connection, key: int, ends: Mapping[str, End]) -> None:
    """Close a batch's attempts with what came of each. Most of them end alike: one statement says so of all."""
    attempts = schema.attempts
    names = dict(
        connection.execute(select(attempts.c.custom_id, attempts.c.fingerprint).where(attempts.c.batch == key)).all()
    )
    if not names:
        return
    known = {name: ends[name] for name in names}
    usual, _ = Counter(known.values()).most_common(1)[0]
    mine = attempts.c.batch == key
    connection.execute(update(attempts).where(mine).values(is_open=False, **_columns(usual)))
    others = [{"wanted": names[name], **_columns(end)} for name, end in known.items() if end != usual]
    if others:
        this = update(attempts).where(mine, attempts.c.fingerprint == bindparam("wanted"))
        connection.execute(this.values(outcome=bindparam("outcome"), error_class=bindparam("error_class")), others)
    ours = schema.answers.c.batch == key
    answered = attempts.c.outcome == str(RequestOutcome.SUCCEEDED)
    uncertain = and_(~answered, attempts.c.error_class.in_([str(cause) for cause in PERHAPS_BILLED]))
    _set_answers(connection, key, AnswerState.FAILED, ours)
    _set_answers(connection, key, AnswerState.UNCERTAIN, ours, which=uncertain)
    _set_answers(connection, key, AnswerState.ANSWERED, ours, which=answered)


def _columns(end: End) -> dict[str, str]:
    outcome, error_class = end
    return {"outcome": str(outcome), "error_class": str(error_class)}


def _set_answers(
    connection: Connection,
    key: int,
    state: AnswerState,
    *conditions: ColumnElement[bool],
    which: ColumnElement[bool] | None = None,
    batch: int | None = None,
) -> None:
    """Set the state of the answers that a batch asks for, of ``which`` of its attempts or all, and whose they are."""
    attempts, answers = schema.attempts, schema.answers
    mine = select(attempts.c.fingerprint).where(attempts.c.batch == key)
    mine = mine if which is None else mine.where(which)
    values: dict[str, object] = {"state": str(state)} | ({} if batch is None else {"batch": batch})
    connection.execute(update(answers).where(answers.c.fingerprint.in_(mine), *conditions).values(**values))


# ---- reading -------------------------------------------------------------------------------------------------------


def known_answers(connection: Connection, fingerprints: Collection[bytes]) -> dict[bytes, KnownAnswer]:
    """Return what is known of these answers; nothing of one that nobody ever wanted."""
    answers, attempts, batches = schema.answers, schema.attempts, schema.batches
    query = (
        select(
            answers.c.fingerprint, answers.c.state, batches.c.key, batches.c.run_id, batches.c.batch_id,
            attempts.c.custom_id, batches.c.state, _is_retired(),
        )
        .join(batches, batches.c.key == answers.c.batch)
        .join(attempts, and_(attempts.c.batch == answers.c.batch, attempts.c.fingerprint == answers.c.fingerprint))
    )  # fmt: skip
    known: dict[bytes, KnownAnswer] = {}
    for chunk in _chunks(list(fingerprints)):
        for row in connection.execute(query.where(answers.c.fingerprint.in_(chunk))):
            fingerprint, state, key, run_id, batch_id, custom_id, *batch_is = row
            is_open = _may_bring(*batch_is)
            known[fingerprint] = KnownAnswer(AnswerState(state), key, run_id, batch_id, custom_id, is_open)
    return known


def copies_of(connection: Connection, fingerprints: Collection[bytes]) -> dict[bytes, list[KnownAnswer]]:
    """Return every batch that has one of these answers, those that took it over too."""
    attempts, batches = schema.attempts, schema.batches
    query = select(
        attempts.c.fingerprint, batches.c.key, batches.c.run_id, batches.c.batch_id, attempts.c.custom_id
    ).join(batches, batches.c.key == attempts.c.batch)
    query = query.where(attempts.c.outcome == str(RequestOutcome.SUCCEEDED)).order_by(batches.c.key)
    copies: dict[bytes, list[KnownAnswer]] = {}
    for chunk in _chunks(list(fingerprints)):
        for fingerprint, key, run_id, batch_id, custom_id in connection.execute(
            query.where(attempts.c.fingerprint.in_(chunk))
        ):
            copy = KnownAnswer(AnswerState.ANSWERED, key, run_id, batch_id, custom_id, is_open=False)
            copies.setdefault(fingerprint, []).append(copy)
    return copies


def wanted_by(connection: Connection, run_id: str) -> frozenset[bytes]:
    """Return the fingerprints of all that a run's jobs ever wanted."""
    requests, jobs = schema.requests, schema.jobs
    query = select(requests.c.fingerprint).join(jobs, jobs.c.key == requests.c.job).where(jobs.c.run_id == run_id)
    return frozenset(connection.execute(query.where(requests.c.fingerprint.is_not(None))).scalars())


def items_of(connection: Connection, run_id: str, job_id: str) -> list[str]:
    """Return the item of each request of a job that is not retired."""
    table = schema.requests
    mine = table.c.job == _job_key(run_id, job_id).scalar_subquery()
    return list(connection.execute(select(table.c.item_id).where(mine, ~table.c.retired)).scalars())


def fingerprints_of(connection: Connection, run_id: str, job_id: str) -> dict[str, bytes]:
    """Return the fingerprints of a job's requests by custom_id."""
    table = schema.requests
    query = select(table.c.custom_id, table.c.fingerprint).where(
        table.c.job == _job_key(run_id, job_id).scalar_subquery(), table.c.fingerprint.is_not(None)
    )
    return dict(connection.execute(query).all())


def attempted(connection: Connection, key: int) -> dict[bytes, str]:
    """Return the custom_ids of a batch by the fingerprints of the answers that it asks for."""
    table = schema.attempts
    return dict(connection.execute(select(table.c.fingerprint, table.c.custom_id).where(table.c.batch == key)).all())


def open_among(connection: Connection, keys: Collection[int]) -> frozenset[int]:
    """Return those of these batches, of whatever run, that are not collected."""
    batches = schema.batches
    query = select(batches.c.key).where(batches.c.key.in_(list(keys)), batches.c.state != str(Lifecycle.COLLECTED))
    return frozenset(connection.execute(query).scalars()) if keys else frozenset()


def batch_key(connection: Connection, run_id: str, batch_id: str) -> int:
    """Return a batch's number in the database."""
    return connection.execute(_batch_key(run_id, batch_id)).scalar_one()


def _job_key(run_id: str, job_id: str) -> Select[int]:
    jobs = schema.jobs
    return select(jobs.c.key).where(jobs.c.run_id == run_id, jobs.c.job_id == job_id)


def _batch_key(run_id: str, batch_id: str) -> Select[int]:
    batches = schema.batches
    return select(batches.c.key).where(batches.c.run_id == run_id, batches.c.batch_id == batch_id)


def _chunks(values: Sequence[Value]) -> Iterator[list[Value]]:
    rest = iter(values)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
