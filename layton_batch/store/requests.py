"""Readings of requests: what a run wants, how its answers stand, and which batches asked for them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import (
    Row,
    Select,
    String,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
)

from layton_batch.clock import SystemClock
from layton_batch.records import Batch, End, ModelSpec, RequestCost
from layton_batch.states import AT_PROVIDER, AnswerState, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store import schema
from layton_batch.store.request_rows import KnownRequest
from layton_batch.store.rows import IN_CHUNK, RUN
from layton_batch.store.schema import UsdColumn
from layton_batch.store.transactions import Transactions

LEFT_SECONDS = 36 * 3600.0
"""Seconds that a batch is due before its run counts as left: a run that is driven every night is not left."""
_LAST_ATTEMPT = and_(
    schema.attempts.c.batch == schema.answers.c.batch, schema.attempts.c.fingerprint == schema.answers.c.fingerprint
)
"""Joins an answer to the attempt of its batch."""
_REQUESTS = (
    schema.requests.join(schema.jobs, schema.jobs.c.key == schema.requests.c.job)
    .join(schema.answers, schema.answers.c.fingerprint == schema.requests.c.answer)
    .outerjoin(schema.batches, schema.batches.c.key == schema.answers.c.batch)
    .outerjoin(schema.attempts, _LAST_ATTEMPT)
)
"""Requests with their jobs, the answers that they want, and the batches and attempts that asked last for these."""
_FILED = case((schema.batches.c.path != "", schema.batches.c.requests))
"""The number of filed responses of a batch; null for a batch that was never to be sent."""
_BY_NUMBER = func.length(schema.requests.c.custom_id), schema.requests.c.custom_id
"""The order of entry: numbers in custom_ids have six digits, or more."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The row of an answer. ``run_id``: of the batch that has it, asks for it or asked last."""

    state: AnswerState
    run_id: str | None


class OtherRunBatch(NamedTuple):
    """A batch of another run that has so many ``answers`` which a run waits for. ``was_left``: it was due long ago, and
    nobody has looked at it since: nobody drives that run."""

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


class AttemptLocation(NamedTuple):
    """The last attempt of a request of a job: its run and batch, and the custom_id in it."""

    job_id: str
    run_id: str
    batch_id: str
    custom_id: str


class TokenUsage(NamedTuple):
    """Tokens of a job's answers, added up. ``manifest``: of the job's run, as frozen; ``longest``: the most that one
    reply wrote beside its reasoning."""

    manifest: str
    role: Role
    spec: ModelSpec
    requests: int
    input: int
    output: int
    longest: int


class RequestCount(NamedTuple):
    """Count of a job's requests that are alike: in the state of their answers, the end of the last attempt, and,
    where a batch may bring them yet, its state and whether its file is uploaded."""

    job_id: str
    state: AnswerState
    outcome: RequestOutcome | None
    error_class: ErrorClass | None
    batch: Lifecycle | None
    is_uploaded: bool | None
    number: int


# ---- the queries, of the run ``:run``, and of its ``:job`` or its ``:batch`` -----------------------------------------

_runs, _jobs, _requests = schema.runs.c, schema.jobs.c, schema.requests.c
_answers, _attempts, _batches = schema.answers.c, schema.attempts.c, schema.batches.c
_OF_RUN, _OF_JOB = _jobs.run_id == RUN, _jobs.job_id == bindparam("job")


def _asking(*columns: Any) -> Select[Any]:
    """Select columns of the requests that a run's manifest has."""
    return select(*columns).select_from(_REQUESTS).where(_OF_RUN, ~_requests.retired)


_ALL_KNOWN = (
    select(
        _requests.custom_id, _requests.item_id, _requests.fingerprint, _requests.answer, _requests.reask,
        _requests.doublings, _requests.retired, _answers.state, _batches.key, _batches.batch_id, _batches.run_id,
        _requests.without_limit, _requests.room, func.coalesce(_attempts.is_cut, False),
    )
    .select_from(_REQUESTS)
    .where(_OF_RUN, _OF_JOB)
    .order_by(*_BY_NUMBER)
)  # fmt: skip
_TO_ASK = _ALL_KNOWN.where(
    ~_requests.retired, _answers.state.in_([AnswerState.WANTED, AnswerState.PLANNED, AnswerState.FAILED])
)
_WITH_WANTED = select(_jobs.job_id).where(
    # it is asked in each tick, and mostly finds none: so it goes from the few answers to the requests, and the state is
    # a literal, for an index of part of a table serves no parameter
    _OF_RUN,
    ~_jobs.retired,
    _jobs.key.in_(
        select(_requests.job).where(
            _requests.answer.in_(
                select(_answers.fingerprint).where(_answers.state == literal_column(f"'{AnswerState.WANTED}'"))
            ),
            ~_requests.retired,
        )
    ),
)
_UNFINISHED = (
    _asking(_jobs.job_id)
    .where(
        _jobs.job_id.in_(IN_CHUNK),
        or_(
            _answers.state.in_([AnswerState.WANTED, AnswerState.PLANNED, AnswerState.SENT]),
            and_(_batches.needs_person, _answers.state != AnswerState.ANSWERED),
        ),
    )
    .distinct()
)
_AWAITED = (
    _asking(
        _batches.run_id, _batches.batch_id, _batches.state, _batches.due_at,
        func.count(_answers.fingerprint.distinct()),
    )
    .where(~_jobs.retired, _batches.run_id != RUN, _answers.state == AnswerState.SENT)
    .group_by(_batches.run_id, _batches.batch_id, _batches.state, _batches.due_at)
    .order_by(_batches.run_id, _batches.batch_id)
)  # fmt: skip
_IS_ASKED = _attempts.custom_id.is_not(None)
_LOCATIONS = (
    _asking(
        _requests.custom_id, _requests.item_id, _requests.fingerprint, _requests.answer, _requests.reask,
        _answers.state, case((_IS_ASKED, _batches.run_id)), case((_IS_ASKED, _batches.batch_id)),
        case((_IS_ASKED, _FILED)), _attempts.custom_id,
    )
    .where(_OF_JOB)
    .order_by(*_BY_NUMBER)
)  # fmt: skip
_ANSWERED = (
    select(_answers.fingerprint, _batches.run_id, _batches.batch_id, _FILED, _attempts.custom_id)
    .join(schema.attempts, _LAST_ATTEMPT)
    .join(schema.batches, _batches.key == _attempts.batch)
    .where(_answers.state == AnswerState.ANSWERED, _answers.fingerprint.in_(IN_CHUNK))
)
_IS_TO_COME = _answers.state.in_([AnswerState.PLANNED, AnswerState.SENT])
_ALIKE = (
    _jobs.job_id, _answers.state, _attempts.outcome, _attempts.error_class, case((_IS_TO_COME, _batches.state)),
    and_(_IS_TO_COME, _batches.input_ref.is_not(None)),
)  # fmt: skip
_COUNTS = _asking(*_ALIKE, func.count()).group_by(*_ALIKE)
_PAID = (
    select(func.count(_requests.answer.distinct()))
    .join(schema.jobs, _jobs.key == _requests.job)
    .join(schema.answers, _answers.fingerprint == _requests.answer)
    .outerjoin(schema.batches, _batches.key == _answers.batch)
    .where(
        _OF_RUN,
        or_(_answers.state.in_([AnswerState.ANSWERED, AnswerState.UNCERTAIN]), _batches.state.in_(AT_PROVIDER)),
    )
)
_TOKENS = (
    select(
        _runs.manifest,
        _jobs.role,
        _jobs.spec,
        func.count(),
        func.sum(_attempts.input_tokens),
        func.sum(_attempts.output_tokens),
        func.max(_attempts.output_tokens - _attempts.reasoning_tokens),
    )
    .select_from(schema.attempts)
    .join(schema.batches, _batches.key == _attempts.batch)
    .join(schema.jobs, and_(_jobs.run_id == _batches.run_id, _jobs.job_id == _batches.job_id))
    .join(schema.runs, _runs.run_id == _jobs.run_id)
    .where(
        ~_jobs.retired,
        _jobs.role.in_([Role.PREDICT, Role.JUDGE]),
        *(_attempts[name].is_not(None) for name in ("input_tokens", "output_tokens", "reasoning_tokens")),
    )
    .group_by(_jobs.key, _runs.manifest, _jobs.role, _jobs.spec)
)
_FAILED = (
    _asking(_jobs.job_id, _batches.run_id, _batches.batch_id, _attempts.custom_id)
    .where(_answers.state.in_([AnswerState.FAILED, AnswerState.UNCERTAIN]), ~_jobs.retired, _IS_ASKED)
    .order_by(_batches.key, _attempts.line)
)
_CHARGE = [_attempts[field.name] for field in fields(RequestCost)]
_HAS_CHARGE = or_(_attempts.input_tokens.is_not(None), _attempts.unknown_cost.is_not(None))
_BOUGHT_ELSEWHERE = (
    _asking(_requests.custom_id, _batches.run_id, _batches.batch_id, *_CHARGE)
    .where(
        _OF_JOB,
        ~and_(_batches.run_id == RUN, _attempts.custom_id == _requests.custom_id),
        _answers.state == AnswerState.ANSWERED,
        _attempts.input_tokens.is_not(None),
    )
    .order_by(*_BY_NUMBER)
)
_ANSWERING = (
    _asking(_jobs.job_id, _batches.run_id, _batches.batch_id)
    .where(_answers.state == AnswerState.ANSWERED, _batches.key.is_not(None))
    .distinct()
)
_JOB_KEY = select(_jobs.key).where(_OF_RUN, _OF_JOB).scalar_subquery()
_ITEMS = (
    select(_requests.custom_id, _requests.item_id)
    .where(_requests.job == _JOB_KEY, ~_requests.retired)
    .order_by(*_BY_NUMBER)
)
_KEY_OF_BATCH = (
    select(_batches.key).where(_batches.run_id == RUN, _batches.batch_id == bindparam("batch")).scalar_subquery()
)
_IN_BATCH = _attempts.batch == _KEY_OF_BATCH
_ASKED = select(_attempts.custom_id, _attempts.max_cost).where(_IN_BATCH).order_by(_attempts.line)
_CHARGES_OF_BATCH = select(*_CHARGE).where(_IN_BATCH, _HAS_CHARGE).order_by(_attempts.line)
_ENDS = select(_attempts.custom_id, _attempts.outcome, _attempts.error_class).where(_IN_BATCH).order_by(_attempts.line)
_CHARGES = (
    select(
        _batches.batch_id,
        *(
            type_coerce(column, String) if isinstance(column.type, UsdColumn) else column
            for column in (_attempts.max_cost, *_CHARGE)
        ),
    )
    .join_from(schema.batches, schema.attempts, _batches.key == _attempts.batch)
    .where(_batches.run_id == RUN, _batches.state == Lifecycle.COLLECTED, _batches.path != "", _HAS_CHARGE)
    .order_by(_batches.key, _attempts.line)
)
_BROUGHT_ANSWERS = (
    select(_batches.batch_id)
    .where(
        _batches.run_id == RUN,
        _batches.provider_id.is_not(None),
        exists().where(_attempts.batch == _batches.key, _attempts.outcome == RequestOutcome.SUCCEEDED),
    )
    .order_by(_batches.key)
)
_RETIRED_IN_BATCH = (
    select(func.count())
    .join_from(
        schema.attempts,
        schema.requests,
        and_(_requests.custom_id == _attempts.custom_id, _requests.job == _JOB_KEY, _requests.retired),
    )
    .where(_IN_BATCH)
)
_of_batch = schema.attempts.alias("of_batch")
_GIVEN_UP = (
    select(func.sum(_batches.given_up_creates))
    .join(schema.attempts, _attempts.batch == _batches.key)
    .join(_of_batch, _of_batch.c.fingerprint == _attempts.fingerprint)
    .where(_batches.given_up_creates > 0, _of_batch.c.batch == _KEY_OF_BATCH)
    .group_by(_attempts.fingerprint)
)
_KNOWN_ANSWERS = (
    select(_answers.fingerprint, _answers.state, _batches.run_id)
    .outerjoin_from(schema.answers, schema.batches, _batches.key == _answers.batch)
    .where(_answers.fingerprint.in_(IN_CHUNK))
)
_WAS_WITHDRAWN = and_(_batches.outcome == BatchOutcome.CANCELLED, _batches.provider_id.is_(None))
_ATTEMPTED = (
    select(_attempts.fingerprint)
    .join(schema.batches, _batches.key == _attempts.batch)
    .where(
        _batches.run_id == RUN,
        or_(_batches.outcome.is_(None), ~_WAS_WITHDRAWN),
        _attempts.fingerprint.in_(IN_CHUNK),
    )
)
_TO_BE_SENT = _ATTEMPTED.where(_batches.state == Lifecycle.PLANNED)


@dataclass(slots=True)
class Requests(Transactions):
    """The requests of one run in an open store. ``now``: the time, by which other runs count as left."""

    now: Callable[[], float] = field(default_factory=lambda: SystemClock().now)

    def known_requests(self, job_id: str) -> list[KnownRequest]:
        """Return every request that a job ever had, in the order of entry."""
        return [KnownRequest(*row) for row in self._rows(_ALL_KNOWN, job=job_id)]

    def requests_to_ask(self, job_id: str) -> list[KnownRequest]:
        """Return the requests of a job for whose answers it is to write a batch, an answer once: those that are wanted,
        and those that another run was to ask for and did not, or asked for in vain while this one never did."""
        by_answer: dict[bytes, KnownRequest] = {}
        for row in self._rows(_TO_ASK, job=job_id):
            request = KnownRequest(*row)
            if request.state is AnswerState.WANTED or request.run_id != self.run_id:
                by_answer.setdefault(request.answer, request)
        failed = [request.answer for request in by_answer.values() if request.state is AnswerState.FAILED]
        planned = [request.answer for request in by_answer.values() if request.state is AnswerState.PLANNED]
        already_asked = self.attempted(failed) | self.attempted(planned, to_be_sent=True)
        return [request for request in by_answer.values() if request.answer not in already_asked]

    def jobs_with_wanted(self) -> frozenset[str]:
        """Return the jobs that want answers for which a batch is to be written."""
        return frozenset(job_id for (job_id,) in self._rows(_WITH_WANTED))

    def unfinished(self, job_ids: Collection[str]) -> frozenset[str]:
        """Return those of the jobs that want answers which may still come, in whichever run's batch, or that a person
        is to decide about."""
        return frozenset(job_id for (job_id,) in self._rows_of(_UNFINISHED, job_ids))

    def awaited_batches(self) -> list[OtherRunBatch]:
        """Return the batches of other runs that have answers which this run waits for."""
        long_ago = self.now() - LEFT_SECONDS
        return [
            OtherRunBatch(other, batch_id, state, due_at <= long_ago, count)
            for other, batch_id, state, due_at, count in self._rows(_AWAITED)
        ]

    def answer_locations(self, job_id: str) -> list[AnswerLocation]:
        """Return where the answer to each request of a job is that is not retired, in the order of entry."""
        return [AnswerLocation(*row) for row in self._rows(_LOCATIONS, job=job_id)]

    def locate_answers(self, fingerprints: Collection[bytes]) -> dict[bytes, AnswerLocation]:
        """Return where these answers are, of those that are here; the requests are left empty."""
        return {
            row[0]: AnswerLocation("", "", None, row[0], 0, AnswerState.ANSWERED, *row[1:])
            for row in self._rows_of(_ANSWERED, fingerprints)
        }

    def count_requests(self) -> list[RequestCount]:
        """Count the requests of each job that are not retired."""
        return [RequestCount(*row) for row in self._rows(_COUNTS)]

    def count_paid(self) -> int:
        """Count the requests of the run, also retired ones, whose answers were paid for, or are in a batch at a
        provider."""
        return int(self._row(_PAID)[0])

    def token_usage(self) -> list[TokenUsage]:
        """Return the tokens of the answers of each participant and judge that a run's manifest has, of all runs."""
        return [
            TokenUsage(manifest, role, spec, *map(int, sums)) for manifest, role, spec, *sums in self._rows(_TOKENS)
        ]

    def failed_requests(self) -> list[AttemptLocation]:
        """Return the requests whose last attempt brought no answer, and that no other attempt asks for.

        Those of retired jobs are left out: another run may have them tried once more, and this one is not asked then.
        """
        return [AttemptLocation(*row) for row in self._rows(_FAILED)]

    def bought_elsewhere(self, job_id: str) -> list[tuple[str, str, str, RequestCost]]:
        """Return, for each request of a job that is not retired and whose answer another request paid for, in this run
        or another one: its custom_id, the run and the batch that paid, and the charge."""
        return [
            (custom_id, other, batch_id, RequestCost(*charge))
            for custom_id, other, batch_id, *charge in self._rows(_BOUGHT_ELSEWHERE, job=job_id)
        ]

    def answering_batches(self) -> list[tuple[str, str, str]]:
        """Return job, run and batch wherever a batch has an answer that the job wants."""
        return self._once("answering", lambda: [(job, run, batch) for job, run, batch in self._rows(_ANSWERING)])

    def items_of(self, job_id: str) -> dict[str, str]:
        """Return the item of each request of a job that is not retired, by custom_id."""
        return dict(self._rows(_ITEMS, job=job_id))

    def asked_of(self, batch_id: str) -> dict[str, Decimal | None]:
        """Return the custom_ids of a batch in the order of its lines, with the most that each request can cost in
        USD."""
        return dict(self._rows(_ASKED, batch=batch_id))

    def charges_of(self, batch_id: str) -> list[RequestCost]:
        """Return the charges of a collected batch's requests, in the order of its lines."""
        return [RequestCost(*row) for row in self._rows(_CHARGES_OF_BATCH, batch=batch_id)]

    def ends_of(self, batch_id: str) -> dict[str, End]:
        """Return how the requests of a collected batch ended, by custom_id in the order of its lines."""
        return {name: (outcome, error_class) for name, outcome, error_class in self._rows(_ENDS, batch=batch_id)}

    def charges(self) -> list[Row[Any]]:
        """Return batch, upper bound and charge of each request of the run that was answered or may have been billed, in
        the order of batches and lines. Dollars are text: a large run has a hundred thousand rows."""
        return list(self._rows(_CHARGES))

    def answered_batches(self) -> list[str]:
        """Return the batches that brought answers from a provider, in the order in which they were planned."""
        return [batch_id for (batch_id,) in self._rows(_BROUGHT_ANSWERS)]

    def retired_among(self, batch: Batch) -> int:
        """Count the requests of a batch that the manifest does not ask for any more."""
        return int(self._row(_RETIRED_IN_BATCH, batch=batch.id, job=batch.job_id)[0])

    def given_up_creates(self, batch_id: str) -> int:
        """Return the most given-up creates for one of a batch's answers, of whichever batch and run."""
        return max((int(count) for (count,) in self._rows(_GIVEN_UP, batch=batch_id)), default=0)

    def known_answers(self, fingerprints: Collection[bytes]) -> dict[bytes, KnownAnswer]:
        """Return what the database knows of these answers, bought or wanted by whichever run."""
        return {row[0]: KnownAnswer(*row[1:]) for row in self._rows_of(_KNOWN_ANSWERS, fingerprints)}

    def attempted(self, fingerprints: Collection[bytes], *, to_be_sent: bool = False) -> frozenset[bytes]:
        """Return those of these answers that a batch of this run has asked for, or is to ask for; not what was
        withdrawn before it was sent. ``to_be_sent``: those alone that are in a planned batch."""
        query = _TO_BE_SENT if to_be_sent else _ATTEMPTED
        return frozenset(fingerprint for (fingerprint,) in self._rows_of(query, fingerprints))
