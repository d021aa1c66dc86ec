"""Clocks that are set back or forward while batches are at their providers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.simulation.claims import reference
from tests.simulation.clock_moves import Move
from tests.simulation.scenarios import HOUR, Scenario, also, killed, provider_of, wrong
from tests.simulation.world import SEVEN, Plan

DAY = 24 * HOUR
OFTEN = 0.2
BLIP = 8.0
STOPPED = frozenset(SEVEN) - {"together"}
"""Providers at which one such moment has the batch stopped; what it did not answer goes into another."""


def in_flight(*moves: tuple[float, float | None], after: int = 0) -> Callable[[int], Plan]:
    """Our clock is set while the reply to the batch's first poll is on its way, or so many points later: (seconds
    forward, how long), one after another."""

    def plan(world: int) -> Plan:
        at = reference(world).points.index(f"executed: {provider_of(world)} poll") + 1 + after
        return Plan(world, moves=tuple(Move(at + number, *move) for number, move in enumerate(moves)))

    return plan


def set_meanwhile(seconds: float, downtime: float = 1.0) -> Callable[[int], Plan]:
    """Killed when the create was carried out; goes on later, with a clock that was set so many seconds forward."""

    def plan(world: int) -> Plan:
        stopped = killed("executed")(world)
        return replace(stopped, downtime=downtime, moves=(Move(stopped.stops[0], seconds),))

    return plan


SCENARIOS: Sequence[Scenario] = (
    Scenario("our clock set back by a day while the batch is in flight", in_flight((-DAY, None), after=2)),
    Scenario(
        "our clock three days ahead for 8 seconds while the batch is in flight",
        in_flight((3 * DAY, BLIP)),
        again=STOPPED,
    ),
    Scenario(
        "our clock three days ahead for 8 seconds while the batch is in flight, and again",
        in_flight((3 * DAY, BLIP), (3 * DAY + HOUR, BLIP)),
        batches=2,
    ),
    Scenario("create: reply lost, our clock 40 days ahead", also(wrong("create", "drop_after"), skew=-40 * DAY)),
    Scenario("create: reply lost, our clock 40 days behind", also(wrong("create", "drop_after"), skew=40 * DAY)),
    Scenario("killed with the create carried out, our clock set back by 30 hours meanwhile", set_meanwhile(-30 * HOUR)),
    Scenario(
        "the same, and the program away for 31 hours",
        set_meanwhile(-30 * HOUR, downtime=31 * HOUR),
    ),
    Scenario("killed with the create carried out, our clock put forward by 40 days meanwhile", set_meanwhile(40 * DAY)),
)


def draw(draw: random.Random, plan: Plan, length: int) -> Plan:
    """The plan with one of these misfortunes now and then; not where a create is still on its way, since the search for
    it is the shorter the more often the clock is set (a limit that docs/exactly_once.md names)."""
    if draw.random() >= OFTEN or plan.programs > 1 or plan.late_create is not None:
        return plan
    at = draw.randrange(1, length)
    days = draw.choice((1.0, 1.25, 3.0, 40.0))
    sign = draw.choice((-1, 1))
    lasts = draw.choice((None, BLIP, BLIP, 600.0, 2 * HOUR))
    moves = [Move(at, sign * days * DAY, lasts)]
    if lasts is not None and draw.random() < 0.3:
        moves.append(Move(at + draw.randrange(1, 12), sign * (days + 0.1) * DAY, BLIP))
    return replace(plan, moves=tuple(moves))
