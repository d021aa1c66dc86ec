"""Time as a parameter: everything that asks what time it is takes a Clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

SHORTEST_PAUSE = 0.05
"""Seconds, at least, between two questions about a batch that a person may ask for."""
LONGEST_PAUSE = 3600.0
"""Seconds: no pause that the program sets is longer (a provider's hourly limit is the longest)."""


@dataclass(frozen=True, slots=True)
class Pacing:
    """Every pause and patience of the program, in seconds. The providers' own windows are not among them."""

    poll: float | None = None
    """Between two readings of a batch; None: as its provider advises."""
    advised: float = 1.0
    """A factor on what the provider advises."""
    first_poll: float = 5.0
    """At most, before the first reading."""
    first_pause: float = 5.0
    longest_pause: float = 900.0
    """Before the next try of what failed: the first is doubled with each failure, up to the longest."""
    looks: tuple[float, ...] = (20.0, 20.0, 20.0, 40.0, 80.0, 160.0, 320.0)
    """Between looks at a list that does not have a batch: eleven minutes, a minute more than any SDK waits for a reply
    (600 s at most), since what a gateway still holds after that has nobody to answer. Lists are late, too."""
    may_tell: float = 2 * 86_400.0
    """After the provider's window: a candidate that has not shown by then whose it is never will."""
    stopping: float = 6 * 3600.0
    """Time for a batch past its deadline to end after the provider was asked to stop it."""
    idle: float = 30.0
    """At most, between two ticks of a run that waits: what a person decides is seen no later."""
    held: float = 5.0
    """Before a look at what a limit holds back."""
    first_outage: float = 60.0
    longest_outage: float = 1800.0
    """Between creates at a provider that does not answer them clearly: the first is doubled with each, up to the
    longest."""
    closing: float = 3600.0
    """After a create that no list shows: a complete list that still lacks it then proves that it was not made."""
    reopening: float = 86_400.0
    """Between later looks for such a create."""
    no_room: float = 60.0
    """At least, before a batch comes back that its provider had no room for: other batches have to end first."""
    late_results: float = 86_400.0
    """After a batch's end: results without a single request may still be on their way."""
    failed_download: float = 14 * 86_400.0
    """After a batch's end: a download that fails in passing is tried again at every provider."""

    def backoff(self, failures: int, retry_after: float | None = None) -> float:
        """The pause after ``failures`` earlier ones: doubling, bounded.

        A provider's ``retry-after`` is honoured within the same bound: "wait an hour" holds back one batch for a
        quarter of an hour at a time, never the rest of the run.
        """
        pause = self.first_pause * 2.0 ** min(failures, 16)
        return min(max(pause, retry_after or 0.0), self.longest_pause)

    def scaled(self, factor: float) -> Pacing:
        """Every pause and patience multiplied by ``factor``."""
        scaled: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple):
                scaled[field.name] = tuple(pause * factor for pause in value)
            elif value is not None:
                scaled[field.name] = value * factor
        return Pacing(**scaled)


@runtime_checkable
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


def is_due(moment: float, now: float) -> bool:
    """Return whether the moment has come until which a batch waits.

    One that lies further ahead than any pause was set by a clock that was put back since: it has come as well.
    """
    return moment <= now or moment > now + LONGEST_PAUSE


def utc(seconds: float) -> datetime:
    """The aware UTC datetime of an epoch time."""
    return datetime.fromtimestamp(seconds, tz=UTC)


def iso(seconds: float) -> str:
    """RFC 3339 text of an epoch time, to the second, in UTC."""
    return utc(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
