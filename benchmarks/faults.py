"""Simulated histories full of faults: every stop, then 25,000 seeds; ``--seed N`` plays one again. ``--postgres``: with
the state in a PostgreSQL that is started for it."""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from tests.simulation.claims import reference
from tests.simulation.histories import EDITED, NEIGHBOURS, SWARM, Verdict, every_point, plan_of, play
from tests.simulation.scenarios import PAGE, markdown, measure
from tests.simulation.table import TABLE
from tests.simulation.world import ALONE, Plan
from tests.support.postgres import binaries, server

HISTORIES = 25_000
"""A fifth of them from the seeds that draw the rarer misfortunes too."""
SWARMS = 20_000
"""Histories of ``--swarm`` that are played where nobody says how many."""
CHUNK = 20
PROGRESS = 500


def main(arguments: Sequence[str] = ()) -> int:
    """Every point of every world, then the seeds; 1 where a claim did not hold."""
    asked = _asked(arguments)
    if asked.table:
        return _table(check=asked.check)
    if asked.processes:
        from benchmarks.process_matrix import main as processes

        return processes(asked.workers)
    with _postgres() if asked.postgres else nullcontext() as there:
        if asked.seed is not None:
            return _one(plan_of(asked.seed), there)
        if asked.world is not None:
            return _one(_plan(asked), there)
        return _all(asked, there)


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench faults", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed's history and say what it was")
    parser.add_argument("--world", type=int, help="play this one: 0..6 two models at two providers, 7..13 one")
    parser.add_argument("--stops", default="", help="with --world: the points at which the program is killed")
    parser.add_argument("--breaks", default="", help="with --postgres --world: where its connections break off")
    parser.add_argument("--migrating", action="store_true", help="with --world: the state store does not exist yet")
    parser.add_argument("--cancel", type=int, help="with --world: the point at which the run is cancelled")
    parser.add_argument("--budget", action="store_true", help="with --world: there is money for one batch at a time")
    parser.add_argument("--histories", type=int, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--no-points", action="store_true", help="leave out the stops at every point")
    parser.add_argument("--edits", action="store_true", help="seeds that edit their manifest, and no stops at points")
    parser.add_argument("--neighbours", action="store_true", help="seeds with two runs of a workspace, and no points")
    parser.add_argument("--swarm", action="store_true", help="seeds that draw of every kind of fault, and no points")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--postgres", action="store_true", help="keep the state in PostgreSQL, not in SQLite")
    parser.add_argument("--table", action="store_true", help="print the table of docs/misfortunes.md")
    parser.add_argument("--check", action="store_true", help="with --table: 1 where that page says anything else")
    parser.add_argument("--processes", action="store_true", help="kill real processes instead: the whole matrix")
    asked = parser.parse_args(list(arguments))
    if asked.edits:
        asked.first, asked.no_points = EDITED + asked.first, True
    if asked.neighbours:
        asked.first, asked.no_points = NEIGHBOURS + asked.first, True
    if asked.swarm:
        asked.first, asked.no_points = SWARM + asked.first, True
    if asked.histories is None:
        asked.histories = SWARMS if asked.swarm else HISTORIES
    if asked.postgres and (asked.table or asked.processes):
        parser.error("--postgres goes with --seed, --world and all histories; the table and the matrix are SQLite's")
    return asked


def _plan(asked: argparse.Namespace) -> Plan:
    stops, breaks = (tuple(map(int, filter(None, text.split(",")))) for text in (asked.stops, asked.breaks))
    return Plan(
        asked.world,
        stops=stops,
        breaks=breaks,
        migrating=asked.migrating,
        budget=asked.budget,
        cancel_at=asked.cancel,
    )


def _postgres() -> AbstractContextManager[str]:
    programs = binaries()
    if programs is None:
        sys.exit("PostgreSQL's server programs are not installed (Debian: postgresql)")
    return server(programs)


def _table(*, check: bool) -> int:
    """Play every scenario at every provider; what breaks a claim, or is not what the page says, is told."""
    measured = measure(TABLE)
    table = markdown(measured)
    print(table)
    broken = [
        f"{scenario} at {provider}: {claim}"
        for scenario, row in measured.items()
        for provider, found in row.items()
        for claim in found.broken
    ]
    if check and table not in PAGE.read_text(encoding="utf-8"):
        broken.append(f"{PAGE} has another table")
    for claim in broken:
        print(claim, file=sys.stderr)
    return 1 if broken else 0


def _one(plan: Plan, there: str | None) -> int:
    verdict = _play(plan, there)
    print(verdict.told())
    print(f"  {verdict.points} points, {verdict.batches} batches, {verdict.billed} rows billed")
    return 1 if verdict.broken else 0


def _play(plan: Plan, there: str | None) -> Verdict:
    if there is None:
        return play(plan)
    from tests.simulation.postgres import database

    return play(plan, database(there))


def _all(asked: argparse.Namespace, there: str | None) -> int:
    begun = time.perf_counter()
    points: Iterable[Plan] = () if asked.no_points else itertools.chain.from_iterable(map(every_point, range(7)))
    seeds = (plan_of(seed) for seed in range(asked.first, asked.first + asked.histories))
    tally: Counter[str] = Counter()
    broken = 0
    for verdict in _played(itertools.chain(points, seeds), asked.workers, there):
        tally += _count(verdict)
        if verdict.broken:
            broken += 1
            print(verdict.told(), flush=True)
        if tally["histories"] % PROGRESS == 0:
            pace = tally["histories"] / (time.perf_counter() - begun)
            print(f"{tally['histories']} histories, {broken} broken, {pace:.1f} a second", file=sys.stderr, flush=True)
    print(f"{tally['histories']} histories in {time.perf_counter() - begun:.0f} s, {asked.workers} at a time")
    for what, number in tally.items():
        print(f"  {what:20} {number}")
    print(f"  {'broken':20} {broken}")
    return 1 if broken else 0


def _count(verdict: Verdict) -> Counter[str]:
    plan = verdict.plan
    return Counter(
        {
            "histories": 1,
            "kills": len(verdict.stopped_at),
            "two programs": int(plan.programs > 1 and not plan.neighbour),
            "two runs": int(plan.neighbour),
            "freezes": len(plan.freezes),
            "another machine": int(plan.moving and bool(verdict.stopped_at)),
            "cancelled": int(verdict.cancelled),
            "short of money": int(plan.budget),
            "retried by hand": int(plan.retry_at is not None),
            "asked again": int(plan.reask > 0),
            "edits": len(plan.edits),
            "long outages": len(plan.outages),
            "points passed": verdict.points,
            "batches": verdict.batches,
            "rows billed": verdict.billed,
            "faults": len(plan.faults),
            "silent calls": len(plan.swarm.silences),
            **verdict.fired,
        }
    )


def _played(plans: Iterable[Plan], workers: int, there: str | None) -> Iterator[Verdict]:
    playing = partial(_play, there=there)
    if workers <= 1:
        yield from map(playing, plans)
        return
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # the threads are left to the workers
    with multiprocessing.get_context("spawn").Pool(workers, initializer=_warm) as pool:
        yield from pool.imap_unordered(playing, plans, chunksize=CHUNK)


def _warm() -> None:
    """The undisturbed runs, once in every worker; what stays for good need not be looked through for garbage."""
    for world in range(2 * ALONE):
        reference(world)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
