"""Lanes: one for each provider, side by side, so that none waits for another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field

from layton_batch.errors import StoppedError


@dataclass(slots=True)
class Lanes:
    """What providers are at. A lane that is still at work is left alone: its provider gets no second one."""

    executor: Executor
    _running: dict[str, Future[bool]] = field(default_factory=dict)

    @property
    def busy(self) -> bool:
        """Whether any lane is at work, or has ended since it was last asked about."""
        return bool(self._running)

    def work(self, step: Callable[[str], bool], names: Iterable[str], patience: float | None) -> bool:
        """Start ``step(name)`` in every lane that is free, and wait until all lanes are over or ``patience`` has passed
        (seconds of real time; None: no end). True where any of those that ended moved something.

        What a lane raises is raised here, once the others are over: they lose nothing by it.
        """
        for name in names:
            if name not in self._running:
                self._running[name] = self.executor.submit(step, name)
        wait(self._running.values(), patience)
        if any(lane.done() and _trouble(lane) for lane in self._running.values()):
            wait(self._running.values())
        over = {name: lane for name, lane in self._running.items() if lane.done()}
        for name in over:
            del self._running[name]
        for lane in over.values():
            if (trouble := _trouble(lane)) is not None:
                raise trouble
        return any(lane.exception() is None and lane.result() for lane in over.values())


def _trouble(lane: Future[bool]) -> BaseException | None:
    """What went wrong in a lane that has ended; a call that was cut short by a stop is no trouble."""
    error = lane.exception()
    return None if isinstance(error, StoppedError) else error
