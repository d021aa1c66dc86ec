"""Killed at any instant and started again, a run ends as if nothing had happened."""

from __future__ import annotations

import pytest

from tests.simulation.claims import reference
from tests.simulation.histories import Verdict, play
from tests.simulation.world import SEVEN, Plan, cast

STRIDE = 3
"""Every third instant here, each at another provider than its neighbours; all of them at all providers in
``scripts/bench faults``."""


def told(verdicts: list[Verdict]) -> str:
    return "\n".join(verdict.told() for verdict in verdicts)


@pytest.mark.parametrize("world", range(7), ids=lambda world: "+".join((*cast(world)[0], cast(world)[1])))
def test_a_run_killed_at_any_instant_pays_once_and_ends_as_if_undisturbed(world: int) -> None:
    points = range(1 + world * STRIDE, len(reference(world).points) + 1, 7 * STRIDE)
    broken = [verdict for stop in points if (verdict := play(Plan(world, stops=(stop,)))).broken]
    assert not broken, told(broken)


@pytest.mark.parametrize("provider", SEVEN)
@pytest.mark.parametrize("phase", ["sent", "executed"])
def test_a_run_killed_twice_around_the_paid_call_pays_once(provider: str, phase: str) -> None:
    world = 7 + SEVEN.index(provider)
    at = reference(world).points.index(f"{phase}: {provider} create") + 1
    verdict = play(Plan(world, stops=(at, at + 7)))
    assert not verdict.broken, verdict.told()


def test_a_run_killed_while_its_state_store_is_made_starts_again() -> None:
    broken = [
        verdict for stop in range(1, 9) if (verdict := play(Plan(stop % 7, stops=(stop,), migrating=True))).broken
    ]
    assert not broken, told(broken)
