"""Long misfortunes of every call: no network for days, keys that are refused for hours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.support.manual_clock import ManualClock

Kind = Literal["network", "keys"]


@dataclass(frozen=True, slots=True)
class Outage:
    """From the first call after point ``at`` of the history every call fails, for so many seconds.

    ``kind``: "network" (no connection is made) or "keys" (401). ``provider``: whose calls; "*" for all.
    """

    at: int
    seconds: float
    kind: Kind = "network"
    provider: str = "*"


class Outages:
    """Says of a call whether it meets an outage. ``points``: how many points the history has passed."""

    def __init__(self, outages: Sequence[Outage], clock: ManualClock, points: Callable[[], int]) -> None:
        self._outages = outages
        self._clock = clock
        self._points = points
        self._begun: dict[int, float] = {}

    def of(self, provider: str) -> Kind | None:
        now = self._clock.true()  # setting our clock ends no outage
        for number, outage in enumerate(self._outages):
            if outage.provider not in ("*", provider) or self._points() < outage.at:
                continue
            if now < self._begun.setdefault(number, now) + outage.seconds:
                return outage.kind
        return None
