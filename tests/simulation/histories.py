"""From a number to a history, and from a history to a verdict."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from layton_batch.sandbox import Fault
from tests.simulation.claims import broken_claims, reference
from tests.simulation.misfortunes import clocks, creates, edits, results, swarm
from tests.simulation.outages import Outage
from tests.simulation.turns import Freeze
from tests.simulation.world import ALONE, ITEMS, Plan, cast, history

if TYPE_CHECKING:
    from tests.simulation.postgres import Database

RICHER = 20_000
"""Seeds from here on also draw what those below do not, which therefore give the histories they always gave."""
WIDER = 40_000
"""Seeds from here on also draw hostile providers and clocks (`misfortunes/`)."""
EDITED = 60_000
"""Seeds from here on also edit their manifest meanwhile."""
NEIGHBOURS = 80_000
"""Seeds from here on have two runs of one workspace that want the same answers at the same time."""
SWARM = 300_000
"""Seeds from here on are swarms: each enables a subset of all kinds of faults."""
RARE = 0.08
HTTP = ("upload", "create", "poll", "results", "list")
PASSING = (429, 500, 502, 503, 529)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one history; ``broken`` is empty where every claim held."""

    plan: Plan
    broken: tuple[str, ...]
    points: int
    stopped_at: tuple[str, ...]
    batches: int
    billed: int
    cancelled: bool = False
    postgres: bool = False
    fired: Mapping[str, int] = field(default_factory=dict)
    """How many troubles of a swarm came about, by kind."""

    def told(self) -> str:
        """What happened, what is broken, and how to play it again."""
        models, judge = cast(self.plan.world)
        lines = [f"{self.plan}", f"models at {', '.join(models)}, judge at {judge}"]
        lines += [f"stopped at: {point}" for point in self.stopped_at]
        lines += [f"BROKEN: {claim}" for claim in self.broken]
        return "\n  ".join([*lines, f"again: {self.command()}"])

    def command(self) -> str:
        command = "scripts/bench faults" + " --postgres" * self.postgres
        if self.plan.seed:
            return f"{command} --seed {self.plan.seed - 1}"
        command += f" --world {self.plan.world}"
        command += f" --stops {','.join(map(str, self.plan.stops))}" if self.plan.stops else ""
        command += f" --breaks {','.join(map(str, self.plan.breaks))}" if self.plan.breaks else ""
        command += f" --cancel {self.plan.cancel_at}" if self.plan.cancel_at else ""
        return command + " --migrating" * self.plan.migrating + " --budget" * self.plan.budget


def play(plan: Plan, database: Database | None = None, *, statements: bool = False) -> Verdict:
    """Play a plan and hold every claim against what it left behind, in SQLite or in ``database``.

    What is right an undisturbed run on SQLite says, whatever the store. ``statements``: see :func:`history`.
    """
    with history(plan, database, statements=statements) as found:
        points = found.course.points
        return Verdict(
            plan=plan,
            broken=tuple(broken_claims(found)),
            points=len(points),
            stopped_at=tuple(points[stop - 1] for stop in plan.stops if stop <= len(points)),
            batches=len(found.status.batches) if found.status else 0,
            billed=found.providers.ledger().rows_billed,
            cancelled=found.cancelled,
            postgres=database is not None,
            fired=found.troubles.fired(),
        )


def every_point(world: int) -> Iterator[Plan]:
    """The world's run stopped once, at each of its points in turn."""
    for stop in range(1, len(reference(world).points) + 1):
        yield Plan(world, stops=(stop,))


def plan_of(seed: int) -> Plan:
    """The history of a seed: stops at random points, providers that fail, time that passes, sometimes two programs."""
    if seed >= SWARM:
        draw = random.Random(f"swarm {seed}")
        return replace(swarm.draw(draw, lambda world: len(reference(world).points) + 40, FAULTS), seed=seed + 1)
    draw = random.Random(f"history {seed}")
    turn = seed % (3 * ALONE)
    world = turn if turn < 2 * ALONE else turn - ALONE  # two models in a third of the histories, one in the others
    programs = draw.choice((1, 1, 1, 2))
    length = len(reference(world).points) + 40
    stops = draw.sample(range(1, length * (programs + 1) // 2), draw.choice((0, 1, 2, 2, 2, 3, 5)))
    plan = Plan(
        world,
        stops=tuple(sorted(stops)),
        faults=tuple(_faults(draw, world)),
        downtime=draw.choice((0.0, 1.0, 15.0, 90.0, 900.0, 7200.0, 40_000.0)),
        batch_seconds=draw.choice((2.0, 2.0, 20.0, 20.0, 60.0, 200.0)),
        moving=draw.random() < 0.2,
        migrating=draw.random() < 0.02,
        programs=programs,
        freezes=_freezes(random.Random(f"freezes {seed}"), length) if programs > 1 else (),
        cancel_at=draw.randrange(1, length) if programs == 1 and draw.random() < 0.1 else None,
        budget=draw.random() < 0.1,
        seed=seed + 1,
    )
    if draw.random() < 0.5:
        plan = replace(
            plan,
            skew=draw.choice((-3600.0, -600.0, -45.0, 0.0, 45.0, 600.0, 3600.0)),
            list_lag=draw.choice((0.0, 0.0, 10.0, 45.0)),
            call_seconds=draw.choice((0.0, 0.5, 20.0)) if programs == 1 else draw.choice((0.0, 0.5)),
        )
    elif draw.random() < 0.2:
        plan = replace(plan, late_create=draw.choice((0.0, 10.0, 45.0, 300.0)))
    if seed >= NEIGHBOURS:
        return _with_neighbour(random.Random(f"neighbour {seed}"), plan, length)
    if seed >= RICHER:
        plan = _richer(random.Random(f"richer {seed}"), plan, length)
    if seed >= WIDER:
        for number, misfortune in enumerate((results.draw, creates.draw, clocks.draw)):
            plan = misfortune(random.Random(f"wider {number} {seed}"), plan, length)
    if seed >= EDITED:
        plan = edits.draw(random.Random(f"edits-{seed}"), plan, length)
    return plan


def _with_neighbour(draw: random.Random, plan: Plan, length: int) -> Plan:
    """The plan with another run that wants the same answers. What comes back unreadable is left to one run's histories,
    where its bill is told."""
    faults = tuple(fault for fault in plan.faults if fault.action not in ("malformed_line", "unknown_id"))
    stops = draw.sample(range(1, 2 * length), draw.choice((0, 1, 2, 3, 5)))
    return replace(
        plan, neighbour=True, programs=2, faults=faults, stops=tuple(sorted(stops)), cancel_at=None, budget=False,
        freezes=_freezes(draw, length), call_seconds=min(plan.call_seconds, 0.5), downtime=min(plan.downtime, 900.0),
    )  # fmt: skip


def _freezes(draw: random.Random, length: int) -> tuple[Freeze, ...]:
    """Moments at which the driver is frozen: for less than its lease, or so long that the other takes the run over."""
    points = draw.sample(range(1, length * 3 // 2), draw.choice((1, 2, 3)))
    return tuple(Freeze(at, draw.choice((60.0, 130.0, 400.0, 1500.0))) for at in points)


def _richer(draw: random.Random, plan: Plan, length: int) -> Plan:
    """The plan with misfortunes that need more than one thing to go wrong, or take long; few histories have any two."""
    models, judge = cast(plan.world)
    providers = (*models, judge)
    if draw.random() < RARE:
        faults = (*plan.faults, *_short_files(draw, draw.choice(providers)))
        plan = replace(plan, faults=faults)
    if draw.random() < RARE:
        outage = Outage(
            at=draw.randrange(1, length),
            seconds=3600.0 * draw.choice((0.5, 3.0, 30.0, 52.0, 100.0)),
            kind=draw.choice(("network", "network", "keys")),
            provider=draw.choice(("*", *providers)),
        )
        plan = replace(plan, outages=(outage,))
    if draw.random() < RARE:
        plan = replace(plan, late_create=draw.choice((45.0, 300.0)), jump=draw.choice((60.0, 720.0, 3600.0)))
    if draw.random() < RARE:
        again = (*plan.faults, _for_good(draw, draw.choice(providers)))
        plan = replace(plan, faults=again, retry_at=draw.randrange(1, length))
    if draw.random() < RARE:
        again = (*plan.faults, _unusable(draw, draw.choice(providers)))
        plan = replace(plan, faults=again, reask=draw.choice((1, 2)), budget=False)
    if draw.random() < RARE:
        plan = _not_cancelled_at_once(draw, plan, draw.choice(providers), length)
    return plan


def _short_files(draw: random.Random, provider: str) -> Iterator[Fault]:
    """Results that end too soon, at the end of a line; often of a batch that did not complete."""
    if draw.random() < 0.6:
        action = draw.choice(("expire", "cancel"))
        yield Fault(on="batch", action=action, provider=provider, times=1, share=draw.choice((0.4, 0.7, 1.0)))
    times = draw.choice((1, 1, 3))
    yield Fault(on="results", action="short", provider=provider, times=times, share=draw.choice((0.0, 0.4, 0.7)))


def _for_good(draw: random.Random, provider: str) -> Fault:
    """A row that is refused, which nothing but a person's `retry` sends again."""
    match = rf"-00000{draw.randrange(1, ITEMS + 1)}\b"
    return Fault(on="row", action="error", provider=provider, match=match, times=draw.choice((1, 2)), status=400)


def _unusable(draw: random.Random, provider: str) -> Fault:
    """A row whose reply is paid for and of no use."""
    match = rf"-00000{draw.randrange(1, ITEMS + 1)}\b"
    return Fault(on="row", action=draw.choice(("malformed_text", "truncated")), provider=provider, match=match, times=1)


def _not_cancelled_at_once(draw: random.Random, plan: Plan, provider: str, length: int) -> Plan:
    """Cancelled by a person or at the deadline, and the provider does not take the cancel at once."""
    fault = Fault(
        on="cancel",
        action=draw.choice(("status", "status", "drop", "drop_after", "not_json")),
        provider=draw.choice(("*", provider)),
        times=draw.choice((1, 2, 8)),
        status=draw.choice(PASSING),
        retry_after=draw.choice((None, 7.0, 4000.0)),
    )
    if plan.programs == 1 and draw.random() < 0.6:
        return replace(plan, faults=(fault, *plan.faults), cancel_at=draw.randrange(1, length))
    hours = draw.choice((0.2, 1.0, 4.0))
    odd = Fault(on="batch", action="unknown_status", provider=provider, times=1, name="pondering", seconds=hours * 3600)
    return replace(plan, faults=(fault, odd, *plan.faults), deadline_hours=draw.choice((0.5, 2.0)))


def _faults(draw: random.Random, world: int) -> Iterator[Fault]:
    models, judge = cast(world)
    providers = (*models, judge)
    for number in range(draw.choice((0, 1, 1, 2, 3))):
        yield _on_the_wire(draw, draw.choice(providers), first=number == 0)
    if draw.random() < 0.3:
        yield _in_a_row(draw, draw.choice(providers))
    if draw.random() < 0.3:
        yield _of_a_batch(draw, draw.choice(providers))


def _with_wire(draw: random.Random, plan: Plan, _length: int) -> Plan:
    names = swarm.providers_of(plan)
    count = draw.choice((1, 2, 3))
    return _and(plan, *(_on_the_wire(draw, draw.choice(names), first=number == 0) for number in range(count)))


def _with_row(draw: random.Random, plan: Plan, _length: int) -> Plan:
    return _and(plan, _in_a_row(draw, draw.choice(swarm.providers_of(plan))))


def _with_batch(draw: random.Random, plan: Plan, _length: int) -> Plan:
    return _and(plan, _of_a_batch(draw, draw.choice(swarm.providers_of(plan))))


def _and(plan: Plan, *faults: Fault) -> Plan:
    return replace(plan, faults=(*plan.faults, *faults))


FAULTS: Mapping[str, swarm.Draw] = {"wire": _with_wire, "rows": _with_row, "batches": _with_batch}
"""What a swarm enables at its providers."""


def _on_the_wire(draw: random.Random, provider: str, *, first: bool) -> Fault:
    """A call that is refused in passing, not answered, answered with nonsense, or answered in part."""
    on = draw.choice(HTTP)
    actions = ["status", "status", "drop", "drop", "drop_after", "drop_after", "drop_after", "not_json", "truncate"]
    # what was made a moment ago is not visible yet; only once, for the program does not wait for that for ever
    early = draw.random() < 0.3 and first and on in ("create", "poll")
    return Fault(
        on=on,
        action="status" if early else draw.choice(actions + ["cut"] * (on == "results")),
        provider=provider,
        after=draw.randrange(4),
        times=draw.choice((1, 1, 2)) if early else draw.choice((1, 1, 2, 4)),
        status=404 if early else draw.choice(PASSING),
        retry_after=draw.choice((None, None, 7.0, 4000.0)),
        share=draw.random(),
    )


def _in_a_row(draw: random.Random, provider: str) -> Fault:
    actions = ("error", "error", "missing", "duplicate", "unknown_id", "malformed_line")
    return Fault(
        on="row",
        action=draw.choice(actions),
        provider=provider,
        match=rf"-00000{draw.randrange(1, ITEMS + 1)}\b",
        times=1,
        status=draw.choice((429, 500, 503)),
    )


def _of_a_batch(draw: random.Random, provider: str) -> Fault:
    return Fault(
        on="batch",
        action=draw.choice(("fail", "expire", "cancel", "unknown_status")),
        provider=provider,
        times=draw.choice((1, 2)),
        after=draw.randrange(2),
        share=draw.choice((0.0, 0.4, 0.7, 1.0)),
        kind="server_error",
        name="internal error",
        seconds=draw.choice((30.0, 600.0)),
    )
