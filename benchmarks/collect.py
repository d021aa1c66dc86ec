"""One batch of 50,000 answers of 6 KB collected and graded: CPU and memory, beside a plain orjson and zstd loop.

``scripts/bench collect [--rows N]``; each in a process of its own. What a process takes for a few answers, it takes
once: prices and imports.
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

import orjson

from benchmarks import large_batch
from benchmarks.apart import Apart, apart
from benchmarks.large_batch import ROWS, play

MODULE = "benchmarks.collect"
FEW = 100


def main(arguments: Sequence[str] = ()) -> dict[str, float]:
    """Ratios of CPU time to that of the plain loop."""
    parser = argparse.ArgumentParser(prog="scripts/bench collect", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    rows = parser.parse_args(arguments).rows
    found, few = _measured(rows), _measured(FEW)
    loop = found["loop"]
    print(f"{rows:,} answers, {loop.size / 1e6:,.0f} MB")
    for kind, one in found.items():
        once = few[kind].cpu
        print(
            f"{kind:8} {one.cpu:6.2f} cpu-s  {rows / one.cpu:8,.0f} lines a cpu-s  peak {one.peak_mib:4.0f} MiB"
            f"  {one.cpu / loop.cpu:5.2f} x the loop; without the {once:.2f} cpu-s that {FEW} answers take:"
            f" {rows / (one.cpu - once):8,.0f} lines a cpu-s, {(one.cpu - once) / loop.cpu:5.2f} x"
        )
    return {f"{kind} / orjson + zstd": found[kind].cpu / loop.cpu for kind in ("collect", "grade")}


def _measured(rows: int) -> dict[str, Apart]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large_batch.write_run(folder, rows)
        apart(MODULE, "plan", folder)
        return {kind: apart(MODULE, kind, folder) for kind in ("collect", "grade", "loop")}


def loop(folder: Path) -> tuple[float, int]:
    """What must be done at least in Python: keep the file compressed, decode lines and answers, keep the texts."""
    import zstandard

    begun, size = time.process_time(), 0
    with (
        large_batch.answers(folder).open("rb") as lines,
        (folder / "raw.zst").open("wb") as raw,
        (folder / "texts.zst").open("wb") as texts,
        zstandard.ZstdCompressor(level=3).stream_writer(raw) as keep,
        zstandard.ZstdCompressor(level=3).stream_writer(texts) as said,
    ):
        for line in lines:
            size += keep.write(line)
            text = orjson.loads(line)["response"]["body"]["choices"][0]["message"]["content"]
            reply = orjson.loads(text)
            said.write(reply["answer"].encode() + b"\0" + reply["justification"].encode() + b"\0")
    return time.process_time() - begun, size


if __name__ == "__main__":
    asked_kind, asked_folder = sys.argv[1], Path(sys.argv[2])
    done = loop(asked_folder) if asked_kind == "loop" else (play(asked_kind, asked_folder), 0)
    print(json.dumps([*done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
