"""Simulated histories full of faults, by real processes: ranges of seeds, or the whole kill matrix (``--matrix``).

``--seed N`` plays one again and tells what happened in it; ``--postgres`` keeps the state in a server that is started.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from tests.simulation.conductor import Forks
from tests.simulation.histories import Plan, plan_of, play
from tests.simulation.matrix import UNDISTURBED, cells, points, stopped
from tests.support.postgres import binaries, new_database, server

HISTORIES = 25_000
PROGRESS = 100

Verdict = tuple[list[str], str, Counter[str]]
"""What is broken, what happened, and counts of it."""


def main(arguments: Sequence[str] = ()) -> int:
    """Play what is asked for; 1 where a claim did not hold."""
    parser = argparse.ArgumentParser(prog="scripts/bench faults", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this seed's history and tell what happened")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=HISTORIES, help="how many seeds")
    parser.add_argument("--matrix", action="store_true", help="stop each run of the matrix once at each of its points")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--postgres", action="store_true", help="keep the state in PostgreSQL, not in SQLite")
    asked = parser.parse_args(list(arguments))
    with _postgres() if asked.postgres else nullcontext() as there:
        if asked.seed is not None:
            broken, told, _ = _play(plan_of(asked.seed), there)
            print(told)
            return 1 if broken else 0
        seeds = range(asked.first, asked.first + asked.count)
        return _all(_matrix() if asked.matrix else map(plan_of, seeds), asked.workers, there)


def _postgres() -> AbstractContextManager[str]:
    programs = binaries()
    if programs is None:
        sys.exit("PostgreSQL's server programs are not installed (Debian: postgresql)")
    return server(programs)


def _matrix() -> Iterator[Plan]:
    forks = Forks()
    for name in UNDISTURBED:
        yield from (stopped(name, way, number) for way, number in cells(points(forks, name)))
    forks.close()


_forks: list[Forks] = []


def _play(plan: Plan, there: str | None) -> Verdict:
    if not _forks:
        _forks.append(Forks())
    broken, played = play(_forks[0], plan, new_database(there) if there else None)
    counts = Counter(
        {
            "histories": 1, "broken": int(bool(broken)), "kills": len(played.conductor.killed),
            "points": len(played.points),
            "processes": len(played.ends), "batches": len(played.world.batches), "rows billed": len(played.world.bills),
            "troubles at providers": played.world.happened.total(),
        }
    )  # fmt: skip
    return broken, played.told(broken), counts


def _all(plans: Iterable[Plan], workers: int, there: str | None) -> int:
    begun, tally = time.perf_counter(), Counter[str]()
    for broken, told, counts in _played(plans, workers, there):
        tally += counts
        if broken:
            print(told, flush=True)
        if tally["histories"] % PROGRESS == 0:
            pace = tally["histories"] / (time.perf_counter() - begun)
            print(f"{tally['histories']} histories, {tally['broken']} broken, {pace:.1f} a second", file=sys.stderr)
    print(f"{time.perf_counter() - begun:.0f} s, {workers} at a time")
    for what, number in tally.items():
        print(f"  {what:22} {number}")
    return 1 if tally["broken"] else 0


def _played(plans: Iterable[Plan], workers: int, there: str | None) -> Iterator[Verdict]:
    playing = partial(_play, there=there)
    if workers <= 1:
        yield from map(playing, plans)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(playing, plans)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
