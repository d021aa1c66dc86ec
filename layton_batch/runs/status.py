"""The status of a run: the form of ``status --json``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from layton_batch.records import Batch, Job
from layton_batch.states import (
    AT_PROVIDER,
    OPEN,
    AnswerState,
    BatchOutcome,
    ErrorClass,
    Lifecycle,
    RequestOutcome,
    Role,
)
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.store.requests import AttemptLocation, OtherRunBatch, RequestCount
    from layton_batch.store.rows import RunRow
    from layton_batch.store.run_store import RunStore


@dataclass(frozen=True, slots=True)
class ProviderTrouble:
    """Requests that wait because a provider refuses them or cannot be reached.

    ``message``: the error of the batch that was tried last, in the provider's words. ``since``: the first failure after
    the provider's last answer, ``next_try``: of the program; epoch seconds. ``needs_person``: a person has to mend what
    the message names.
    """

    provider: str
    message: str
    requests: int
    since: float | None
    next_try: float
    needs_person: bool = False


def failing_batches(batches: Sequence[Batch]) -> Mapping[str, Sequence[tuple[Batch, str]]]:
    """Return by provider the open batches whose last call failed, or whose attempt before was refused whole, each with
    the error. A lost batch is a matter of its own."""
    by_id = {batch.id: batch for batch in batches}
    failing: dict[str, list[tuple[Batch, str]]] = defaultdict(list)
    for batch in batches:
        if batch.state not in OPEN - {Lifecycle.LOST}:
            continue
        parent = by_id.get(batch.parent_id or "")
        is_unclear = batch.unclear_since is not None or batch.state is Lifecycle.SUBMITTING
        if batch.failures or (is_unclear and batch.reason):
            failing[batch.provider].append((batch, batch.reason or ""))
        elif parent is not None and _was_refused(parent):
            failing[batch.provider].append((batch, parent.reason or ""))
    return failing


def _was_refused(batch: Batch) -> bool:
    is_failed = batch.outcome is BatchOutcome.FAILED and batch.error_class is ErrorClass.RATE_LIMITED
    return is_failed or batch.error_class is ErrorClass.ACCOUNT


def provider_troubles(
    batches: Sequence[Batch], refused_since: Callable[[str], float | None]
) -> tuple[ProviderTrouble, ...]:
    """Return the trouble of each provider that has some. ``refused_since``: tells when a provider's refusals began."""
    return tuple(
        _trouble(provider, failing, refused_since(provider))
        for provider, failing in sorted(failing_batches(batches).items())
    )


def _trouble(provider: str, failing: Sequence[tuple[Batch, str]], since: float | None) -> ProviderTrouble:
    last, message = max(failing, key=lambda pair: (pair[0].needs_person, pair[0].due_at))
    heard = [moment for batch, _ in failing if (moment := batch.read_at or batch.submitted_at or batch.submitting_at)]
    return ProviderTrouble(
        provider=provider,
        message=message,
        requests=sum(batch.requests for batch, _ in failing),
        since=min(heard, default=None) if since is None else since,
        next_try=min(batch.due_at for batch, _ in failing),
        needs_person=last.needs_person,
    )


class RunState(StrEnum):
    """State of a run as a whole."""

    RUNNING = "running"
    DONE = "done"
    NEEDS_PERSON = "needs_person"
    OVER_BUDGET = "over_budget"
    CANCELLED = "cancelled"


PLACES = ("planned", "uploaded", "at_provider", "ended", "lost")
"""Places of a batch without outcomes: its file not sent yet, the file at the provider, the batch at the provider, over
and not collected, nobody knows where."""


OUTCOMES = ("succeeded", "errored", "expired", "cancelled", "missing", "waiting")
"""Fields of a job's status that count its requests by how they ended; ``waiting`` ones have not."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Numbers of a job's requests. ``requests`` is the sum of the six numbers after it.

    ``waiting`` requests have no outcome yet. ``errored`` is the sum of ``errors``, by class.
    ``where``: waiting requests by the place of their answers' batch, which any job or run may have sent.
    """

    id: str
    role: str
    provider: str
    model: str
    requests: int
    succeeded: int
    errored: int
    expired: int
    cancelled: int
    missing: int
    waiting: int
    planned: bool
    graded: bool
    errors: Mapping[str, int] = field(default_factory=dict)
    where: Mapping[str, int] = field(default_factory=dict)

    @property
    def unanswered(self) -> int:
        return self.errored + self.expired + self.cancelled + self.missing


@dataclass(frozen=True, slots=True)
class Status:
    """One reading of a run."""

    run: str
    state: RunState
    reason: str | None
    spent_usd: Decimal
    reserved_usd: Decimal
    jobs: tuple[JobStatus, ...]
    batches: tuple[Batch, ...]
    unknown_cost_usd: Decimal = Decimal(0)
    """Upper bound, beside what is spent, of the requests whose cost nobody can tell."""
    expected_ends: Mapping[str, float] = field(default_factory=dict)
    """End of each batch at a provider, if it takes as long as half of those before it; epoch seconds."""
    to_come: int = 0
    """Requests of jobs that are not planned yet, beside those that they have: a verdict of each judge on each
    answer."""
    troubles: tuple[ProviderTrouble, ...] = ()
    failed: tuple[AttemptLocation, ...] = ()
    """The requests that ended without an answer, each with its last attempt."""

    @property
    def unpriced_models(self) -> int:
        """Return the number of models that requests were sent to and whose price is unknown."""
        return len({batch.model for batch in self.batches if batch.max_cost is None and batch.provider_id})

    def waiting_for_a_person(self, reason: str) -> Status:
        """Return the same status of a run that waits for a person."""
        changes = {"state": RunState.NEEDS_PERSON, "reason": reason}  # of a run: only machine.py decides of a batch
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def above_bounds_usd(self) -> Decimal:
        """Return the dollars that batches cost beyond what was set aside for them."""
        bounded = [(batch.spent_usd, batch.max_cost) for batch in self.batches if batch.max_cost is not None]
        return sum((max(spent - bound, Decimal(0)) for spent, bound in bounded), Decimal(0))

    @property
    def complete(self) -> bool:
        """Return whether ``spent_usd`` is all that the run cost so far, not a lower bound."""
        return not self.unknown_cost_usd and not self.unpriced_models

    @property
    def unanswered(self) -> int:
        """Return the number of requests that ended without an answer and will not be sent again."""
        return sum(job.unanswered for job in self.jobs)


def read_status(store: RunStore, counted: Status | None = None) -> Status:
    """Return the run's status from the store alone; no provider is asked. ``counted``: an earlier reading since which
    nothing moved: requests are not counted again, for that costs more with every request of the run."""
    row = store.row()
    jobs, batches = store.jobs(), store.batches()
    money = store.money()
    reason = row.stopped_reason
    state = _state(row, jobs, batches)
    waits_for_others = state is RunState.RUNNING and jobs and not any(map(_goes_on, batches))
    if waits_for_others and (blocked := _blocked_by(store.awaited_batches())):
        state, reason = RunState.NEEDS_PERSON, blocked
    open_states = {batch.state for batch in batches if batch.state in OPEN}
    if not row.agreed and Lifecycle.PLANNED in open_states and open_states <= _IDLE:
        state, reason = RunState.NEEDS_PERSON, _NOT_AGREED
    statuses = job_statuses(store, jobs, cancelled=row.cancelled) if counted is None else counted.jobs
    requests = {job.id: job.requests for job in statuses}
    later = [job for job in jobs if not job.planned and job.depends_on]
    failed = counted.failed if counted else store.failed_requests() if any(job.unanswered for job in statuses) else ()
    return Status(
        run=store.run_id,
        state=state,
        reason=reason,
        spent_usd=money.spent,
        reserved_usd=money.reserved,
        unknown_cost_usd=money.unknown_cost,
        jobs=statuses,
        to_come=sum(max(requests.get(str(job.depends_on), 0) - requests[job.id], 0) for job in later),
        batches=tuple(batches),
        expected_ends=_expected_ends(batches),
        troubles=provider_troubles(batches, store.refused_since),
        failed=tuple(failed),
    )


def without_answers(status: Status, has_answered: Callable[[str], bool]) -> Iterator[tuple[Batch, str]]:
    """Yield the batches of a running run, each with the provider's words, for which a call that is over brought
    nothing: their provider has trouble, answered nothing and works on nothing. ``has_answered``: during the call."""
    if status.state is not RunState.RUNNING:
        return
    for trouble in status.troubles:
        if not has_answered(trouble.provider) and not _is_working(trouble.provider, status.batches):
            for batch in status.batches:
                if batch.provider == trouble.provider and _goes_on(batch):
                    yield batch, batch.reason or trouble.message


def _is_working(provider: str, batches: Sequence[Batch]) -> bool:
    """Return whether the provider has a batch of the run, or has ended one, without trouble."""
    failing = {batch.id for batch, _ in failing_batches(batches).get(provider, ())}
    sent = AT_PROVIDER | {Lifecycle.ENDED}
    return any(batch.provider == provider and batch.state in sent and batch.id not in failing for batch in batches)


_NOT_AGREED = "what the manifest adds is planned, and nobody agreed to send it: `layton-batch run` asks"


def _goes_on(batch: Batch) -> bool:
    return batch.state in OPEN and not waits_for_a_person(batch)


def _blocked_by(awaited: Sequence[OtherRunBatch]) -> str | None:
    """Say which other run keeps this one waiting for ever, and what to do; None: its answers may still come."""
    if not awaited or not all(batch.was_left or batch.state is Lifecycle.LOST for batch in awaited):
        return None
    first = next((batch for batch in awaited if batch.state is Lifecycle.LOST), awaited[0])
    waits = f"waits for {plural(first.answers, 'answer')} that run {first.run_id} has asked for"
    if first.state is Lifecycle.LOST:
        return (
            f"{waits} in a batch that is lost: `layton-batch resolve {first.run_id} {first.batch_id}` says where it is"
        )
    return f"{waits}, and nobody has driven that run for long: `layton-batch run` with its manifest collects them"


def job_statuses(store: RunStore, jobs: Sequence[Job], *, cancelled: bool) -> tuple[JobStatus, ...]:
    """Count the requests of the jobs by how they ended and where they are. ``cancelled``: see ``_job_status``."""
    counts: dict[str, list[RequestCount]] = defaultdict(list)
    for count in store.count_requests():
        counts[count.job_id].append(count)
    return tuple(_job_status(job, counts[job.id], cancelled=cancelled) for job in jobs)


def place(state: Lifecycle, *, is_uploaded: bool) -> str:
    """Return the one of ``PLACES`` that an open batch is in. ``is_uploaded``: its provider has its file."""
    if state in (Lifecycle.ENDED, Lifecycle.LOST):
        return str(state)
    if state in AT_PROVIDER:
        return "at_provider"
    return "uploaded" if is_uploaded or state is Lifecycle.SUBMITTING else "planned"


def missing_budget(status: Status, max_usd: Decimal) -> Decimal | None:
    """Return how many USD a budget lacks for all batches that are planned by now; None: a price is not known."""
    missing = status.spent_usd + status.reserved_usd + status.unknown_cost_usd - max_usd
    for batch in status.batches:
        if batch.state is Lifecycle.PLANNED:
            if batch.max_cost is None:
                return None
            missing += batch.max_cost
    return max(missing, Decimal(0))


def _expected_ends(batches: Sequence[Batch]) -> dict[str, float]:
    """Estimate the end of each batch at a provider (epoch seconds), by batch id.

    The estimate is the median duration of ended batches of the same provider and model, else of the provider.
    """
    took: dict[tuple[str, str | None], list[float]] = defaultdict(list)
    for batch in batches:
        if batch.submitted_at and batch.ended_at and batch.ended_at >= batch.submitted_at:
            for model in (batch.model, None):
                took[batch.provider, model].append(batch.ended_at - batch.submitted_at)
    ends = {}
    for batch in batches:
        durations = took.get((batch.provider, batch.model)) or took.get((batch.provider, None))
        if batch.state in AT_PROVIDER and batch.submitted_at and durations:
            ends[batch.id] = batch.submitted_at + median(durations)
    return ends


def is_over(row: RunRow, jobs: Sequence[Job], batches: Sequence[Batch]) -> bool:
    """Return whether a run has ended: no batch is open, and every job is graded or the run is cancelled.

    A run without jobs has not begun, unless a revision was planned: then its manifest names no model any more.
    """
    if any(batch.state in OPEN for batch in batches):
        return False
    return row.cancelled or (bool(jobs or row.applied) and all(job.graded for job in jobs))


def _state(row: RunRow, jobs: Sequence[Job], batches: Sequence[Batch]) -> RunState:
    reason = row.stopped_reason
    open_states = {batch.state for batch in batches if batch.state in OPEN}
    is_stuck = any(map(waits_for_a_person, batches))
    # what is planned for a job that is to be planned again is not sent before, and that may wait for the lost batch
    waiting = {job.id for job in jobs if not job.planned}
    goes_on = any(
        _goes_on(batch) for batch in batches if not (batch.state is Lifecycle.PLANNED and batch.job_id in waiting)
    )
    if is_over(row, jobs, batches):
        return RunState.CANCELLED if row.cancelled else RunState.DONE
    if is_stuck and (not goes_on or (open_states <= _IDLE and reason)):
        return RunState.NEEDS_PERSON
    if reason and open_states <= _IDLE:
        return RunState.OVER_BUDGET
    return RunState.RUNNING


_IDLE = frozenset({Lifecycle.PLANNED, Lifecycle.LOST})


def waits_for_a_person(batch: Batch) -> bool:
    """Return whether the batch is lost, or a person has to decide about it, or to remove the reason that it names."""
    return batch.state is Lifecycle.LOST or batch.needs_person


_ENDED = frozenset({AnswerState.ANSWERED, AnswerState.FAILED, AnswerState.UNCERTAIN})


def _job_status(job: Job, counts: Sequence[RequestCount], *, cancelled: bool) -> JobStatus:
    """Add up the requests of a job. ``cancelled``: nothing is sent any more for answers that are in no batch."""
    outcomes: Counter[RequestOutcome] = Counter()
    errors: Counter[ErrorClass] = Counter()
    where: Counter[str] = Counter()
    for group in counts:
        if group.state in _ENDED and group.outcome is not None:
            outcomes[group.outcome] += group.number
            if group.outcome is RequestOutcome.ERRORED and group.error_class is not None:
                errors[group.error_class] += group.number
        elif group.state is AnswerState.WANTED and cancelled:
            outcomes[RequestOutcome.CANCELLED] += group.number
        else:
            where[place(group.batch or Lifecycle.PLANNED, is_uploaded=bool(group.is_uploaded))] += group.number
    return JobStatus(
        id=job.id,
        role=str(job.role),
        provider=job.spec.provider,
        model=job.spec.name,
        requests=sum(group.number for group in counts),
        waiting=where.total(),
        planned=job.planned,
        graded=job.graded,
        errors={str(cause): errors[cause] for cause in ErrorClass if errors[cause]},
        where={name: where[name] for name in PLACES if where[name]},
        **{str(outcome): outcomes[outcome] for outcome in RequestOutcome},
    )


# ---- progress of models --------------------------------------------------------------------------------------------


def finished(jobs: Sequence[Job]) -> list[Job]:
    """Return the predict jobs that are graded and whose judges' jobs, if any, are graded too."""
    waiting = {job.depends_on for job in jobs if job.role is Role.JUDGE and not job.graded}
    return [job for job in jobs if job.role is Role.PREDICT and job.graded and job.id not in waiting]


def has_models(jobs: Sequence[Job]) -> bool:
    """Return whether a model takes part; a run's manifest may have lost all of them."""
    return any(job.role is Role.PREDICT for job in jobs)


def progress(jobs: Sequence[JobStatus]) -> str:
    """Return the progress of a model that is not complete, such as ``18 of 20 answered``. ``jobs``: its own and its
    judges'."""
    answered, judged = (_answered([job for job in jobs if job.role == role]) for role in (Role.PREDICT, Role.JUDGE))
    return ", ".join(filter(None, (f"{answered or 'none'} answered", judged and f"{judged} judged")))


def _answered(jobs: Sequence[JobStatus]) -> str:
    requests = sum(job.requests for job in jobs)
    return f"{sum(job.succeeded for job in jobs):,} of {requests:,}" if requests else ""
