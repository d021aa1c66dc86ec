"""How often 95 % intervals hold the truth: the gate's worlds, truth first; ``--vote-first`` and ``--grid``: older ones.

``coverage [--core | --world NAME...] [--boards N] [--start N] [--draw-every N] [--method NAME...] [--seconds N] [--keep
FILE]`` plays boards and prints their table, ``coverage --table FILE...`` that of what runs have kept. ``--vote-first
[--full]`` plays worlds that draw the vote first, ``--grid [--full]`` the 96 cells of such a world.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import gate, truth
from tests.stats.coverage import RATES, Coverage, grid, measure, measure_ranks
from tests.stats.simulated_boards import Design
from tests.stats.truth_worlds import CORE, WORLDS

TARGET = 0.945
SEED = 20_261_121
FULL_BOARDS, FAST_BOARDS, TRUTH_BOARDS = 1000, 150, 20
RANK_CELLS = {
    "fair judge": Design(RATES["fair"]),
    "adverse judge, shift 0.4, correlation 0.75": Design(RATES["adverse"], shift=0.4, correlation=0.75),
    "fair judge, gold x0.25": Design(RATES["fair"], gold=0.25),
}
FAST = {(1.0, 0.0), (0.25, 0.0), (1.0, 0.4), (0.25, 0.4)}


@dataclass(frozen=True)
class Cell:
    """One cell of the grid and what every method did on it."""

    name: str
    design: Design
    rows: tuple[Coverage, ...]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="coverage")
    parser.add_argument("--vote-first", action="store_true")
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--world", action="append", choices=tuple(WORLDS))
    parser.add_argument("--method", action="append", choices=truth.METHODS)
    parser.add_argument("--boards", type=int)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--draw-every", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--table", type=Path, nargs="+")
    asked = parser.parse_args(arguments)
    if asked.grid:
        _grid(asked.full, asked.boards or (FULL_BOARDS if asked.full else FAST_BOARDS))
    elif asked.vote_first:
        gate.main(full=asked.full, boards=asked.boards)
    else:
        _truth_first(asked)


def _truth_first(asked: argparse.Namespace) -> None:
    if asked.table:
        played = truth.read(asked.table)
    else:
        worlds = asked.world or (CORE if asked.core else tuple(WORLDS))
        boards = range(asked.start, asked.start + (asked.boards or TRUTH_BOARDS))
        methods = asked.method or truth.METHODS
        limits = {"every": asked.draw_every, "seconds": asked.seconds}
        played = truth.run(worlds, methods, boards, keep=asked.keep, **limits)
    print(f"nominal 95 %, seed {truth.SEED}; half widths in points; Monte Carlo errors in brackets\n")
    print("\n".join(truth.table(played)))


def _grid(full: bool, boards: int) -> None:
    """The whole grid with ``full``, else a few of its cells."""
    begun = time.perf_counter()
    cells = []
    for index, (name, design) in enumerate(_chosen(full)):
        cells.append(Cell(name, design, measure(design, boards, seed=SEED + index)))
    print(f"nominal 95 %; {len(cells)} cells of 96, {boards} boards each, seed {SEED}; half widths in points")
    for target, group in (("these", "own labels"), ("these", "no labels"), ("new", "own labels"), ("new", "no labels")):
        for least, most in ((0.0, 0.4), (0.8, 0.8)):
            _summary([c for c in cells if least <= c.design.shift <= most], target, group, f"{least:g}-{most:g}")
    _failures(cells)
    _shorter(cells)
    _ranks(300 if full else 60)
    print(f"\n{time.perf_counter() - begun:.0f} s")


def _chosen(full: bool) -> Iterator[tuple[str, Design]]:
    for name, design in grid():
        if full or ((design.gold, design.shift) in FAST and design.correlation == 0.75):
            yield name, design


def _of(cell: Cell, target: str, group: str) -> dict[str, Coverage]:
    return {row.method: row for row in cell.rows if (row.target, row.group) == (target, group)}


def _summary(cells: Sequence[Cell], target: str, group: str, shift: str) -> None:
    if not cells:
        return
    print(f"\n{target} items, models with {group}, provider shift {shift}, {len(cells)} cells")
    print("| method | mean coverage | worst cell | cells at 0.945 or more | mean half width | Monte Carlo error |")
    print("|---|---:|---:|---:|---:|---:|")
    for method in dict.fromkeys(name for cell in cells for name in _of(cell, target, group)):
        rows = [found[method] for cell in cells if method in (found := _of(cell, target, group))]
        mean = sum(row.covered for row in rows) / len(rows)
        width = 100 * sum(row.half_width for row in rows) / len(rows)
        good = sum(row.covered >= TARGET for row in rows)
        worst, error = min(row.covered for row in rows), max(row.error for row in rows)
        print(f"| {method} | {mean:.3f} | {worst:.3f} | {good} of {len(rows)} | {width:.2f} | {error:.3f} |")


def _failures(cells: Sequence[Cell]) -> None:
    """Every cell where this package's own interval misses the mark, in full."""
    print("\ncells where `calibrated` holds the truth in fewer than 0.945 of cases")
    print("| cell | items | models | coverage | error | below | above | half width |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for cell in cells:
        for row in cell.rows:
            if row.method.startswith("calibrated") and row.covered < TARGET:
                print(
                    f"| {cell.name} | {row.target} | {row.group} | {row.covered:.3f} | {row.error:.3f} | "
                    f"{row.below:.3f} | {row.above:.3f} | {100 * row.half_width:.2f} |"
                )


def _shorter(cells: Sequence[Cell]) -> None:
    """Methods that hold the truth as often and are shorter by more than 5 %: there should be none."""
    print("\nmethods as good as `calibrated` (coverage at least its own or 0.95) and more than 5 % shorter")
    found = 0
    for cell in cells:
        for target, group in {(row.target, row.group) for row in cell.rows}:
            rows = _of(cell, target, group)
            ours = next(row for name, row in rows.items() if name.startswith("calibrated"))
            for name, row in rows.items():
                equal = row.covered >= min(ours.covered, 0.95) and row.share == 1
                if row is not ours and equal and row.half_width < 0.95 * ours.half_width:
                    found += 1
                    print(
                        f"  {cell.name}; {target} items, {group}: {name} {row.covered:.3f} / {100 * row.half_width:.2f}"
                        f" beside {ours.covered:.3f} / {100 * ours.half_width:.2f}"
                    )
    print(f"  {found} cases")


def _ranks(boards: int) -> None:
    print(
        f"\nrank sets on these items, {boards} boards: share of models held, of boards with all ranks held, mean size"
    )
    print("| cell | method | each model | all at once | mean size |")
    print("|---|---|---:|---:|---:|")
    for name, design in RANK_CELLS.items():
        for row in measure_ranks(design, boards, seed=SEED):
            print(f"| {name} | {row.method} | {row.marginal:.3f} | {row.joint:.3f} | {row.size:.2f} |")
