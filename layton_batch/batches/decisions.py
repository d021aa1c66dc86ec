"""One step of a batch: a stage fetches, the machine decides, ``carry_out`` applies. And what ends a lane: a provider
that does not answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from layton_batch.batches import machine
from layton_batch.batches.doubt import given_up, set_down
from layton_batch.errors import (
    AmbiguousCallError,
    ProviderError,
    RunCancelledError,
    TransientProviderError,
)
from layton_batch.providers.protocol import seconds_of
from layton_batch.records import Batch, ListReading, Move, Snapshot, Wait
from layton_batch.runs.context import Run


class NoAnswer(Exception):
    """A provider did not answer at all: what else was to be asked of it now would only wait as long."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__(str(error))
        self.error = error

    @classmethod
    def check(cls, error: ProviderError) -> None:
        """Raises NoAnswer where the error is that; what has a status, or was read, is an answer."""
        if error.status is None and isinstance(error, TransientProviderError | AmbiguousCallError):
            raise cls(error) from error


@dataclass(slots=True)
class Answering:
    """Of a tick: which providers answer, by stage. The first question to each is asked while its other lanes wait."""

    _answers: dict[str, bool] = field(default_factory=dict)
    _locks: defaultdict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))

    def ask(self, stage: str, question: Callable[[], bool]) -> bool | None:
        """What the question came to; None where the provider is known not to answer. Raises NoAnswer."""
        with self._locks[stage]:
            if stage not in self._answers:
                return self._asked(stage, question)
        return self._asked(stage, question) if self._answers[stage] else None

    def _asked(self, stage: str, question: Callable[[], bool]) -> bool:
        try:
            moved = question()
        except NoAnswer:
            self.not_heard(stage)
            raise
        self._answers.setdefault(stage, True)
        return moved

    def not_heard(self, stage: str) -> None:
        """Nothing more is to be asked in this tick."""
        self._answers[stage] = False

    def is_silent(self, stage: str) -> bool:
        """Whether the provider is known not to answer."""
        return not self._answers.get(stage, True)


@dataclass(slots=True)
class Readings:
    """Of a tick: what a provider said, a moment ago, of batches that have ended."""

    _ended: dict[str, Snapshot] = field(default_factory=dict)

    def keep(self, batch: Batch, reading: Snapshot) -> None:
        self._ended[batch.id] = reading

    def take(self, batch: Batch) -> Snapshot | None:
        """Once: who asks again wants to know more than is known."""
        return self._ended.pop(batch.id, None)


LIST_SECONDS = 10.0
"""A list that was begun longer ago, because others were created in between, is read again before a create."""


@dataclass(slots=True)
class Lists:
    """The last reading of each provider's list of batches in a tick."""

    _last: dict[str, ListReading] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def reading(self, batch: Batch, now: float) -> ListReading:
        """Return the reading that counts before the batch is created: one of its own where a create was tried before,
        for the list must show what became of that."""
        if batch.submitting_at is not None:
            return ListReading(now)
        with self._lock:
            last = self._last.get(batch.provider)
            if last is None or abs(now - last.begun) > LIST_SECONDS:
                last = self._last[batch.provider] = ListReading(now)
            return last


def new_tick(run: Run) -> None:
    """Nothing that a provider said before counts any more."""
    for known in (Answering, Readings, Lists):
        run.kept.pop(known, None)


def at(run: Run, batch: Batch) -> machine.At:
    """Now, with what the batch's provider and the manifest allow."""
    dialect, hours = run.providers.dialect(batch.provider), run.manifest.policy.deadline_hours
    limits, pacing = dialect.limits, run.pacing
    window = limits.window_seconds if (asked := run.window(batch)) is None else seconds_of(asked)
    return machine.At(
        now=run.clock.now(),
        pacing=pacing,
        poll=limits.poll_seconds * pacing.advised if pacing.poll is None else pacing.poll,
        deadline=window + 86_400 if hours is None else hours * 3600,
        window=window,
        retention=limits.retention_seconds,
        shows_absence=dialect.capabilities.certain_find,
        run_began=run.born,
    )


def step_each(run: Run, stage: str, batches: Iterable[Batch], step: Callable[[Batch], bool]) -> bool:
    """Take one step with each batch, one after another, and return whether any batch moved. End early where the program
    is to stop, the run was cancelled, or the provider does not answer: each other batch would wait as long for nothing.
    """
    answering: Answering = run.kept.setdefault(Answering, Answering())
    moved = False
    for batch in batches:
        if run.stopping.is_set():
            break
        try:
            has_moved = answering.ask(stage, partial(step, batch))
        except (NoAnswer, RunCancelledError):
            break
        if has_moved is None:
            break
        moved |= has_moved
    return moved


@dataclass(frozen=True, slots=True)
class Step:
    """A decision of the machine from what a stage fetched. ``error``: the failed call that it rests on."""

    decision: Move | Wait
    error: ProviderError | None = None


def carry_out(run: Run, batch: Batch, step: Step) -> bool:
    """Apply the decision of a step, and return whether it moved the batch. Raises NoAnswer, after that, where the
    provider did not answer at all."""
    moved = apply(run, batch, step.decision)
    if step.error is not None:
        NoAnswer.check(step.error)
    return moved


def apply(run: Run, batch: Batch, decision: Move | Wait) -> bool:
    """Whether the decision moved the batch. What a create may have cost that is given up is written down with it."""
    if isinstance(decision, Move) and decision.in_doubt:
        decision = machine.with_cost_in_doubt(decision, given_up(run, batch))
    after = run.store.apply(batch, decision, run.clock.now())
    if isinstance(decision, Move) and decision.in_doubt:
        set_down(run, after)
    return isinstance(decision, Move)
