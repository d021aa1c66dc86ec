"""The gate of the worlds of ``tests/stats/worlds.py``, most of which draw the vote first."""

from __future__ import annotations

import time

import numpy as np
from scipy.stats import rankdata

from layton_batch.stats.counts import count
from layton_batch.stats.hierarchical import fit
from layton_batch.stats.ranks import rank_ranges
from layton_batch.stats.rate_draws import draws_on_these, rate_draws
from tests.stats.gate import Cell, measure
from tests.stats.held_out import held_out, read_rows
from tests.stats.worlds import WORLDS, World, draw

SEED = 20_261_123
FULL_BOARDS, FAST_BOARDS, DRAWN_OF, DRAWS = 100, 10, 4, 1000
COVERED, WORST, PAIRS, RANKS = 0.945, 0.90, 0.94, 0.94
EXPLAINED = 0.985
MANY = {"300 models": 300, "1,000 models": 1000}


def main(*, full: bool = False, boards: int | None = None) -> None:
    """Every world; with ``full`` differences, ranks, labels that people gave and boards of many models as well."""
    count = boards or (FULL_BOARDS if full else FAST_BOARDS)
    drawn = max(count // DRAWN_OF, 1) if full else 0
    begun = time.process_time()
    own, worst, all_ranks = ((p * (1 - p) / n) ** 0.5 for p, n in ((0.95, 2 * count), (0.9, count), (0.95, drawn or 1)))
    print(f"nominal 95 %; {count} boards a world, seed {SEED}; half widths in points")
    print(f"Monte Carlo error: own models about {own:.3f}, the worst model {worst:.3f}")
    if drawn:
        print(f"differences and ranks: {drawn} boards a world; Monte Carlo error of all ranks {all_ranks:.3f}")
    columns = ("world", "own", "newcomers", "worst", "new: own", "new: newcomers", "width own",
               "width newcomers", "pairs", "pairs, new", "all ranks")  # fmt: skip
    print(f"\n| {' | '.join(columns)} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    misses = []
    for index, (name, world) in enumerate(WORLDS.items()):
        cell = measure(world, count, seed=[SEED, index], draws=DRAWS if full else 0, drawn=drawn)
        print(_line(name, cell), flush=True)
        misses += _misses(name, cell)
    print("\nwhat falls short of the requirement, or is above .985\n")
    print("\n".join(f"- {miss}" for miss in misses))
    if full:
        _real()
        _many()
    print(f"\n{time.process_time() - begun:.0f} s of processor time")


def _real() -> None:
    """Labels that people gave, held out: half of each model's own, and all of a whole model."""
    rows = read_rows()
    if rows is None:
        print("\nreal labels: the optional folder of real data is absent")
        return
    print("\nreal labels held out, text split of layton-eval, three metrics; the answers whose labels are held out are")
    print("scored, and people's verdict on them is the truth\n")
    print("| held out | cases | held | half width |")
    print("|---|---:|---:|---:|")
    for one in held_out(rows):
        print(f"| {one.what} | {one.cases} | {one.held} | {100 * one.half_width:.2f} |", flush=True)


def _groups(cell: Cell) -> dict[str, float]:
    own, new = slice(0, cell.labelled), slice(cell.labelled, None)
    found = {
        "own": cell.held[:, own].mean(),
        "newcomers": cell.held[:, new].mean(),
        "worst": cell.held.mean(axis=0).min(),
        "new: own": cell.held_new[:, own].mean(),
        "new: newcomers": cell.held_new[:, new].mean(),
        "width own": 100 * cell.width[:, own].mean(),
        "width newcomers": 100 * cell.width[:, new].mean(),
    }
    if cell.pairs.size:
        found |= {"pairs": cell.pairs.mean(), "pairs, new": cell.pairs_new.mean(), "all ranks": cell.ranks.mean()}
    return {name: float(value) for name, value in found.items()}


def _line(world: str, cell: Cell) -> str:
    values = [f"{v:.2f}" if "width" in name else f"{v:.3f}" for name, v in _groups(cell).items()]
    values += ["–"] * (10 - len(values))
    return f"| {world} | {' | '.join(values)} |"


def _misses(world: str, cell: Cell) -> list[str]:
    found = _groups(cell)
    least = {"own": COVERED, "newcomers": COVERED, "worst": WORST, "new: own": COVERED, "new: newcomers": COVERED}
    least |= {"pairs": PAIRS, "pairs, new": PAIRS, "all ranks": RANKS}
    told = [f"{world}: {k} {found[k]:.3f}, wanted {least[k]}" for k in least if found.get(k, 1.0) < least[k]]
    told += [f"{world}: {k} {found[k]:.3f}, above {EXPLAINED}" for k in ("own", "newcomers") if found[k] > EXPLAINED]
    return told


def _many() -> None:
    """How much of fresh draws of the same posterior the rank ranges of many models hold."""
    print("\nrank ranges of many models: share of 1,000 fresh draws whose ranks all lie inside; wanted .94\n")
    for name, models in MANY.items():
        rng = np.random.default_rng([SEED, models])
        strengths = tuple(rng.uniform(0.05, 0.97, models).tolist())
        world = World(strengths=strengths, makers=tuple((np.arange(models) % 20).tolist()), labelled=12)
        board = draw(world, rng)
        counts = count(board.target, board.gold)
        found = fit(counts)
        one, fresh = (
            draws_on_these(counts, rate_draws(found, seed=s, draws=n), seed=s) for s, n in ((0, 3000), (1, 1000))
        )
        sets, ranks = rank_ranges(one), rankdata(-fresh, method="min", axis=1)
        inside = ((ranks >= sets.best) & (ranks <= sets.worst)).all(axis=1).mean()
        print(f"- {name}: {inside:.3f}", flush=True)
