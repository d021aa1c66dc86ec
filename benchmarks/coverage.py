"""How often 95 % intervals hold the truth in made-up worlds; ``--held-out``: what people said, in real data.

``coverage [--core | --world NAME...] [--boards N] [--start N] [--draw-every N] [--seconds N] [--keep
FILE]`` plays boards and prints their table, ``coverage --table FILE...`` that of what runs have kept. ``--slope S``:
as if the ability slope was known.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import held_out, truth
from layton_batch.stats import hierarchical
from tests.stats.truth_worlds import CORE, WORLDS

TRUTH_BOARDS = 20
KNOWN = 0.02
"""The standard deviation of a slope that counts as known."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="coverage")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--world", action="append", choices=tuple(WORLDS))
    parser.add_argument("--boards", type=int)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--draw-every", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--slope", type=float, help="as if the ability slope was known; judges of a world err at 1")
    parser.add_argument("--table", type=Path, nargs="+")
    asked = parser.parse_args(arguments)
    if asked.held_out:
        held_out.main()
        return
    if asked.slope is not None:
        hierarchical.SLOPE_MEAN = hierarchical.UNKNOWN_SLOPE = asked.slope
        hierarchical.SLOPE_SD = KNOWN
    if asked.table:
        played = truth.read(asked.table)
    else:
        worlds = asked.world or (CORE if asked.core else tuple(WORLDS))
        boards = range(asked.start, asked.start + (asked.boards or TRUTH_BOARDS))
        limits = {"every": asked.draw_every, "seconds": asked.seconds}
        played = truth.run(worlds, boards, keep=asked.keep, **limits)
    print(f"nominal 95 %, seed {truth.SEED}; half widths in points; Monte Carlo errors in brackets\n")
    print("\n".join(truth.table(played)))
