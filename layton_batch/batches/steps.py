"""One step of a batch within a tick: a stage fetches, the machine decides, ``carry_out`` applies.

What a tick knows of providers lasts as long as the tick: the next one asks again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from layton_batch.batches import machine
from layton_batch.errors import AmbiguousCallError, ProviderError, RunCancelledError, TransientProviderError
from layton_batch.providers.protocol import seconds_of
from layton_batch.records import Batch, ListReading, Move, Snapshot, Wait
from layton_batch.runs.context import Run

LIST_SECONDS = 10.0
"""A list that was begun longer ago, because others were created in between, is read again before a create."""


class NoAnswer(Exception):
    """A provider did not answer at all. Any other call to it in this tick would only wait as long."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__(str(error))
        self.error = error

    @classmethod
    def check(cls, error: ProviderError) -> None:
        """Raise NoAnswer where the error is that; an error with a status, or of a reply that was read, is an answer."""
        if error.status is None and isinstance(error, TransientProviderError | AmbiguousCallError):
            raise cls(error) from error


@dataclass(slots=True)
class ProviderStatus:
    """Record of the providers that answer, by stage. The first call to a provider runs alone; its other calls wait for
    the result."""

    _answers: dict[str, bool] = field(default_factory=dict)
    _locks: defaultdict[str, Lock] = field(default_factory=lambda: defaultdict(Lock))

    def call(self, stage: str, call: Callable[[], bool]) -> bool | None:
        """Return the result of the call; None, without a call, where the provider does not answer. Raises NoAnswer."""
        with self._locks[stage]:
            if stage not in self._answers:
                return self._call(stage, call)
        return self._call(stage, call) if self._answers[stage] else None

    def _call(self, stage: str, call: Callable[[], bool]) -> bool:
        try:
            result = call()
        except NoAnswer:
            self.set_silent(stage)
            raise
        self._answers.setdefault(stage, True)
        return result

    def set_silent(self, stage: str) -> None:
        """Have no more calls made in this tick."""
        self._answers[stage] = False

    def is_silent(self, stage: str) -> bool:
        """Return whether the provider is known not to answer."""
        return not self._answers.get(stage, True)


@dataclass(slots=True)
class ProviderLists:
    """The last reading of each provider's list of batches."""

    _last: dict[str, ListReading] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def reading(self, batch: Batch, now: float) -> ListReading:
        """Return the reading to look at before the batch is created: a new one where a create was tried before, for
        the list must show what became of that create."""
        if batch.submitting_at is not None:
            return ListReading(now)
        with self._lock:
            last = self._last.get(batch.provider)
            if last is None or abs(now - last.begun) > LIST_SECONDS:
                last = self._last[batch.provider] = ListReading(now)
            return last


@dataclass(frozen=True, slots=True)
class Tick:
    """Knowledge of one tick. ``is_cancelled``: whether a person had cancelled the run when the tick began. ``ended``:
    by batch, the snapshot by which a poll of this tick found it ended, for the first download of its results."""

    is_cancelled: bool
    responsiveness: ProviderStatus = field(default_factory=ProviderStatus)
    ended: dict[str, Snapshot] = field(default_factory=dict)
    lists: ProviderLists = field(default_factory=ProviderLists)


def at(run: Run, batch: Batch) -> machine.DecisionLimits:
    """Now, with what the batch's provider and the manifest allow."""
    dialect, hours = run.providers.dialect(batch.provider), run.manifest.policy.deadline_hours
    limits, pacing = dialect.limits, run.pacing
    window = limits.window_seconds if (window_asked := run.window(batch)) is None else seconds_of(window_asked)
    return machine.DecisionLimits(
        now=run.clock.now(),
        pacing=pacing,
        poll=limits.poll_seconds * pacing.advised if pacing.poll is None else pacing.poll,
        deadline=window + 86_400 if hours is None else hours * 3600,
        window=window,
        retention=limits.retention_seconds,
        shows_absence=dialect.capabilities.certain_find,
        run_began=run.born,
        account=run.account(batch.provider),
    )


def step_each(run: Run, tick: Tick, stage: str, batches: Iterable[Batch], step: Callable[[Batch], bool]) -> bool:
    """Take one step with each batch, one after another, and return whether any batch moved. End early if the program
    is to stop, the run was cancelled, or the provider does not answer: each other batch would wait as long for nothing.
    """
    moved = False
    for batch in batches:
        if run.stopping.is_set():
            break
        try:
            has_moved = tick.responsiveness.call(stage, partial(step, batch))
        except (NoAnswer, RunCancelledError):
            break
        if has_moved is None:
            break
        moved |= has_moved
    return moved


def carry_out(run: Run, batch: Batch, decision: Move | Wait, error: ProviderError | None = None) -> bool:
    """Apply a decision, and return whether it moved the batch. ``error``: the failed call that the decision rests on;
    raises NoAnswer, after that, if the provider did not answer at all."""
    run.store.apply(batch, decision, run.clock.now())
    if error is not None:
        NoAnswer.check(error)
    return isinstance(decision, Move)
