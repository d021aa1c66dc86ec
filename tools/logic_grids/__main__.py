"""Generate logic grids, or check a file of them.

    python -m tools.logic_grids --output FILE [--seed N] [--per-size N] [--sizes 2*2 6*6 …]
    python -m tools.logic_grids --check FILE

Without arguments the bundled file is written again, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from layton_batch.errors import DataError, LaytonBatchError
from layton_batch.files import atomic
from layton_batch.records import JsonValue
from tools.logic_grids.generator import generate
from tools.logic_grids.solver import solutions
from tools.logic_grids.themes import bundled_themes
from tools.logic_grids.wording import puzzle_from, row_of

BUNDLED = Path(__file__).parents[2] / "layton_batch" / "tasks" / "data" / "zebralogic" / "puzzles.jsonl"
SIZES = tuple(f"{houses}*{attributes}" for houses in range(2, 7) for attributes in range(2, 7))
SEED, PER_SIZE = 1, 2


def rows(seed: int, per_size: int, sizes: Sequence[str] = SIZES) -> Iterator[dict[str, JsonValue]]:
    """``per_size`` rows of each size, "houses*attributes". A puzzle depends only on seed, size and number."""
    themes = bundled_themes()
    for size in sizes:
        houses, attributes = (int(part) for part in size.split("*"))
        for number in range(1, per_size + 1):
            puzzle = generate(themes, houses, attributes, f"{seed}/{size}/{number}")
            yield row_of(puzzle, f"lb-zebra-{houses}x{attributes}-{number}")


def faults(lines: Sequence[str]) -> list[str]:
    """What is wrong with the rows of a file: clues that do not fit the solution, no or several solutions."""
    found = []
    for number, line in enumerate(lines, 1):
        try:
            houses, attributes, clues, grid = puzzle_from(json.loads(line))
        except (DataError, ValueError, RecursionError) as error:
            found.append(f"line {number}: not a puzzle with clues ({error})")
            continue
        answers = solutions(houses, attributes, clues)
        if answers != [grid]:
            found.append(f"line {number}: {'several solutions' if len(answers) > 1 else 'another solution or none'}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.logic_grids",
        description="generate logic grids, or solve them",
    )
    parser.add_argument("--output", type=Path, default=BUNDLED, help="the JSONL file to write (default: the bundled)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"another seed, other puzzles (default: {SEED})")
    parser.add_argument("--per-size", type=int, default=PER_SIZE, help=f"puzzles of each size (default: {PER_SIZE})")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES, metavar="N*M", help="houses*attributes")
    parser.add_argument("--check", type=Path, help="solve every puzzle of this file instead")
    options = parser.parse_args(arguments)
    try:
        return _check(options.check) if options.check else _write(options)
    except (LaytonBatchError, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _write(options: argparse.Namespace) -> int:
    made = rows(options.seed, options.per_size, options.sizes)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in made]
    atomic.write_text(options.output, "".join(lines))
    sys.stderr.write(f"{len(lines)} puzzles: {options.output}\n")
    return 0


def _check(path: Path) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = faults(lines)
    sys.stderr.write("".join(f"{path}: {fault}\n" for fault in found))
    sys.stderr.write(f"{path}: {len(lines) - len(found)} of {len(lines)} puzzles have exactly the solution given\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
