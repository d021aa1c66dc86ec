"""Manifests that are edited while their run is under way, between kills and beside whatever else goes wrong."""

from __future__ import annotations

import random
from dataclasses import replace

from layton_batch.sandbox import Fault
from tests.simulation.edits import RIDDLES, Asks, Edit
from tests.simulation.world import ITEMS, SEVEN, Plan, cast, first_asks
from tests.support.lab import MODELS

KINDS = ("model", "model", "gone", "gone", "name", "order", "item", "items", "limit", "twin", "twin")


def draw(draw: random.Random, plan: Plan, length: int) -> Plan:
    """The plan with one to three edits, some of which the run is over too soon to see: they are made then. One program
    works on the run, with money enough."""
    asks, edits = first_asks(plan.world), []
    seen = list(asks.models)
    for at in sorted(draw.sample(range(1, length * 3 // 2), draw.choice((1, 1, 2, 2, 3)))):
        kind = draw.choice(KINDS)
        asks = _edited(draw, kind, asks, seen, cast(plan.world)[1])
        seen += [model for model in asks.models if model not in seen]
        edits.append(Edit(at, asks))
    faults = plan.faults
    if draw.random() < 0.3:
        faults = (*faults, _at_any(draw, draw.choice(seen)[0]))
    return replace(plan, programs=1, freezes=(), budget=False, edits=tuple(edits), faults=faults)


def _edited(draw: random.Random, kind: str, asks: Asks, seen: list[tuple[str, str]], judge: str) -> Asks:
    models, items = list(asks.models), list(asks.items or range(len(RIDDLES)))
    place = draw.randrange(len(models))
    if kind == "gone" and len(models) > 1:
        del models[place]
    elif kind in ("model", "gone"):
        models.insert(place, _another(draw, models, seen, judge))
    elif kind == "name":
        models[place] = models[place][0], f"shown {draw.randrange(9)}"
    elif kind == "twin":
        models.insert(place, (models[place][0], f"twin {draw.randrange(9)}"))
    elif kind == "order":
        models.reverse()
        return replace(asks, models=tuple(models))
    elif kind == "limit":
        return replace(asks, limit=draw.choice((1, 2, 4, 5)))
    elif kind == "item":
        asked = items[: asks.limit]
        more = [number for number in range(len(RIDDLES)) if number not in asked]
        asked.insert(draw.randrange(len(asked) + 1), draw.choice(more))
        return replace(asks, items=tuple(asked), limit=len(asked) + draw.randrange(3))
    else:
        return replace(asks, items=tuple(draw.sample(items, len(items))), limit=draw.choice((ITEMS, ITEMS + 1)))
    return replace(asks, models=_named_apart(models))


def _another(
    draw: random.Random, models: list[tuple[str, str]], seen: list[tuple[str, str]], judge: str
) -> tuple[str, str]:
    """A model that was taken out before, rather than a new one."""
    gone = [model for model in seen if model[0] not in {provider for provider, _ in models}]
    if gone and draw.random() < 0.7:
        return draw.choice(gone)
    there = {provider for provider, _ in models}
    return next((name, MODELS[name]) for name in draw.sample(SEVEN, len(SEVEN)) if name not in there | {judge})


def _named_apart(models: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    names: set[str] = set()
    found = []
    for provider, name in models:
        while name in names:
            name += " too"
        names.add(name)
        found.append((provider, name))
    return tuple(found)


def _at_any(draw: random.Random, provider: str) -> Fault:
    """Something that goes wrong at a model's provider, one that an edit brought or took as well."""
    on, action = draw.choice((("create", "drop_after"), ("create", "status"), ("batch", "expire"), ("row", "error")))
    match = rf"-00000{draw.randrange(1, ITEMS + 2)}\b" if on == "row" else ""
    return Fault(on=on, action=action, provider=provider, times=1, status=503, match=match, share=0.5)
