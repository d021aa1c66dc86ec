"""One run stopped once at each of its points: killed, torn in a commit, suspended, or with a full disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.simulation.conductor import Forks
from tests.simulation.histories import play
from tests.simulation.matrix import UNDISTURBED, cells, points, stopped

PARTS = {"tagged": 150, "untagged": 150, "uncertain": 150, "judged": 300, "retried": 500, "cancelled": 500}
"""Parts of the matrix of each run, of one or two cells."""
EVERY_DAY = 7


@pytest.fixture(scope="package")
def passed(forks: Forks) -> Callable[[str], list[str]]:
    """The points that an undisturbed run passes, by its name."""
    return cache(lambda name: points(forks, name))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(name, part, marks=() if part == EVERY_DAY else pytest.mark.nightly)
        for name in UNDISTURBED
        for part in range(PARTS[name])
    ],
)
def test_a_run_stopped_anywhere_ends_as_if_nothing_had_happened(
    forks: Forks, passed: Callable[[str], list[str]], name: str, part: int
) -> None:
    every = list(cells(passed(name)))
    assert len(every) > PARTS[name]
    for way, number in every[part :: PARTS[name]]:
        broken, played = play(forks, stopped(name, way, number))
        assert not broken, played.told(broken)
