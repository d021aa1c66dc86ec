"""Lanes: which of a provider's batches are served one after another, and which side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch


@dataclass(frozen=True, slots=True, order=True)
class Lane:
    """One thread's share of a provider's batches. The first lane (0) also does what is done once for a provider."""

    provider: str
    number: int = 0


@dataclass(slots=True)
class Seats:
    """A batch keeps its lane for as long as this process works on the run."""

    dialect: Callable[[str], Provider]
    _numbers: dict[str, int] = field(default_factory=dict)
    _given: Counter[str] = field(default_factory=Counter)
    _turns: dict[str, Lock] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def lane(self, batch: Batch) -> Lane:
        """Where the batch is to be sent, asked about or collected."""
        with self._lock:
            if batch.id not in self._numbers:
                lanes = self.dialect(batch.provider).limits.calls_at_once
                self._numbers[batch.id] = self._given[batch.provider] % lanes
                self._given[batch.provider] += 1
            return Lane(batch.provider, self._numbers[batch.id])

    @contextmanager
    def turn(self, provider: str) -> Iterator[None]:
        """While the block lasts no other batch of the provider is created or looked for by this process, unless the
        provider's list tells batches apart while several are created."""
        if self.dialect(provider).capabilities.tells_creates_apart:
            yield
            return
        with self._lock:
            turn = self._turns.setdefault(provider, Lock())
        with turn:
            yield
