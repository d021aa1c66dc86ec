"""Time as a parameter: everything that asks what time it is takes a Clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

LONGEST_PAUSE = 3600.0
"""Seconds: no pause that the program sets is longer (a provider's hourly limit is the longest), and no lease lasts so
long."""


class Clock(Protocol):
    """Seconds since the epoch, and a way to wait."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock."""

    _sleep: Callable[[float], None] = time.sleep

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        self._sleep(seconds)


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when told: ``sleep`` advances it and returns at once. For tests and simulations."""

    seconds: float = 1_800_000_000.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def is_due(moment: float, now: float) -> bool:
    """Whether a moment has come until which a batch was to wait, or be held.

    One that lies further ahead than any pause was set by a clock that was put back since: it has come as well.
    """
    return moment <= now or moment > now + LONGEST_PAUSE


def utc(seconds: float) -> datetime:
    """The aware UTC datetime of an epoch time."""
    return datetime.fromtimestamp(seconds, tz=UTC)


def iso(seconds: float) -> str:
    """RFC 3339 text of an epoch time, to the second, in UTC."""
    return utc(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
