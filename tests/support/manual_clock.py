"""A clock for tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when told: ``sleep`` advances it and returns at once. ``ahead``: by how much it was put
    forward; by ``true`` time everybody else goes."""

    seconds: float = 1_800_000_000.0
    ahead: float = 0.0

    def now(self) -> float:
        return self.seconds

    def true(self) -> float:
        return self.seconds - self.ahead

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def put(self, seconds: float) -> None:
        """Set the clock so many seconds forward."""
        self.seconds += seconds
        self.ahead += seconds
