"""Two hosts on one run whose clocks are minutes apart both go on, and pay once."""

from __future__ import annotations

import pytest

from tests.simulation.histories import play
from tests.simulation.world import ALONE, Plan


@pytest.mark.one_in(4)
@pytest.mark.parametrize("apart", [-200.0, 200.0])
@pytest.mark.parametrize("world", range(ALONE))
def test_two_hosts_200_seconds_apart_share_a_run(world: int, apart: float) -> None:
    verdict = play(Plan(world, hands=2, moving=True, apart=apart, seed=world + 1))
    assert not verdict.broken, verdict.told()


@pytest.mark.parametrize("apart", [-200.0, 200.0])
@pytest.mark.parametrize("stops", [(40, 90), (75,), (110, 200)])
def test_they_take_over_from_each_other_when_one_is_killed(stops: tuple[int, ...], apart: float) -> None:
    verdict = play(Plan(stops[0] % ALONE, stops, hands=2, moving=True, apart=apart, seed=stops[0]))
    assert not verdict.broken, verdict.told()
