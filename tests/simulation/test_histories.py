"""Histories drawn from seeds: whatever happens, each answer is bought once and none is lost."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from tests.simulation.claims import broken_claims
from tests.simulation.conductor import Forks, Stops
from tests.simulation.histories import RATES, RUN, Plan, history, plan_of, play
from tests.simulation.manifests import Asks
from tests.simulation.world import Weather
from tests.support.tiers import tiered

SEEDS = range(300)
EVERY_DAY = (1, 8, 11, 15, 17, 18, 19, 20)
"""Together they have most kinds of trouble, two processes, a neighbour, a `cancel` and a `retry`, in ten seconds."""
SERVED = range(1000, 1020)


@pytest.mark.parametrize("seed", tiered(SEEDS, ci=EVERY_DAY))
def test_whatever_happens_each_answer_is_bought_once_and_none_is_lost(forks: Forks, seed: int) -> None:
    broken, played = play(forks, plan_of(seed))
    assert not broken, played.told(broken)


@pytest.mark.parametrize("seed", tiered(SERVED, ci=(1004,)))
def test_the_same_holds_with_the_state_in_postgresql(forks: Forks, postgres_url: str, seed: int) -> None:
    broken, played = play(forks, plan_of(seed), postgres_url)
    assert not broken, played.told(broken)
    assert not list(played.folder.rglob("state.sqlite3"))


def test_an_undisturbed_run_makes_no_call_too_many(forks: Forks) -> None:
    broken, played = play(forks, Plan(1, Asks(("alpha",), ((0, 0), (1, 0)))))
    assert not broken, played.told(broken)
    calls = {name.partition(" ")[0]: count for name, count in played.world.calls.items()}
    del calls["poll"]
    assert calls == {"upload": 1, "list": 1, "create": 1, "results": 1}


def test_a_run_that_waits_for_an_answer_of_a_model_that_another_run_gave_up_gets_it(forks: Forks) -> None:
    """The create was killed before it was sent, the model left the manifest, and the list lacks the batch at last."""
    asks = Asks(("beta",), ((0, 0), (1, 0)))
    create = play(forks, Plan(1, asks))[1].points.index("sent: untagged create") + 1
    edits = ((create, Asks(("alpha",), asks.items)),)
    broken, played = play(forks, Plan(1, asks, edits=edits, neighbour=(60.0, asks)))
    assert not broken, played.told(broken)


@pytest.mark.parametrize("carried_out", tiered((0.0, 0.4), ci=(0.0,)))
def test_a_night_without_creates_ends_by_itself_and_its_bill_closes(forks: Forks, carried_out: float) -> None:
    """For three hours each create is answered with HTTP 503; the bill closes by a `run` after the last one."""
    weather = Weather(no_creates=(0.0, 3 * 3600.0), carried_out=carried_out)
    stops = Stops(kills=frozenset({60, 130}))
    asks = Asks(("alpha", "beta"), tuple((number, 0) for number in range(7)), "tagged")
    with history(forks, Plan(1, asks, weather, stops)) as begun:
        played = begun.play()
        broken = [*played.broken, *broken_claims(played)]
        assert not broken, played.told(broken)
        assert {end.rpartition(" ")[2] for end in played.ends} <= {"0", "-9"}
        assert Decimal(played.status[RUN]["spent_usd"]) > 0
        begun.conductor.later(3700.0, lambda: None)
        begun.conductor.run()
        begun.command("run", f"{RUN}.toml", "--yes", "--offline")
        code, _ = begun.command("status", RUN, "--json")
        assert (code, json.loads(begun.conductor.output)["unknown_cost_usd"]) == (0, "0")


def test_a_seed_gives_the_same_history_every_time(forks: Forks) -> None:
    plan = next(plan for plan in map(plan_of, SEEDS) if plan.second is not None and not plan.stops.torn)
    first, second = (play(forks, plan)[1] for _ in range(2))
    assert first.points == second.points
    assert first.world.happened == second.world.happened


def test_the_seeds_draw_every_kind_of_trouble_and_several_together() -> None:
    plans = [plan_of(seed) for seed in SEEDS]
    assert {kind for plan in plans for kind in plan.weather.rates} == RATES.keys()
    assert sum(len(plan.weather.rates) for plan in plans) > 4 * len(plans)
    for trait in ("edits", "second", "neighbour", "cancel_at", "retry_at", "tight", "ahead"):
        assert any(getattr(plan, trait) for plan in plans), trait
    assert {plan.weather.no_creates == (0.0, 0.0) for plan in plans} == {True, False}
    for way in ("kills", "torn", "full", "freezes", "latency"):
        assert any(getattr(plan.stops, way) for plan in plans), way
