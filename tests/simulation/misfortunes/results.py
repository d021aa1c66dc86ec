"""Results that come late, in parts, with counts that lie, or poorer than before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from layton_batch.sandbox import Fault
from tests.simulation.by_hand import TOO_LARGE
from tests.simulation.scenarios import Scenario, provider_of, wrong
from tests.simulation.world import Plan, cast

OFTEN = 0.2
"""The share of the widest seeds that draw each kind."""
STOPPED = "Too many requests: the batch was stopped"


def uncounted(*downloads: Fault) -> Callable[[int], Plan]:
    """A batch that completes, of which the provider never counts a row; its results come as these faults leave them."""

    def plan(world: int) -> Plan:
        faults = (Fault(on="batch", action="late", counts=False, times=1), *downloads)
        return Plan(world, faults=tuple(replace(fault, provider=provider_of(world)) for fault in faults))

    return plan


def shown(share: float, after: int = 0, times: int = 1) -> Fault:
    """So much of a result file, up to the end of a line, as if it were all of it."""
    return Fault(on="results", action="short", share=share, after=after, times=times)


SCENARIOS: Sequence[Scenario] = (
    Scenario(
        "expired with two of three answers, files and counts shown 4 s after its end",
        wrong("batch", "expire", share=0.7, late=4.0),
        batches=2,
    ),
    Scenario(
        "expired with two of three answers, which are never counted",
        wrong("batch", "expire", share=0.7, counts=False),
        batches=2,
    ),
    Scenario("completed, files and counts shown 100 s after its end", wrong("batch", "late", late=100.0)),
    Scenario(
        "failed with two of three answers, for too many requests",
        wrong("batch", "stop", share=0.7, name=STOPPED),
        batches=2,
    ),
    Scenario(
        "results: one answer, then two, then three, and nothing is counted", uncounted(shown(0.4), shown(0.7, after=1))
    ),
    Scenario(
        "results: two answers, then three times a page of HTML, and nothing is counted",
        uncounted(shown(0.7), Fault(on="results", action="not_json", after=1, times=3)),
    ),
    Scenario(
        "results: two answers, then three times none, and nothing is counted",
        uncounted(shown(0.7), shown(0.0, after=1, times=3)),
    ),
)


def draw(draw: random.Random, plan: Plan, _length: int) -> Plan:
    """The plan with one of these misfortunes now and then."""
    models, judge = cast(plan.world)
    faults = plan.faults
    if draw.random() < OFTEN:
        faults = (_ended_oddly(draw, draw.choice((*models, judge))), *faults)
    if draw.random() < OFTEN:
        faults = (*_poorer_and_poorer(draw, draw.choice((*models, judge))), *faults)
    return replace(plan, faults=faults)


def _ended_oddly(draw: random.Random, provider: str) -> Fault:
    """A batch whose files are named late, or whose rows are counted late or never."""
    return Fault(
        on="batch",
        action=draw.choice(("late", "expire", "cancel", "stop")),
        provider=provider,
        after=draw.randrange(2),
        times=draw.choice((1, 1, 2)),
        share=draw.choice((0.0, 0.4, 0.7, 1.0)),
        late=draw.choice((0.0, 4.0, 100.0)),
        counts=draw.random() < 0.5,
        kind=draw.choice(("", "server_error", "rate_limit_exceeded")),
        name=draw.choice(("", STOPPED, f"the file {TOO_LARGE}: 2 requests")),
    )


def _poorer_and_poorer(draw: random.Random, provider: str) -> Iterator[Fault]:
    """Downloads that hold less than the one before, or other parts."""
    shares = draw.choice(((0.7, 0.4), (0.4, 0.7), (0.7, 0.0), (0.7,)))
    yield from (replace(shown(share, after=number), provider=provider) for number, share in enumerate(shares))
    action = draw.choice(("not_json", "truncate", "status", "cut"))
    yield Fault(on="results", action=action, provider=provider, after=len(shares), times=draw.choice((1, 2)), share=0.4)
