"""The kill matrix: one run is stopped once at each of its points, in each of the ways a process can be stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from tests.simulation.conductor import Forks, Stops
from tests.simulation.histories import Plan, play
from tests.simulation.manifests import Asks
from tests.simulation.world import Weather

Way = Literal["killed", "torn", "frozen", "full"]
"""Killed; killed within the next commit; suspended for longer than a create can take, while a second process goes on;
the disk is full when the next file is put in place."""
WAYS: tuple[Way, ...] = ("killed", "torn", "frozen", "full")
FROZEN_SECONDS = 2000.0
TWO_ITEMS = ((0, 0), (1, 0))
UNDISTURBED = {
    "tagged": Plan(1, Asks(("alpha",), TWO_ITEMS), Weather(batch_seconds=20.0)),
    "untagged": Plan(1, Asks(("beta",), TWO_ITEMS), Weather(batch_seconds=20.0)),
    "uncertain": Plan(1, Asks(("gamma",), TWO_ITEMS), Weather(batch_seconds=20.0)),
    "judged": Plan(3, Asks(("alpha", "beta"), TWO_ITEMS, "tagged"), Weather(batch_seconds=20.0)),
    "retried": Plan(1, Asks(("alpha",), TWO_ITEMS, "untagged"), Weather({"row refused": 1.0}, 1, 20.0)),
    "cancelled": Plan(1, Asks(("alpha", "beta"), TWO_ITEMS), Weather(batch_seconds=300.0), cancel_at=90),
}
"""Runs by name; their points are those of every provider's dialect, of a jury, of one that is asked
about more after a `retry`, and of `cancel`."""


def points(forks: Forks, name: str) -> list[str]:
    """Return the points that an undisturbed run passes."""
    broken, played = play(forks, UNDISTURBED[name])
    assert not broken, broken
    return played.points


def stopped(name: str, way: Way, number: int) -> Plan:
    """Return the plan of a run that is stopped once."""
    plan, at = UNDISTURBED[name], frozenset({number})
    match way:
        case "killed":
            return replace(plan, stops=Stops(kills=at))
        case "torn":
            return replace(plan, stops=Stops(torn=at))
        case "frozen":
            return replace(plan, stops=Stops(freezes={number: FROZEN_SECONDS}), second=1.0)
        case "full":
            return replace(plan, stops=Stops(full=at))


def cells(passed: list[str]) -> Iterator[tuple[Way, int]]:
    """Yield each way and each number of a point at which it makes a difference."""
    for number, label in enumerate(passed, 1):
        yield "killed", number
        if label == "commit":
            yield "torn", number
        else:
            yield "frozen", number
        if label.startswith("rename"):
            yield "full", number
