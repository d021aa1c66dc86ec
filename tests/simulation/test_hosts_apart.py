"""Two hosts on one run whose clocks are minutes apart: one drives, the other follows it, and they pay once."""

from __future__ import annotations

import pytest

from tests.simulation.histories import play
from tests.simulation.turns import Freeze
from tests.simulation.world import ALONE, Plan
from tests.support.tiers import tiered


@pytest.mark.parametrize(("world", "apart"), tiered(range(ALONE), (-200.0, 200.0), ci=[(1, -200.0)]))
def test_a_host_200_seconds_apart_takes_over_from_one_that_is_frozen(world: int, apart: float) -> None:
    freezes = (Freeze(30 + 9 * world, 400.0), Freeze(140, 1500.0))
    verdict = play(Plan(world, programs=2, freezes=freezes, moving=True, apart=apart, seed=world + 1))
    assert not verdict.broken, verdict.told()


@pytest.mark.parametrize(
    ("stops", "apart"),
    tiered([(40, 90), (75,), (110, 200)], (-200.0, 200.0), ci=[((110, 200), 200.0)]),
)
def test_a_host_takes_over_from_one_that_is_killed(stops: tuple[int, ...], apart: float) -> None:
    verdict = play(Plan(stops[0] % ALONE, stops, programs=2, moving=True, apart=apart, seed=stops[0]))
    assert not verdict.broken, verdict.told()
