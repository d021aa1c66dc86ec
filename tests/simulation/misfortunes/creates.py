"""Creates that a provider carries out and denies, and lists of batches that cannot be read."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from layton_batch.sandbox import Fault
from tests.simulation.scenarios import Scenario, provider_of, wrong
from tests.simulation.world import ITEMS, Plan, cast

OFTEN = 0.12


def denied(times: int) -> Callable[[int], Plan]:
    """So many creates are carried out, answered with HTTP 500, and in no list ever."""
    return lambda world: Plan(world, denied=(provider_of(world),) * times)


SCENARIOS: Sequence[Scenario] = (
    Scenario(
        "create: carried out, answered HTTP 500 and never listed (its maximum cost stays reserved)",
        denied(1),
        batches=2,
        billed=2 * ITEMS,
    ),
    Scenario(
        "create: the same twice; the batch is `lost`, and a person adopts one of the two",
        denied(2),
        batches=2,
        billed=2 * ITEMS,
    ),
    Scenario("the list before the first create: HTTP 403 six times", wrong("list", "status", status=403, times=6)),
    Scenario("the list before the first create: HTTP 500 six times", wrong("list", "status", status=500, times=6)),
    Scenario("the list before the first create: a page of HTML six times", wrong("list", "not_json", times=6)),
    Scenario(
        "the list before the first create: HTTP 403 for hours; a person sees to it",
        wrong("list", "status", status=403, times=16),
    ),
)


def draw(draw: random.Random, plan: Plan, _length: int) -> Plan:
    """The plan with one of these misfortunes now and then."""
    models, judge = cast(plan.world)
    provider = draw.choice((*models, judge))
    if draw.random() < OFTEN:
        plan = replace(plan, denied=(provider,) * draw.choice((1, 1, 2)))
    if draw.random() < OFTEN:
        trouble = Fault(
            on="list",
            action=draw.choice(("status", "status", "not_json")),
            provider=draw.choice((*models, judge)),
            status=draw.choice((403, 429, 500, 503)),
            after=draw.choice((0, 0, 1, 3)),
            times=draw.choice((1, 4, 14)),
        )
        plan = replace(plan, faults=(trouble, *plan.faults))
    return plan
