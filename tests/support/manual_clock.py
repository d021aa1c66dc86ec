"""A clock for tests and simulations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when told: ``sleep`` advances it and returns at once."""

    seconds: float = 1_800_000_000.0

    def now(self) -> float:
        return self.seconds

    def true(self) -> float:
        """The time by which everybody else goes."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
