"""Our clock as machines have it: set forward or back at one moment, while time itself goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.manual_clock import ManualClock


@dataclass(frozen=True, slots=True)
class Move:
    """At point ``at`` of the history our clock is set so many seconds forward (back, where negative); ``lasts``: it is
    put right again after so long."""

    at: int
    seconds: float
    lasts: float | None = None


@dataclass(slots=True)
class MovedClock(ManualClock):
    """A clock that is set while the history goes on; what providers and people have meanwhile is `true`."""

    moves: Sequence[Move] = ()
    ahead: float = 0.0
    _to_come: list[tuple[float, float]] = field(default_factory=list)  # when (in true time), by how much
    _begun: set[int] = field(default_factory=set)

    def true(self) -> float:
        return self.seconds - self.ahead

    def sleep(self, seconds: float) -> None:
        wakes = self.true() + seconds
        for due, by in sorted(self._to_come):
            if due <= wakes:
                self.seconds += max(due - self.true(), 0.0)
                self.put(by)
                self._to_come.remove((due, by))
        self.seconds += max(wakes - self.true(), 0.0)

    def put(self, seconds: float) -> None:
        """Set it so many seconds forward."""
        self.seconds += seconds
        self.ahead += seconds

    def at_points(self, points: Callable[[], int]) -> Callable[[], None]:
        """What is to be called at every point of the history."""

        def passed() -> None:
            for number, move in enumerate(self.moves):
                if number not in self._begun and points() >= move.at:
                    self._begun.add(number)
                    self.put(move.seconds)
                    if move.lasts is not None:
                        self._to_come.append((self.true() + move.lasts, -move.seconds))

        return passed
