"""One run stopped once at each of its points: killed, torn in a commit, suspended, or with a full disk."""

from __future__ import annotations

import pytest

from tests.simulation.conductor import Forks
from tests.simulation.histories import play
from tests.simulation.matrix import UNDISTURBED, cells, points, stopped
from tests.support.tiers import tiered

PARTS = 150


@pytest.mark.parametrize(("name", "part"), tiered(UNDISTURBED, range(PARTS), ci=[(name, 7) for name in UNDISTURBED]))
def test_a_run_stopped_anywhere_ends_as_if_nothing_had_happened(forks: Forks, name: str, part: int) -> None:
    every = list(cells(points(forks, name)))
    assert len(every) > PARTS
    for way, number in every[part::PARTS]:
        broken, played = play(forks, stopped(name, way, number))
        assert not broken, played.told(broken)
