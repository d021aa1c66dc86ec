"""Readings of requests: what a run wants, how its answers stand, and which batches asked for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, String, and_, case, exists, func, literal_column, or_, select, type_coerce

from layton_batch.clock import SystemClock
from layton_batch.records import Batch, End, ModelSpec, RequestCost
from layton_batch.states import AT_PROVIDER, AnswerState, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store import schema
from layton_batch.store.request_rows import KnownRequest, batch_key_query, chunks, job_key
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


@dataclass(slots=True)
class Requests(Transactions):
    """The requests of one run in an open store. ``now``: the time, by which other runs count as left."""

    now: Callable[[], float] = field(default_factory=lambda: SystemClock().now)

    def _asking(self, *columns: Any, job_id: str | None = None, with_retired: bool = False) -> Select[Any]:
        """Select columns of the run's requests, of one job or all, as :data:`_REQUESTS` joins them."""
        jobs = schema.jobs.c
        query = select(*columns).select_from(_REQUESTS).where(jobs.run_id == self.run_id)
        query = query if job_id is None else query.where(jobs.job_id == job_id)
        return query if with_retired else query.where(~schema.requests.c.retired)

    def _known(self, job_id: str, *, with_retired: bool) -> Select[Any]:
        requests, batches = schema.requests.c, schema.batches.c
        columns = (
            requests.custom_id, requests.item_id, requests.fingerprint, requests.answer, requests.reask,
            requests.doublings, requests.retired, schema.answers.c.state, batches.key, batches.batch_id,
            batches.run_id, requests.without_limit, requests.room, func.coalesce(schema.attempts.c.is_cut, False),
        )  # fmt: skip
        return self._asking(*columns, job_id=job_id, with_retired=with_retired).order_by(*_BY_NUMBER)

    def known_requests(self, job_id: str) -> list[KnownRequest]:
        """Return every request that a job ever had, in the order of entry."""
        with self.reading() as connection:
            return [KnownRequest(*row) for row in connection.execute(self._known(job_id, with_retired=True))]

    def requests_to_ask(self, job_id: str) -> list[KnownRequest]:
        """Return the requests of a job for whose answers it is to write a batch, an answer once: those that are wanted,
        and those that another run was to ask for and did not, or asked for in vain while this one never did."""
        states = AnswerState.WANTED, AnswerState.PLANNED, AnswerState.FAILED
        query = self._known(job_id, with_retired=False).where(schema.answers.c.state.in_(states))
        by_answer: dict[bytes, KnownRequest] = {}
        with self.reading() as connection:
            for row in connection.execute(query):
                request = KnownRequest(*row)
                if request.state is AnswerState.WANTED or request.run_id != self.run_id:
                    by_answer.setdefault(request.answer, request)
        failed = [request.answer for request in by_answer.values() if request.state is AnswerState.FAILED]
        planned = [request.answer for request in by_answer.values() if request.state is AnswerState.PLANNED]
        already_asked = self.attempted(failed) | self.attempted(planned, to_be_sent=True)
        return [request for request in by_answer.values() if request.answer not in already_asked]

    def jobs_with_wanted(self) -> frozenset[str]:
        """Return the jobs that want answers for which a batch is to be written.

        It is asked in each tick, and mostly finds none. So the query goes from the few answers to the requests; the
        state in it is a literal, for an index of part of a table serves no parameter.
        """
        requests, jobs, answers = schema.requests.c, schema.jobs.c, schema.answers.c
        wanted = select(answers.fingerprint).where(answers.state == literal_column(f"'{AnswerState.WANTED}'"))
        asking = select(requests.job).where(requests.answer.in_(wanted), ~requests.retired)
        query = select(jobs.job_id).where(jobs.run_id == self.run_id, ~jobs.retired, jobs.key.in_(asking))
        with self.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def unfinished(self, job_ids: Collection[str]) -> frozenset[str]:
        """Return those of the jobs that want answers which may still come, in whichever run's batch, or that a person
        is to decide about."""
        answers = schema.answers.c
        to_come = AnswerState.WANTED, AnswerState.PLANNED, AnswerState.SENT
        undecided = and_(schema.batches.c.needs_person, answers.state != AnswerState.ANSWERED)
        query = self._asking(schema.jobs.c.job_id).where(or_(answers.state.in_(to_come), undecided)).distinct()
        jobs_to_wait: set[str] = set()
        with self.reading() as connection:
            for chunk in chunks(list(job_ids)):
                jobs_to_wait |= set(connection.execute(query.where(schema.jobs.c.job_id.in_(chunk))).scalars())
        return frozenset(jobs_to_wait)

    def awaited_batches(self) -> list[OtherRunBatch]:
        """Return the batches of other runs that have answers which this run waits for."""
        answers, batches = schema.answers.c, schema.batches.c
        columns = batches.run_id, batches.batch_id, batches.state, batches.due_at
        query = (
            self._asking(*columns, func.count(answers.fingerprint.distinct()))
            .where(~schema.jobs.c.retired, batches.run_id != self.run_id, answers.state == AnswerState.SENT)
            .group_by(*columns)
            .order_by(batches.run_id, batches.batch_id)
        )
        with self.reading() as connection:
            return [
                OtherRunBatch(other, batch_id, state, due_at <= self.now() - LEFT_SECONDS, count)
                for other, batch_id, state, due_at, count in connection.execute(query)
            ]

    def answer_locations(self, job_id: str) -> list[AnswerLocation]:
        """Return where the answer to each request of a job is that is not retired, in the order of entry."""
        requests, batches, attempts = schema.requests.c, schema.batches.c, schema.attempts.c
        is_asked = attempts.custom_id.is_not(None)
        columns = (
            requests.custom_id, requests.item_id, requests.fingerprint, requests.answer, requests.reask,
            schema.answers.c.state, case((is_asked, batches.run_id)), case((is_asked, batches.batch_id)),
            case((is_asked, _FILED)), attempts.custom_id,
        )  # fmt: skip
        with self.reading() as connection:
            rows = connection.execute(self._asking(*columns, job_id=job_id).order_by(*_BY_NUMBER))
            return [AnswerLocation(*row) for row in rows]

    def locate_answers(self, fingerprints: Collection[bytes]) -> dict[bytes, AnswerLocation]:
        """Return where these answers are, of those that are here; the requests are left empty."""
        answers, batches, attempts = schema.answers, schema.batches, schema.attempts
        query = (
            select(answers.c.fingerprint, batches.c.run_id, batches.c.batch_id, _FILED, attempts.c.custom_id)
            .join(attempts, _LAST_ATTEMPT)
            .join(batches, batches.c.key == attempts.c.batch)
            .where(answers.c.state == AnswerState.ANSWERED)
        )
        with self.reading() as connection:
            return {
                row[0]: AnswerLocation("", "", None, row[0], 0, AnswerState.ANSWERED, *row[1:])
                for chunk in chunks(list(fingerprints))
                for row in connection.execute(query.where(answers.c.fingerprint.in_(chunk)))
            }

    def count_requests(self) -> list[RequestCount]:
        """Count the requests of each job that are not retired."""
        answers, attempts, batches = schema.answers.c, schema.attempts.c, schema.batches.c
        is_to_come = answers.state.in_([AnswerState.PLANNED, AnswerState.SENT])
        groups = (
            schema.jobs.c.job_id, answers.state, attempts.outcome, attempts.error_class,
            case((is_to_come, batches.state)), and_(is_to_come, batches.input_ref.is_not(None)),
        )  # fmt: skip
        with self.reading() as connection:
            rows = connection.execute(self._asking(*groups, func.count()).group_by(*groups))
            return [RequestCount(*row) for row in rows]

    def count_paid(self) -> int:
        """Count the requests of the run, also retired ones, whose answers were paid for, or are in a batch at a
        provider."""
        requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
        paid = answers.c.state.in_([AnswerState.ANSWERED, AnswerState.UNCERTAIN])
        at_provider = batches.c.state.in_(AT_PROVIDER)
        query = (
            select(func.count(requests.c.answer.distinct()))
            .join(jobs, jobs.c.key == requests.c.job)
            .join(answers, answers.c.fingerprint == requests.c.answer)
            .outerjoin(batches, batches.c.key == answers.c.batch)
            .where(jobs.c.run_id == self.run_id, or_(paid, at_provider))
        )
        with self.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def token_usage(self) -> list[TokenUsage]:
        """Return the tokens of the answers of each participant and judge that a run's manifest has, of all runs."""
        jobs, runs, batches, attempts = schema.jobs, schema.runs, schema.batches, schema.attempts
        visible_tokens = attempts.c.output_tokens - attempts.c.reasoning_tokens
        of_job = and_(jobs.c.run_id == batches.c.run_id, jobs.c.job_id == batches.c.job_id)
        is_known = [attempts.c[name].is_not(None) for name in ("input_tokens", "output_tokens", "reasoning_tokens")]
        job = runs.c.manifest, jobs.c.role, jobs.c.spec
        query = (
            select(
                *job,
                func.count(),
                func.sum(attempts.c.input_tokens),
                func.sum(attempts.c.output_tokens),
                func.max(visible_tokens),
            )
            .select_from(attempts)
            .join(batches, batches.c.key == attempts.c.batch)
            .join(jobs, of_job)
            .join(runs, runs.c.run_id == jobs.c.run_id)
            .where(~jobs.c.retired, jobs.c.role.in_([Role.PREDICT, Role.JUDGE]), *is_known)
            .group_by(jobs.c.key, *job)
        )
        with self.reading() as connection:
            return [
                TokenUsage(manifest, role, spec, *map(int, sums))
                for manifest, role, spec, *sums in connection.execute(query)
            ]

    def failed_requests(self) -> list[AttemptLocation]:
        """Return the requests whose last attempt brought no answer, and that no other attempt asks for.

        Those of retired jobs are left out: another run may have them tried once more, and this one is not asked then.
        """
        batches, attempts = schema.batches.c, schema.attempts.c
        failed = schema.answers.c.state.in_([AnswerState.FAILED, AnswerState.UNCERTAIN])
        query = self._asking(schema.jobs.c.job_id, batches.run_id, batches.batch_id, attempts.custom_id)
        query = query.where(failed, ~schema.jobs.c.retired, attempts.custom_id.is_not(None))
        query = query.order_by(batches.key, attempts.line)
        with self.reading() as connection:
            return [AttemptLocation(*row) for row in connection.execute(query)]

    def bought_elsewhere(self, job_id: str) -> list[tuple[str, str, str, RequestCost]]:
        """Return, for each request of a job that is not retired and whose answer another request paid for, in this run
        or another one: its custom_id, the run and the batch that paid, and the charge."""
        name, batches, attempts = schema.requests.c.custom_id, schema.batches.c, schema.attempts.c
        own = and_(batches.run_id == self.run_id, attempts.custom_id == name)
        charge = [attempts[field.name] for field in fields(RequestCost)]
        query = self._asking(name, batches.run_id, batches.batch_id, *charge, job_id=job_id).where(
            ~own, schema.answers.c.state == AnswerState.ANSWERED, attempts.input_tokens.is_not(None)
        )
        with self.reading() as connection:
            rows = connection.execute(query.order_by(*_BY_NUMBER))
            return [(custom_id, other, batch_id, RequestCost(*row)) for custom_id, other, batch_id, *row in rows]

    def answering_batches(self) -> list[tuple[str, str, str]]:
        """Return job, run and batch wherever a batch has an answer that the job wants."""
        return self._once("answering", self._read_answering)

    def _read_answering(self) -> list[tuple[str, str, str]]:
        batches = schema.batches.c
        query = self._asking(schema.jobs.c.job_id, batches.run_id, batches.batch_id).distinct()
        query = query.where(schema.answers.c.state == AnswerState.ANSWERED, batches.key.is_not(None))
        with self.reading() as connection:
            return [(job_id, other, batch_id) for job_id, other, batch_id in connection.execute(query)]

    def items_of(self, job_id: str) -> dict[str, str]:
        """Return the item of each request of a job that is not retired, by custom_id."""
        table = schema.requests.c
        mine = table.job == job_key(self.run_id, job_id).scalar_subquery()
        query = select(table.custom_id, table.item_id).where(mine, ~table.retired).order_by(*_BY_NUMBER)
        with self.reading() as connection:
            return dict(connection.execute(query).all())

    def _of_batch(self, batch_id: str, *columns: Any) -> Select[Any]:
        """Select columns of a batch's attempts, in the order of its lines."""
        key = batch_key_query(self.run_id, batch_id).scalar_subquery()
        return select(*columns).where(schema.attempts.c.batch == key).order_by(schema.attempts.c.line)

    def asked_of(self, batch_id: str) -> dict[str, Decimal | None]:
        """Return the custom_ids of a batch in the order of its lines, with the most that each request can cost in
        USD."""
        attempts = schema.attempts.c
        with self.reading() as connection:
            return dict(connection.execute(self._of_batch(batch_id, attempts.custom_id, attempts.max_cost)).all())

    def charges_of(self, batch_id: str) -> list[RequestCost]:
        """Return the charges of a collected batch's requests, in the order of its lines."""
        attempts = schema.attempts.c
        has_charge = or_(attempts.input_tokens.is_not(None), attempts.unknown_cost.is_not(None))
        columns = [attempts[field.name] for field in fields(RequestCost)]
        with self.reading() as connection:
            rows = connection.execute(self._of_batch(batch_id, *columns).where(has_charge))
            return [RequestCost(*row) for row in rows]

    def ends_of(self, batch_id: str) -> dict[str, End]:
        """Return how the requests of a collected batch ended, by custom_id in the order of its lines."""
        attempts = schema.attempts.c
        columns = attempts.custom_id, attempts.outcome, attempts.error_class
        with self.reading() as connection:
            rows = connection.execute(self._of_batch(batch_id, *columns))
            return {name: (outcome, error_class) for name, outcome, error_class in rows}

    def charges(self) -> Sequence[Row[Any]]:
        """Return batch, upper bound and charge of each request of the run that was answered or may have been billed, in
        the order of batches and lines. Dollars are text: a large run has a hundred thousand rows."""
        attempts, batches = schema.attempts.c, schema.batches.c
        has_charge = or_(attempts.input_tokens.is_not(None), attempts.unknown_cost.is_not(None))
        columns = [attempts.max_cost, *(attempts[field.name] for field in fields(RequestCost))]
        plain = [type_coerce(column, String) if isinstance(column.type, UsdColumn) else column for column in columns]
        query = select(batches.batch_id, *plain).join_from(
            schema.batches, schema.attempts, batches.key == attempts.batch
        )
        mine = and_(batches.run_id == self.run_id, batches.state == Lifecycle.COLLECTED, batches.path != "")
        with self.reading() as connection:
            return connection.execute(query.where(mine, has_charge).order_by(batches.key, attempts.line)).all()

    def answered_batches(self) -> list[str]:
        """Return the batches that brought answers from a provider, in the order in which they were planned."""
        attempts, batches = schema.attempts.c, schema.batches.c
        answered = exists().where(attempts.batch == batches.key, attempts.outcome == RequestOutcome.SUCCEEDED)
        mine = and_(batches.run_id == self.run_id, batches.provider_id.is_not(None), answered)
        with self.reading() as connection:
            return list(connection.execute(select(batches.batch_id).where(mine).order_by(batches.key)).scalars())

    def retired_among(self, batch: Batch) -> int:
        """Count the requests of a batch that the manifest does not ask for any more."""
        requests, attempts = schema.requests, schema.attempts
        mine = requests.c.job == job_key(self.run_id, batch.job_id).scalar_subquery()
        same = and_(requests.c.custom_id == attempts.c.custom_id, mine, requests.c.retired)
        query = self._of_batch(batch.id, func.count()).order_by(None).join_from(attempts, requests, same)
        with self.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def given_up_creates(self, batch_id: str) -> int:
        """Return the most given-up creates for one of a batch's answers, of whichever batch and run."""
        attempts, batches = schema.attempts, schema.batches
        mine = self._of_batch(batch_id, attempts.c.fingerprint).order_by(None)
        creates = (
            select(func.sum(batches.c.given_up_creates).label("number"))
            .join(attempts, attempts.c.batch == batches.c.key)
            .where(batches.c.given_up_creates > 0, attempts.c.fingerprint.in_(mine))
            .group_by(attempts.c.fingerprint)
        )
        with self.reading() as connection:
            return int(connection.execute(select(func.max(creates.subquery().c.number))).scalar() or 0)

    def known_answers(self, fingerprints: Collection[bytes]) -> dict[bytes, KnownAnswer]:
        """Return what the database knows of these answers, bought or wanted by whichever run."""
        answers, batches = schema.answers, schema.batches
        query = select(answers.c.fingerprint, answers.c.state, batches.c.run_id)
        query = query.outerjoin_from(answers, batches, batches.c.key == answers.c.batch)
        with self.reading() as connection:
            return {
                fingerprint: KnownAnswer(state, owner)
                for chunk in chunks(list(fingerprints))
                for fingerprint, state, owner in connection.execute(query.where(answers.c.fingerprint.in_(chunk)))
            }

    def attempted(self, fingerprints: Collection[bytes], *, to_be_sent: bool = False) -> frozenset[bytes]:
        """Return those of these answers that a batch of this run has asked for, or is to ask for; not what was
        withdrawn before it was sent. ``to_be_sent``: those alone that are in a planned batch."""
        attempts, batches = schema.attempts, schema.batches
        was_withdrawn = and_(batches.c.outcome == BatchOutcome.CANCELLED, batches.c.provider_id.is_(None))
        query = select(attempts.c.fingerprint).join(batches, batches.c.key == attempts.c.batch)
        query = query.where(batches.c.run_id == self.run_id, or_(batches.c.outcome.is_(None), ~was_withdrawn))
        query = query.where(batches.c.state == Lifecycle.PLANNED) if to_be_sent else query
        attempted: set[bytes] = set()
        with self.reading() as connection:
            for chunk in chunks(list(fingerprints)):
                attempted |= set(connection.execute(query.where(attempts.c.fingerprint.in_(chunk))).scalars())
        return frozenset(attempted)
