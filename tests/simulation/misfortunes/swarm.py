"""Swarms: each history enables a random subset of all kinds of faults, and draws those that it enables."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.simulation.beside import Command, Look
from tests.simulation.buckets import draw_storage
from tests.simulation.clock_moves import Move
from tests.simulation.disks import BadDisk, Reason
from tests.simulation.in_process import Silence
from tests.simulation.outages import Kind as Failure
from tests.simulation.outages import Outage
from tests.simulation.rot import Flip
from tests.simulation.surroundings import Change, Kind
from tests.simulation.swarm import Swarm
from tests.simulation.turns import Freeze
from tests.simulation.workers import Loss
from tests.simulation.world import ALONE, Plan, cast

ENABLED = 0.25
"""The share of the histories that enable a kind."""
CALLS, WRITES, PIECES = 30, 120, 6
"""What most histories of one model come to: calls to providers, writes of files and commits, pieces of work."""

SHORT_CALL = 0.5
"""Seconds that a call takes at most where several programs are at work."""

Draw = Callable[[random.Random, Plan, int], Plan]


def _kills(draw: random.Random, plan: Plan, length: int) -> Plan:
    downtime = draw.choice((0.0, 1.0, 90.0, 900.0, 7200.0))
    return replace(plan, stops=_points(draw, length, draw.choice((1, 2, 3, 5))), downtime=downtime)


def _hosts(draw: random.Random, plan: Plan, length: int) -> Plan:
    points = _points(draw, length * 3 // 2, draw.choice((0, 1, 2, 3)))
    freezes = tuple(Freeze(at, draw.choice((60.0, 130.0, 400.0, 1500.0))) for at in points)
    return replace(plan, programs=draw.choice((2, 2, 3)), freezes=freezes)


def _late_create(draw: random.Random, plan: Plan, _length: int) -> Plan:
    return replace(plan, late_create=draw.choice((0.0, 10.0, 45.0, 300.0)))


def _denied(draw: random.Random, plan: Plan, _length: int) -> Plan:
    """No row is missing beside it: nobody could tell a batch that no list shows and that has fewer rows."""
    faults = tuple(fault for fault in plan.faults if fault.action != "missing")
    return replace(plan, denied=(draw.choice(providers_of(plan)),), faults=faults)


def _outage(draw: random.Random, plan: Plan, length: int) -> Plan:
    seconds, provider = 3600.0 * draw.choice((0.5, 3.0, 30.0, 52.0)), draw.choice(("*", *providers_of(plan)))
    kind: Failure = draw.choice(("network", "network", "keys"))
    return replace(plan, outages=(Outage(draw.randrange(1, length), seconds, kind, provider),))


def _clocks(draw: random.Random, plan: Plan, length: int) -> Plan:
    plan = replace(plan, skew=draw.choice((-3600.0, -45.0, 45.0, 3600.0)), list_lag=draw.choice((0.0, 10.0, 45.0)))
    if plan.programs > 1 or plan.late_create is not None or draw.random() < 0.5:
        return plan
    seconds = draw.choice((-1, 1)) * 86_400.0 * draw.choice((1.0, 1.25, 3.0, 40.0))
    return replace(plan, moves=(Move(draw.randrange(1, length), seconds, draw.choice((None, 8.0, 600.0))),))


def _slow_calls(draw: random.Random, plan: Plan, _length: int) -> Plan:
    return replace(plan, call_seconds=draw.choice((0.5, 20.0)) if plan.programs == 1 else 0.5)


def _machines(_draw: random.Random, plan: Plan, _length: int) -> Plan:
    return replace(plan, moving=True)


def _budget(_draw: random.Random, plan: Plan, _length: int) -> Plan:
    return replace(plan, budget=True)


def _second_thought(draw: random.Random, plan: Plan, length: int) -> Plan:
    if plan.programs > 1:
        return plan
    return replace(plan, cancel_at=draw.randrange(1, length), takes_back=True)


def _rot(draw: random.Random, plan: Plan, length: int) -> Plan:
    points = _points(draw, length * 5 // 4, draw.choice((1, 1, 2, 4)))
    flips = tuple(Flip(at, draw.randrange(1 << 30)) for at in points)
    return replace(plan, swarm=replace(plan.swarm, flips=flips))


def _disk(draw: random.Random, plan: Plan, _length: int) -> Plan:
    reasons: tuple[Reason, ...] = ("full", "broken")
    disks = tuple(
        BadDisk(draw.randrange(1, WRITES), draw.choice((1, 1, 1, 3, 8)), draw.choice(reasons), draw.random() < 0.3)
        for _ in range(draw.choice((1, 1, 2)))
    )
    return replace(plan, swarm=replace(plan.swarm, disks=disks))


def _storage(draw: random.Random, plan: Plan, _length: int) -> Plan:
    if plan.programs > 1:
        return plan
    return replace(plan, swarm=replace(plan.swarm, storage=draw_storage(draw, WRITES)))


def _workers(draw: random.Random, plan: Plan, _length: int) -> Plan:
    kinds: tuple[Loss, ...] = ("lost", "lost after", "silent")
    numbers = sorted(draw.sample(range(1, PIECES), draw.choice((0, 1, 2, 3))))
    return replace(plan, swarm=replace(plan.swarm, losses=tuple((number, draw.choice(kinds)) for number in numbers)))


def _surroundings(draw: random.Random, plan: Plan, length: int) -> Plan:
    kinds: list[Kind] = ["key", "gateway", "file"]
    if plan.programs == 1 and plan.swarm.storage is None:
        kinds.append("folder")
    points = _points(draw, length, draw.choice((1, 1, 2, 3)))
    changes = tuple(Change(at, draw.choice(kinds), draw.choice(providers_of(plan))) for at in points)
    stops = tuple(sorted({*plan.stops, *points}))
    return replace(plan, stops=stops, swarm=replace(plan.swarm, changes=changes))


def _silences(draw: random.Random, plan: Plan, _length: int) -> Plan:
    numbers = sorted(draw.sample(range(1, CALLS), draw.choice((1, 1, 2, 3))))
    silences = tuple(Silence(number, draw.random() < 0.5, draw.random() < 0.5) for number in numbers)
    return replace(plan, swarm=replace(plan.swarm, silences=silences))


def _looks(draw: random.Random, plan: Plan, length: int) -> Plan:
    commands: tuple[Command, ...] = ("status", "status", "cost", "cost", "plan", "plan", "verify")
    points = _points(draw, length, draw.choice((1, 3, 5)))
    looks = tuple(Look(at, draw.choice(commands)) for at in points)
    return replace(plan, swarm=replace(plan.swarm, looks=looks))


def _frozen(draw: random.Random, plan: Plan, length: int) -> Plan:
    """The plan with a driver that is frozen, mostly for longer than its lease. Another program follows it, unless the
    plan has a trouble that is one program's."""
    points = _points(draw, length, draw.choice((1, 1, 2, 3)))
    freezes = tuple(Freeze(at, draw.choice((60.0, 130.0, 700.0, 1500.0, 7200.0))) for at in points)
    changes = any(change.kind == "folder" for change in plan.swarm.changes)
    is_alone = plan.moves or plan.cancel_at is not None or plan.call_seconds > SHORT_CALL or changes
    programs = plan.programs if is_alone or plan.swarm.storage is not None else max(plan.programs, 2)
    return replace(
        plan, programs=programs, freezes=tuple(sorted((*plan.freezes, *freezes), key=lambda freeze: freeze.at))
    )


def _account(draw: random.Random, plan: Plan, length: int) -> Plan:
    """The plan with a key that becomes the other account's; at the next point it is the first account's again."""
    provider, points = draw.choice(providers_of(plan)), _points(draw, length, draw.choice((1, 1, 2, 3)))
    changes = (*plan.swarm.changes, *(Change(at, "account", provider) for at in points))
    changes = tuple(sorted(changes, key=lambda change: change.at))
    stops = tuple(sorted({*plan.stops, *points}))
    return replace(plan, stops=stops, swarm=replace(plan.swarm, changes=changes))


def _points(draw: random.Random, length: int, count: int) -> tuple[int, ...]:
    return tuple(sorted(draw.sample(range(1, length), count)))


def providers_of(plan: Plan) -> tuple[str, ...]:
    """Return the providers of a plan's world, the judge's last."""
    models, judge = cast(plan.world)
    return (*models, judge)


KINDS: Mapping[str, Draw] = {
    "kills": _kills,
    "hosts": _hosts,
    "late create": _late_create,
    "denied create": _denied,
    "outage": _outage,
    "clocks": _clocks,
    "slow calls": _slow_calls,
    "machines": _machines,
    "budget": _budget,
    "second thought": _second_thought,
    "bit rot": _rot,
    "disk": _disk,
    "object storage": _storage,
    "workers": _workers,
    "surroundings": _surroundings,
    "silent calls": _silences,
    "commands beside": _looks,
}
"""What a swarm enables beside faults of the providers (`histories.py`), in the order in which they are drawn."""
LATER_KINDS: Mapping[str, Draw] = {"frozen": _frozen, "account": _account}
"""Kinds that are drawn when all others are, so that histories without them stay as they were."""


def draw(draw: random.Random, length_of: Callable[[int], int], faults: Mapping[str, Draw]) -> Plan:
    """Draw a swarm: a world, mostly of one model, and of each enabled kind some troubles. ``faults``: more kinds."""
    world = draw.choice((*range(ALONE, 2 * ALONE), *range(ALONE, 2 * ALONE), *range(ALONE)))
    plan = Plan(world, batch_seconds=draw.choice((2.0, 20.0, 60.0, 200.0)))
    kinds = {**faults, **KINDS}
    enabled = [name for name in kinds if draw.random() < ENABLED]
    plan = replace(plan, swarm=Swarm(kinds=tuple(enabled)))
    for name in enabled:
        plan = kinds[name](draw, plan, length_of(world))
    for name, later in LATER_KINDS.items():
        if draw.random() < ENABLED:
            plan = later(draw, plan, length_of(world))
            plan = replace(plan, swarm=replace(plan.swarm, kinds=(*plan.swarm.kinds, name)))
    return plan
