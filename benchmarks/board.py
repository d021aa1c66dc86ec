"""`leaderboard FILE` of 1,000 models, 1,000 items, three judges: CPU and memory, beside a loop that decodes the lines.

``scripts/bench board [--models N] [--items N]``; each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson

from benchmarks.apart import apart
from benchmarks.measure import run, told

MODULE = "benchmarks.board"
MODELS, ITEMS, JUDGES, LABELLED = 1_000, 1_000, ("a", "b", "c"), 8
MOST_SECONDS, MOST_MIB = 10.0, 500.0
REASON = "because of this and of that " * 3


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench board", description=__doc__)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--items", type=int, default=ITEMS)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "gold.jsonl"
        write_gold(path, asked.models, asked.items)
        print(f"{asked.models * asked.items * len(JUDGES):,} verdicts in {path.stat().st_size / 1e6:,.0f} MB")
        ours, loop = run(["leaderboard", str(path), "--format", "json"]), apart(MODULE, "loop", path)
    ratio = ours.cpu / loop.cpu
    print(f"leaderboard {ours.cpu:6.2f} cpu-s  peak {ours.peak_mib:4.0f} MiB  {ratio:5.2f} x orjson.loads of each line")
    if (asked.models, asked.items) == (MODELS, ITEMS):
        told("leaderboard, CPU", ours.cpu, "s", MOST_SECONDS)
        told("leaderboard, peak", ours.peak_mib, "MiB", MOST_MIB)


def write_gold(path: Path, models: int, items: int) -> None:
    """Models of all strengths; some answers of the first eight have labels."""
    rng = np.random.default_rng(0)
    with path.open("wb") as handle:
        for model, strength in enumerate(rng.uniform(0.2, 0.95, models)):
            right = rng.random(items) < strength
            votes = right[:, None] ^ (rng.random((items, len(JUDGES))) < 0.1)
            labelled = rng.random(items) < (0.4 if model < LABELLED else 0.0)
            for item in range(items):
                row = {"riddle_id": f"r{item}", "model": f"m{model}", "provider": f"p{model % 8}",
                       "answer": "the text of an answer", "justification": REASON}  # fmt: skip
                for judge, vote in zip(JUDGES, votes[item].tolist(), strict=True):
                    row |= _decided(vote, "both_correct_", "is_answer_correct_", "is_justification_correct_", judge)
                word = bool(right[item]) if labelled[item] else None
                row |= _decided(word, "human_both_", "human_answer_", "human_justification_", "correct")
                handle.write(orjson.dumps(row) + b"\n")


def _decided(word: bool | None, *names: str) -> dict[str, bool | None]:
    return dict.fromkeys((name + names[-1] for name in names[:-1]), word)


def loop(path: Path) -> tuple[float, int]:
    """What must be done at least in Python: decode each line."""
    begun, size = time.process_time(), 0
    with path.open("rb") as handle:
        for line in handle:
            size += len(orjson.loads(line))
    return time.process_time() - begun, size


if __name__ == "__main__":
    print(json.dumps([*loop(Path(sys.argv[2])), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
