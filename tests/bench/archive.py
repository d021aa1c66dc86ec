"""The board of 200,000,000 verdicts in 53 files of votes: whole, with nothing new, with a model more; time and memory.

``scripts/bench archive [--models N] [--items N] [--files N]``; each in a process of its own. The limit is a scan that
counts votes by model and does nothing else.
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
import polars as pl

from tests.bench.apart import apart
from tests.bench.measure import told

MODULE = "tests.bench.archive"
MODELS, ITEMS, FILES, JUDGES = 133_348, 500, 53, 3
MOST_SECONDS, MOST_NOTHING, MOST_MIB = 15.0, 0.3, 512.0
LABELLED, SHARE = 8, 15


def main(arguments: Sequence[str] = ()) -> dict[str, float]:
    """Ratio of the whole board's CPU time to that of the scan."""
    parser = argparse.ArgumentParser(prog="scripts/bench archive", description=__doc__)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--files", type=int, default=FILES)
    asked = parser.parse_args(arguments)
    each = max(1, asked.models // asked.files)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.joinpath("sizes.json").write_text(json.dumps([asked.files, each, asked.items]), encoding="utf-8")
        apart(MODULE, "write", folder)
        print(f"{asked.files * each * asked.items * JUDGES:,} verdicts in {asked.files} files")
        found = {kind: apart(MODULE, kind, folder) for kind in ("scan", "whole", "nothing new", "a model more")}
    for kind, one in found.items():
        # `size` is the wall time in milliseconds
        print(f"{kind:14} {one.cpu:6.2f} cpu-s {one.size / 1000:6.2f} s  peak {one.peak_mib:4.0f} MiB")
    if asked.models == MODELS:
        told("whole board", found["whole"].size / 1000, "s", MOST_SECONDS)
        told("whole board, peak", found["whole"].peak_mib, "MiB", MOST_MIB)
        told("nothing new", found["nothing new"].size / 1000, "s", MOST_NOTHING)
        told("a model more, CPU", found["a model more"].cpu / found["whole"].cpu, "of whole", 1 / SHARE)
    return {"board of votes / scan": found["whole"].cpu / found["scan"].cpu}


def write_votes(path: Path, name: str, models: int, items: int) -> None:
    """Models of all strengths; a tenth of the answers is contested."""
    draw = np.random.default_rng(len(name) + sum(map(ord, name)))
    right = draw.random((models, items)) < draw.uniform(0.2, 0.95, models)[:, None]
    yes = np.where(draw.random((models, items)) < 0.1, np.where(right, 2, 1), np.where(right, JUDGES, 0))
    who = np.repeat(np.arange(models), items)
    pl.DataFrame(
        {
            "item_id": pl.Series([f"item-{item:05d}" for item in range(items)]).gather(
                np.tile(np.arange(items), models)
            ),
            "model": pl.Series([f"model-{name}-{model:06d}" for model in range(models)]).gather(who),
            "provider": pl.Series([f"p{number}" for number in range(8)]).gather(who % 8),
            "yes": yes.ravel().astype(np.int64),
        }
    ).with_columns(
        n_hints=pl.lit(0, pl.Int64),
        sample=pl.lit(1, pl.Int64),
        metric=pl.lit("both_correct"),
        flag=pl.lit(None, pl.String),
        total=pl.lit(JUDGES, pl.Int64),
        content=pl.Series(draw.integers(-(2**62), 2**62, models * items)),
    ).write_parquet(path, compression="zstd", metadata={"layton_batch.votes": name})


def write_labels(path: Path, items: int) -> None:
    """Labels on two fifths of the answers of models that are not ranked."""
    draw = np.random.default_rng(1)
    with path.open("wb") as handle:
        for model in range(LABELLED):
            for item in np.flatnonzero(draw.random(items) < 0.4).tolist():
                votes = (draw.random(JUDGES) < 0.6).tolist()
                word = bool(draw.random() < 0.05 + 0.3 * sum(votes))
                row: dict[str, object] = {"riddle_id": f"item-{item:05d}", "model": f"labelled-{model}",
                                          "provider": f"p{model}"}  # fmt: skip
                for judge, vote in zip("abc", votes, strict=True):
                    row |= {f"is_answer_correct_{judge}": vote, f"is_justification_correct_{judge}": vote}
                row |= {"human_answer_correct": word, "human_justification_correct": word}
                handle.write(orjson.dumps(row) + b"\n")


def board(folder: Path) -> tuple[float, int]:
    """CPU seconds of the board, and milliseconds."""
    from layton_batch.cli.board_sources import Asked
    from layton_batch.cli.vote_sources import large_frame
    from layton_batch.settings import Settings

    settings = Settings.from_environment({"LAYTON_BATCH_COPIES": str(folder / "copies")}, folder)
    begun, began = time.process_time(), time.perf_counter()
    found = large_frame([str(folder / "votes")], settings, Asked(labels=(str(folder / "gold.jsonl"),)))
    if found is None or found[0]["score"].has_nulls():
        raise RuntimeError("this is no board of very many models")
    return time.process_time() - begun, round(1000 * (time.perf_counter() - began))


def scan(folder: Path) -> tuple[float, int]:
    """What must be done at least: read votes and count them by model, a file at a time."""
    begun, began = time.process_time(), time.perf_counter()
    for path in sorted((folder / "votes").glob("*.parquet")):
        pl.scan_parquet(path).group_by("model", "yes", "total").agg(pl.len()).collect()
    return time.process_time() - begun, round(1000 * (time.perf_counter() - began))


def write(folder: Path) -> tuple[float, int]:
    """All files; in a process of its own, since a child's peak counts its parent's."""
    files, models, items = json.loads(folder.joinpath("sizes.json").read_text(encoding="utf-8"))
    (folder / "votes").mkdir()
    for number in range(files):
        write_votes(folder / "votes" / f"{number:03d}.parquet", f"{number:03d}", models, items)
    write_labels(folder / "gold.jsonl", items)
    return 0.0, files


def grown(folder: Path) -> tuple[float, int]:
    """The board with a model more."""
    _, _, items = json.loads(folder.joinpath("sizes.json").read_text(encoding="utf-8"))
    write_votes(folder / "votes" / "new.parquet", "new", 1, items)
    return board(folder)


WORK = {"write": write, "scan": scan, "whole": board, "nothing new": board, "a model more": grown}

if __name__ == "__main__":
    done, size = WORK[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps([done, size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
