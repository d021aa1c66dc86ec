"""Killed at any instant and started again, a run ends as if nothing had happened."""

from __future__ import annotations

import pytest

from tests.simulation.claims import reference
from tests.simulation.histories import Verdict, play
from tests.simulation.scenarios import moved
from tests.simulation.suite import AT_LEAST, MIGRATING, PHASES, histories, stops
from tests.simulation.world import ALONE, SEVEN, Plan, cast
from tests.support.tiers import tiered


def told(verdicts: list[Verdict]) -> str:
    return "\n".join(verdict.told() for verdict in verdicts)


@pytest.mark.nightly
def test_the_suite_plays_some_hundred_histories() -> None:
    assert sum(histories().values()) >= AT_LEAST, histories()


@pytest.mark.parametrize(
    "world", tiered(range(ALONE), ci=(5,)), ids=lambda world: "+".join((*cast(world)[0], cast(world)[1]))
)
def test_a_run_killed_at_any_instant_pays_once_and_ends_as_if_undisturbed(world: int) -> None:
    broken = [verdict for stop in stops(world) if (verdict := play(Plan(world, stops=(stop,)))).broken]
    assert not broken, told(broken)


@pytest.mark.parametrize(
    ("phase", "provider"),
    tiered(
        PHASES,
        SEVEN,
        ci=[("sent", "openai"), ("executed", "anthropic"), ("executed", "gemini"), ("sent", "mistral")],
    ),
)
def test_a_run_killed_twice_around_the_paid_call_pays_once(provider: str, phase: str) -> None:
    world = ALONE + SEVEN.index(provider)
    at = reference(world).points.index(f"{phase}: {provider} create") + 1
    verdict = play(Plan(world, stops=(at, at + 7)))
    assert not verdict.broken, verdict.told()


@pytest.mark.parametrize("provider", tiered(("anthropic", "together"), ci=("anthropic",)))
def test_a_clock_put_back_meanwhile_hides_no_batch_whose_requests_carry_the_run_s_mark(provider: str) -> None:
    verdict = play(moved(-600.0)(ALONE + SEVEN.index(provider)))
    assert not verdict.broken, verdict.told()


@pytest.mark.parametrize("stop", tiered(MIGRATING, ci=(3, 6)))
def test_a_run_killed_while_its_state_store_is_made_starts_again(stop: int) -> None:
    verdict = play(Plan(stop % ALONE, stops=(stop,), migrating=True))
    assert not verdict.broken, verdict.told()
