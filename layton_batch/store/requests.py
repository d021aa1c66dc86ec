"""Readings of requests: what a run wants, how its answers stand, and which batches asked for them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, literal_column, or_, select

from layton_batch.clock import SystemClock
from layton_batch.records import Batch, End, ModelSpec, RequestCost
from layton_batch.states import AT_PROVIDER, AnswerState, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store import schema
from layton_batch.store.request_rows import KnownRequest, batch_key, chunks, job_key
from layton_batch.store.rows import spec_from_json
from layton_batch.store.transactions import Transactions

LEFT_SECONDS = 36 * 3600.0
"""Seconds that a batch is due before its run counts as left: a run that is driven every night is not left."""
_LAST_ATTEMPT = and_(
    schema.attempts.c.batch == schema.answers.c.batch, schema.attempts.c.fingerprint == schema.answers.c.fingerprint
)
"""Joins an answer to the attempt of its batch."""


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
    end: End | None
    batch: Lifecycle | None
    is_uploaded: bool
    number: int


@dataclass(slots=True)
class Requests(Transactions):
    """The requests of one run in an open store. ``now``: the time, by which other runs count as left."""

    now: Callable[[], float] = field(default_factory=lambda: SystemClock().now)

    def known_requests(self, job_id: str) -> list[KnownRequest]:
        """Return every request that a job ever had, in the order of entry."""
        with self.reading() as connection:
            query = _of_requests(self.run_id).where(schema.jobs.c.job_id == job_id)
            return [_known_request(*row) for row in connection.execute(_in_order(query))]

    def requests_to_ask(self, job_id: str) -> list[KnownRequest]:
        """Return the requests of a job for whose answers it is to write a batch, an answer once: those that are wanted,
        and those that another run was to ask for and did not, or asked for in vain while this one never did."""
        with self.reading() as connection:
            states = [str(state) for state in (AnswerState.WANTED, AnswerState.PLANNED, AnswerState.FAILED)]
            query = _of_requests(self.run_id).where(schema.jobs.c.job_id == job_id, ~schema.requests.c.retired)
            query = query.where(schema.answers.c.state.in_(states))
            by_answer: dict[bytes, KnownRequest] = {}
            for row in connection.execute(_in_order(query)):
                request = _known_request(*row)
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
        with self.reading() as connection:
            return frozenset(connection.execute(_wanted_query(self.run_id)).scalars())

    def unfinished(self, job_ids: Collection[str]) -> frozenset[str]:
        """Return those of the jobs that want answers which may still come, in whichever run's batch, or that a person
        is to decide about."""
        with self.reading() as connection:
            requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
            to_come = [str(state) for state in (AnswerState.WANTED, AnswerState.PLANNED, AnswerState.SENT)]
            undecided = and_(batches.c.needs_person, answers.c.state != str(AnswerState.ANSWERED))
            query = (
                select(jobs.c.job_id)
                .join(requests, requests.c.job == jobs.c.key)
                .join(answers, answers.c.fingerprint == requests.c.answer)
                .outerjoin(batches, batches.c.key == answers.c.batch)
                .where(jobs.c.run_id == self.run_id, ~requests.c.retired, or_(answers.c.state.in_(to_come), undecided))
                .distinct()
            )
            jobs_to_wait: set[str] = set()
            for chunk in chunks(list(job_ids)):
                jobs_to_wait |= set(connection.execute(query.where(jobs.c.job_id.in_(chunk))).scalars())
            return frozenset(jobs_to_wait)

    def awaited_batches(self) -> list[OtherRunBatch]:
        """Return the batches of other runs that have answers which this run waits for."""
        with self.reading() as connection:
            requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
            columns = batches.c.run_id, batches.c.batch_id, batches.c.state, batches.c.due_at
            query = (
                select(*columns, func.count(answers.c.fingerprint.distinct()))
                .join(answers, answers.c.batch == batches.c.key)
                .join(requests, requests.c.answer == answers.c.fingerprint)
                .join(jobs, jobs.c.key == requests.c.job)
                .where(
                    jobs.c.run_id == self.run_id, ~jobs.c.retired, ~requests.c.retired, batches.c.run_id != self.run_id
                )
                .where(answers.c.state == str(AnswerState.SENT))
                .group_by(*columns)
                .order_by(batches.c.run_id, batches.c.batch_id)
            )
            return [
                OtherRunBatch(other, batch_id, Lifecycle(state), due_at <= self.now() - LEFT_SECONDS, count)
                for other, batch_id, state, due_at, count in connection.execute(query)
            ]

    def answer_locations(self, job_id: str) -> list[AnswerLocation]:
        """Return where the answer to each request of a job is that is not retired, in the order of entry."""
        with self.reading() as connection:
            requests, jobs, answers = schema.requests, schema.jobs, schema.answers
            batches, attempts = schema.batches, schema.attempts
            query = (
                select(
                    requests.c.custom_id, requests.c.item_id, requests.c.fingerprint, requests.c.answer,
                    requests.c.reask, answers.c.state, batches.c.run_id, batches.c.batch_id, _filed(),
                    attempts.c.custom_id,
                )
                .join(jobs, jobs.c.key == requests.c.job)
                .join(answers, answers.c.fingerprint == requests.c.answer)
                .outerjoin(attempts, _LAST_ATTEMPT)
                .outerjoin(batches, batches.c.key == attempts.c.batch)
                .where(jobs.c.run_id == self.run_id, jobs.c.job_id == job_id, ~requests.c.retired)
            )  # fmt: skip
            return [_answer_location(*row) for row in connection.execute(_in_order(query))]

    def locate_answers(self, fingerprints: Collection[bytes]) -> dict[bytes, AnswerLocation]:
        """Return where these answers are, of those that are here; the requests are left empty."""
        with self.reading() as connection:
            answers, batches, attempts = schema.answers, schema.batches, schema.attempts
            query = (
                select(answers.c.fingerprint, batches.c.run_id, batches.c.batch_id, _filed(), attempts.c.custom_id)
                .join(attempts, _LAST_ATTEMPT)
                .join(batches, batches.c.key == attempts.c.batch)
                .where(answers.c.state == str(AnswerState.ANSWERED))
            )  # fmt: skip
            locations: dict[bytes, AnswerLocation] = {}
            for chunk in chunks(list(fingerprints)):
                for fingerprint, *location in connection.execute(query.where(answers.c.fingerprint.in_(chunk))):
                    locations[fingerprint] = _answer_location(
                        "", "", None, fingerprint, 0, AnswerState.ANSWERED, *location
                    )
            return locations

    def count_requests(self) -> list[RequestCount]:
        """Count the requests of each job that are not retired."""
        with self.reading() as connection:
            requests, jobs, answers = schema.requests, schema.jobs, schema.answers
            attempts, batches = schema.attempts, schema.batches
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
                .outerjoin(attempts, _LAST_ATTEMPT)
                .outerjoin(batches, batches.c.key == answers.c.batch)
                .where(jobs.c.run_id == self.run_id, ~requests.c.retired)
                .group_by(*groups)
            )
            return [_request_count(*row) for row in connection.execute(query)]

    def count_paid(self) -> int:
        """Count the requests of the run, also retired ones, whose answers were paid for, or are in a batch at a
        provider."""
        requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
        paid = answers.c.state.in_([str(AnswerState.ANSWERED), str(AnswerState.UNCERTAIN)])
        at_provider = batches.c.state.in_([str(state) for state in AT_PROVIDER])
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
            .where(~jobs.c.retired, jobs.c.role.in_([str(Role.PREDICT), str(Role.JUDGE)]), *is_known)
            .group_by(jobs.c.key, *job)
        )
        with self.reading() as connection:
            return [
                TokenUsage(manifest, Role(role), spec_from_json(spec), *map(int, sums))
                for manifest, role, spec, *sums in connection.execute(query)
            ]

    def failed_requests(self) -> list[AttemptLocation]:
        """Return the requests whose last attempt brought no answer, and that no other attempt asks for."""
        with self.reading() as connection:
            requests, jobs, answers = schema.requests, schema.jobs, schema.answers
            batches, attempts = schema.batches, schema.attempts
            query = (
                select(jobs.c.job_id, batches.c.run_id, batches.c.batch_id, attempts.c.custom_id)
                .select_from(requests)
                .join(jobs, jobs.c.key == requests.c.job)
                .join(answers, answers.c.fingerprint == requests.c.answer)
                .join(attempts, _LAST_ATTEMPT)
                .join(batches, batches.c.key == answers.c.batch)
                .where(jobs.c.run_id == self.run_id, ~requests.c.retired)
                .where(answers.c.state.in_([str(AnswerState.FAILED), str(AnswerState.UNCERTAIN)]))
                .order_by(batches.c.key, attempts.c.line)
            )
            return [AttemptLocation(*row) for row in connection.execute(query)]

    def bought_elsewhere(self, job_id: str) -> list[tuple[str, str, str, RequestCost]]:
        """Return, for each request of a job that is not retired and whose answer another request paid for, in this run
        or another one: its custom_id, the run and the batch that paid, and the charge."""
        with self.reading() as connection:
            requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
            attempts = schema.attempts
            own = and_(batches.c.run_id == self.run_id, attempts.c.custom_id == requests.c.custom_id)
            charge = [attempts.c[field.name] for field in fields(RequestCost)]
            query = (
                select(requests.c.custom_id, batches.c.run_id, batches.c.batch_id, *charge)
                .select_from(requests)
                .join(jobs, jobs.c.key == requests.c.job)
                .join(answers, answers.c.fingerprint == requests.c.answer)
                .join(attempts, _LAST_ATTEMPT)
                .join(batches, batches.c.key == answers.c.batch)
                .where(jobs.c.run_id == self.run_id, jobs.c.job_id == job_id, ~requests.c.retired, ~own)
                .where(answers.c.state == str(AnswerState.ANSWERED), attempts.c.input_tokens.is_not(None))
                .order_by(func.length(requests.c.custom_id), requests.c.custom_id)
            )
            return [
                (name, other, batch_id, RequestCost(*row)) for name, other, batch_id, *row in connection.execute(query)
            ]

    def answering_batches(self) -> list[tuple[str, str, str]]:
        """Return job, run and batch wherever a batch has an answer that the job wants."""
        with self.reading() as connection:
            requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
            query = (
                select(jobs.c.job_id, batches.c.run_id, batches.c.batch_id)
                .select_from(requests)
                .join(jobs, jobs.c.key == requests.c.job)
                .join(answers, answers.c.fingerprint == requests.c.answer)
                .join(batches, batches.c.key == answers.c.batch)
                .where(jobs.c.run_id == self.run_id, ~requests.c.retired, answers.c.state == str(AnswerState.ANSWERED))
                .distinct()
            )
            return [(job_id, other, batch_id) for job_id, other, batch_id in connection.execute(query)]

    def items_of(self, job_id: str) -> dict[str, str]:
        """Return the item of each request of a job that is not retired, by custom_id."""
        with self.reading() as connection:
            table = schema.requests
            mine = table.c.job == job_key(self.run_id, job_id).scalar_subquery()
            name = table.c.custom_id
            query = select(name, table.c.item_id).where(mine, ~table.c.retired).order_by(func.length(name), name)
            return dict(connection.execute(query).all())

    def asked_of(self, batch_id: str) -> dict[str, Decimal | None]:
        """Return the custom_ids of a batch in the order of its lines, with the most that each request can cost in
        USD."""
        with self.reading() as connection:
            key = batch_key(connection, self.run_id, batch_id)
            table = schema.attempts
            query = select(table.c.custom_id, table.c.max_cost).where(table.c.batch == key).order_by(table.c.line)
            return dict(connection.execute(query).all())

    def charges_of(self, batch_id: str) -> list[RequestCost]:
        """Return the charges of a collected batch's requests, in the order of its lines."""
        with self.reading() as connection:
            key = batch_key(connection, self.run_id, batch_id)
            table = schema.attempts
            has_charge = or_(table.c.input_tokens.is_not(None), table.c.unknown_cost.is_not(None))
            query = select(*(table.c[field.name] for field in fields(RequestCost))).where(
                table.c.batch == key, has_charge
            )
            return [RequestCost(*row) for row in connection.execute(query.order_by(table.c.line))]

    def batches_of_unknown_cost(self) -> frozenset[str]:
        """Return the collected batches with requests whose cost nobody can tell. An index has these requests alone."""
        with self.reading() as connection:
            return frozenset(connection.execute(_unknown_cost_query(self.run_id)).scalars())

    def answered_batches(self) -> list[str]:
        """Return the batches that brought answers from a provider, in the order in which they were planned."""
        with self.reading() as connection:
            attempts, batches = schema.attempts, schema.batches
            answered = and_(attempts.c.batch == batches.c.key, attempts.c.outcome == str(RequestOutcome.SUCCEEDED))
            query = select(batches.c.batch_id).where(
                batches.c.run_id == self.run_id, batches.c.provider_id.is_not(None), exists().where(answered)
            )
            return list(connection.execute(query.order_by(batches.c.key)).scalars())

    def ends_of(self, batch_id: str) -> dict[str, End]:
        """Return how the requests of a collected batch ended, by custom_id in the order of its lines."""
        with self.reading() as connection:
            key = batch_key(connection, self.run_id, batch_id)
            table = schema.attempts
            query = select(table.c.custom_id, table.c.outcome, table.c.error_class).where(table.c.batch == key)
            rows = connection.execute(query.order_by(table.c.line))
            return {name: (RequestOutcome(outcome), ErrorClass(error_class)) for name, outcome, error_class in rows}

    def retired_among(self, batch: Batch) -> int:
        """Count the requests of a batch that the manifest does not ask for any more."""
        with self.reading() as connection:
            key = batch_key(connection, self.run_id, batch.id)
            requests, attempts = schema.requests, schema.attempts
            same = and_(requests.c.custom_id == attempts.c.custom_id, attempts.c.batch == key)
            query = select(func.count()).select_from(requests).join(attempts, same)
            mine = requests.c.job == job_key(self.run_id, batch.job_id).scalar_subquery()
            return int(connection.execute(query.where(mine, requests.c.retired)).scalar_one())

    def absent_creates(self, batch_id: str) -> int:
        """Return the most creates for one of a batch's answers, of whichever batch and run, that no list showed."""
        with self.reading() as connection:
            key = batch_key(connection, self.run_id, batch_id)
            attempts, batches = schema.attempts, schema.batches
            mine = select(attempts.c.fingerprint).where(attempts.c.batch == key)
            creates = select(func.sum(batches.c.absent_creates).label("number"))
            creates = creates.join(attempts, attempts.c.batch == batches.c.key).group_by(attempts.c.fingerprint)
            creates = creates.where(batches.c.absent_creates > 0, attempts.c.fingerprint.in_(mine))
            return int(connection.execute(select(func.max(creates.subquery().c.number))).scalar() or 0)

    def known_answers(self, fingerprints: Collection[bytes]) -> dict[bytes, KnownAnswer]:
        """Return what the database knows of these answers, bought or wanted by whichever run."""
        with self.reading() as connection:
            answers, batches = schema.answers, schema.batches
            query = select(answers.c.fingerprint, answers.c.state, batches.c.run_id)
            query = query.outerjoin_from(answers, batches, batches.c.key == answers.c.batch)
            answers_by_print: dict[bytes, KnownAnswer] = {}
            for chunk in chunks(list(fingerprints)):
                for fingerprint, state, owner in connection.execute(query.where(answers.c.fingerprint.in_(chunk))):
                    answers_by_print[fingerprint] = KnownAnswer(AnswerState(state), owner)
            return answers_by_print

    def attempted(self, fingerprints: Collection[bytes], *, to_be_sent: bool = False) -> frozenset[bytes]:
        """Return those of these answers that a batch of this run has asked for, or is to ask for; not what was
        withdrawn before it was sent. ``to_be_sent``: those alone that are in a planned batch."""
        with self.reading() as connection:
            attempts, batches = schema.attempts, schema.batches
            was_withdrawn = and_(batches.c.outcome == str(BatchOutcome.CANCELLED), batches.c.provider_id.is_(None))
            query = select(attempts.c.fingerprint).join(batches, batches.c.key == attempts.c.batch)
            query = query.where(or_(batches.c.outcome.is_(None), ~was_withdrawn))
            query = query.where(batches.c.state == str(Lifecycle.PLANNED)) if to_be_sent else query
            attempted: set[bytes] = set()
            for chunk in chunks(list(fingerprints)):
                in_run = query.where(batches.c.run_id == self.run_id, attempts.c.fingerprint.in_(chunk))
                attempted |= set(connection.execute(in_run).scalars())
            return frozenset(attempted)


def _of_requests(run_id: str) -> Select[tuple[object, ...]]:
    requests, jobs, answers, batches = schema.requests, schema.jobs, schema.answers, schema.batches
    attempts = schema.attempts
    return (
        select(
            requests.c.custom_id, requests.c.item_id, requests.c.fingerprint, requests.c.answer, requests.c.reask,
            requests.c.doublings, requests.c.retired, answers.c.state, batches.c.key, batches.c.batch_id,
            batches.c.run_id, requests.c.without_limit, requests.c.room, func.coalesce(attempts.c.is_cut, False),
        )
        .join(jobs, jobs.c.key == requests.c.job)
        .join(answers, answers.c.fingerprint == requests.c.answer)
        .outerjoin(batches, batches.c.key == answers.c.batch)
        .outerjoin(attempts, _LAST_ATTEMPT)
        .where(jobs.c.run_id == run_id)
    )  # fmt: skip


def _known_request(*row: object) -> KnownRequest:
    request = KnownRequest(*row)  # type: ignore[arg-type]
    return request._replace(state=AnswerState(request.state))


def _in_order(query: Select[tuple[object, ...]]) -> Select[tuple[object, ...]]:
    """Numbers in custom_ids have six digits, or more."""
    name = schema.requests.c.custom_id
    return query.order_by(func.length(name), name)


@lru_cache(256)
def _wanted_query(run_id: str) -> Select[Any]:
    requests, jobs, answers = schema.requests, schema.jobs, schema.answers
    wanted = select(answers.c.fingerprint).where(answers.c.state == literal_column(f"'{AnswerState.WANTED}'"))
    asking = select(requests.c.job).where(requests.c.answer.in_(wanted), ~requests.c.retired)
    return select(jobs.c.job_id).where(jobs.c.run_id == run_id, ~jobs.c.retired, jobs.c.key.in_(asking))


def _filed() -> ColumnElement[int | None]:
    """Select the number of filed responses of a batch; none for a batch that was never to be sent."""
    return case((schema.batches.c.path != "", schema.batches.c.requests))


def _answer_location(*row: object) -> AnswerLocation:
    location = AnswerLocation(*row)  # type: ignore[arg-type]
    return location._replace(state=AnswerState(location.state))


def _request_count(
    job_id: str, state: str, outcome: str | None, error_class: str | None, batch: str | None, uploaded: bool, count: int
) -> RequestCount:
    end = None if outcome is None else (RequestOutcome(outcome), ErrorClass(str(error_class)))
    return RequestCount(
        job_id, AnswerState(state), end, None if batch is None else Lifecycle(batch), bool(uploaded), count
    )


@lru_cache(256)
def _unknown_cost_query(run_id: str) -> Select[Any]:
    attempts, batches = schema.attempts, schema.batches
    unknown = select(attempts.c.batch).where(attempts.c.unknown_cost.is_not(None))
    return select(batches.c.batch_id).where(batches.c.run_id == run_id, batches.c.key.in_(unknown))
