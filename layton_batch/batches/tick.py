"""Tick: what a run knows for as long as one tick lasts. The next tick asks again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from layton_batch.errors import AmbiguousCallError, ProviderError, TransientProviderError
from layton_batch.records import Batch, ListReading, Snapshot

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
