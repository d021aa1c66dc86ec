"""Provider threads: they serve providers side by side, each a share of a provider's batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from threading import Lock

from layton_batch.errors import StoppedError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch


@dataclass(frozen=True, slots=True, order=True)
class ProviderThread:
    """One thread's share of a provider's batches."""

    provider: str
    number: int = 0


@dataclass(slots=True)
class ProviderThreads:
    """The threads of a run. ``dialect`` gives a provider's limits: each provider has ``calls_at_once`` threads.

    A batch keeps its thread for as long as this process drives the run. A thread that is still busy when a tick ends
    goes on, and gets no second thread.
    """

    executor: Executor
    dialect: Callable[[str], Provider]
    _numbers: dict[str, int] = field(default_factory=dict)
    _given: Counter[str] = field(default_factory=Counter)
    _turns: dict[str, Lock] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _running: dict[ProviderThread, Future[bool]] = field(default_factory=dict)
    _to_send: dict[ProviderThread, Sequence[Batch]] = field(default_factory=dict)

    def of(self, batch: Batch) -> ProviderThread:
        """Return the thread that sends, polls and collects the batch."""
        with self._lock:
            if batch.id not in self._numbers:
                number = self.dialect(batch.provider).limits.calls_at_once
                self._numbers[batch.id] = self._given[batch.provider] % number
                self._given[batch.provider] += 1
            return ProviderThread(batch.provider, self._numbers[batch.id])

    def turn(self, provider: str) -> Lock:
        """Return the lock in which batches of a provider are created, and looked for, one after another: so one create
        at most is unclear when the provider begins to fail."""
        with self._lock:
            return self._turns.setdefault(provider, Lock())

    @property
    def are_busy(self) -> bool:
        """Return whether any thread is busy, or has ended since ``work`` last looked."""
        return bool(self._running)

    def is_busy(self, thread: ProviderThread) -> bool:
        """Return whether this thread is busy."""
        return thread in self._running

    @property
    def sending(self) -> Mapping[str, Batch]:
        """Return by id the batches that busy threads were given to settle or send. Nothing else moves them."""
        return {batch.id: batch for thread in self._running for batch in self._to_send.get(thread, ())}

    def work(
        self,
        step: Callable[[ProviderThread, Sequence[Batch]], bool],
        to_send: Mapping[ProviderThread, Sequence[Batch]],
        patience: float | None,
    ) -> bool:
        """Start ``step(thread, batches to settle or send)`` in every thread that is free, and wait until all have ended
        or ``patience`` has passed (seconds of real time; None: no end). Return whether any that ended moved something.

        An error of one thread is raised here when the others have ended, so that they lose nothing by it.
        """
        for thread, batches in to_send.items():
            if thread not in self._running:
                self._to_send[thread] = batches
                self._running[thread] = self.executor.submit(step, thread, batches)
        wait(self._running.values(), patience)
        if any(future.done() and _error(future) for future in self._running.values()):
            wait(self._running.values())
        ended = {thread: future for thread, future in self._running.items() if future.done()}
        for thread in ended:
            del self._running[thread]
        for future in ended.values():
            if (error := _error(future)) is not None:
                raise error
        return any(future.exception() is None and future.result() for future in ended.values())


def _error(future: Future[bool]) -> BaseException | None:
    """Return the error of a thread that has ended. A call that a stop cut short is none."""
    error = future.exception()
    return None if isinstance(error, StoppedError) else error
