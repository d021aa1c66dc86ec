"""The status of a run: the form of ``status --json``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from layton_batch.records import Batch, Job
from layton_batch.states import AT_PROVIDER, OPEN, AnswerState, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.text import plural

if TYPE_CHECKING:
    from layton_batch.store.request_rows import OtherRunBatch, RequestCount
    from layton_batch.store.rows import RunRow
    from layton_batch.store.run_store import RunStore


class RunState(StrEnum):
    """State of a run as a whole."""

    RUNNING = "running"
    DONE = "done"
    NEEDS_PERSON = "needs_person"
    OVER_BUDGET = "over_budget"
    CANCELLED = "cancelled"


PLACES = ("planned", "uploaded", "at_provider", "ended", "lost")
"""Where a batch without outcomes is: its file not sent yet, the file at the provider, the batch at the provider, over
and not collected, nobody knows where."""


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
    """What requests may have cost at most, beside what is spent, whose cost nobody can tell."""
    expected_ends: Mapping[str, float] = field(default_factory=dict)
    """By batch at a provider: when it ends, if it takes as long as half of those before it; epoch seconds."""

    @property
    def unpriced_models(self) -> int:
        """Return the number of models that requests were sent to and whose price is unknown."""
        return len({batch.model for batch in self.batches if batch.max_cost is None and batch.provider_id})

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
    reason, cancelled = row.stopped_reason if row else None, bool(row and row.cancelled)
    state = _state(row, jobs, batches)
    waits_for_others = state is RunState.RUNNING and jobs and not any(map(_goes_on, batches))
    if waits_for_others and (blocked := _blocked_by(store.awaited_batches())):
        state, reason = RunState.NEEDS_PERSON, blocked
    return Status(
        run=store.run_id,
        state=state,
        reason=reason,
        spent_usd=money.spent,
        reserved_usd=money.reserved,
        unknown_cost_usd=money.unknown_cost,
        jobs=_job_statuses(store, jobs, cancelled=cancelled) if counted is None else counted.jobs,
        batches=tuple(batches),
        expected_ends=_expected_ends(batches),
    )


def _goes_on(batch: Batch) -> bool:
    return batch.state in OPEN and not waits_for_a_person(batch)


def _blocked_by(awaited: Sequence[OtherRunBatch]) -> str | None:
    """Say which other run keeps this one waiting for ever, and what to do; None: a driver may still bring answers."""
    if not awaited or not all(batch.was_left or batch.state is Lifecycle.LOST for batch in awaited):
        return None
    first = next((batch for batch in awaited if batch.state is Lifecycle.LOST), awaited[0])
    waits = f"waits for {plural(first.answers, 'answer')} that run {first.run_id} has asked for"
    if first.state is Lifecycle.LOST:
        return (
            f"{waits} in a batch that is lost: `layton-batch resolve {first.run_id} {first.batch_id}` says where it is"
        )
    return f"{waits}, and nobody has driven that run for long: `layton-batch run` with its manifest collects them"


def _job_statuses(store: RunStore, jobs: Sequence[Job], *, cancelled: bool) -> tuple[JobStatus, ...]:
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


def reserved(batch: Batch) -> Decimal:
    """Return the budget's reserve for a batch, in USD."""
    return Decimal(0) if batch.state not in OPEN - {Lifecycle.PLANNED} else batch.max_cost or Decimal(0)


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


def is_over(row: RunRow | None, jobs: Sequence[Job], batches: Sequence[Batch]) -> bool:
    """Return whether a run has ended: no batch is open, and every job is graded or the run is cancelled.

    A run without jobs has not begun, unless a revision was planned: then its manifest names no model any more.
    """
    is_planned = bool(jobs) or (row is not None and row.applied is not None)
    if row is None or not is_planned or any(batch.state in OPEN for batch in batches):
        return False
    return row.cancelled or all(job.graded for job in jobs)


def _state(row: RunRow | None, jobs: Sequence[Job], batches: Sequence[Batch]) -> RunState:
    cancelled, reason = bool(row and row.cancelled), row.stopped_reason if row else None
    open_states = {batch.state for batch in batches if batch.state in OPEN}
    is_stuck = any(map(waits_for_a_person, batches))
    if is_over(row, jobs, batches):
        return RunState.CANCELLED if cancelled else RunState.DONE
    if cancelled and not open_states:
        return RunState.CANCELLED  # before anything was planned
    if is_stuck and (not any(map(_goes_on, batches)) or (open_states <= _IDLE and reason)):
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
        if group.state in _ENDED and group.end is not None:
            outcome, error_class = group.end
            outcomes[outcome] += group.number
            errors[error_class] += group.number * (outcome is RequestOutcome.ERRORED)
        elif group.state is AnswerState.WANTED and cancelled:
            outcomes[RequestOutcome.CANCELLED] += group.number
        else:
            where[place(group.batch or Lifecycle.PLANNED, is_uploaded=group.is_uploaded)] += group.number
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
