"""The pages of 100 models and 2,000 items: CPU and memory, beside a plain loop that escapes and writes as much.

``scripts/bench site [--models N] [--items N]``; each in a process of its own.
"""

from __future__ import annotations

import argparse
import html
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import orjson
import polars as pl

from benchmarks.apart import apart
from benchmarks.measure import told
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.status import RunState, Status

MODULE = "benchmarks.site"
MODELS, ITEMS, JUDGES = 100, 2_000, 3
LOOPS = 5
MOST_SECONDS, MOST_MIB = 20.0, 500.0
WORD = "a riddle of some words, <with> signs & an end. "


def main(arguments: Sequence[str] = ()) -> dict[str, float]:
    """Ratio of CPU time to that of the plain loop."""
    parser = argparse.ArgumentParser(prog="scripts/bench site", description=__doc__)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--items", type=int, default=ITEMS)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(RunFolder(folder / "made-up"), asked.models, asked.items)
        found = {kind: apart(MODULE, kind, folder) for kind in ("build", "loop")}
    whole = (asked.models, asked.items) == (MODELS, ITEMS)
    print(f"{asked.models:,} models, {asked.items:,} items: {found['build'].size / 1e6:,.0f} MB of pages")
    for kind, one in found.items():
        ratio = one.cpu / found["loop"].cpu
        print(f"{kind:8} {one.cpu:6.2f} cpu-s  peak {one.peak_mib:4.0f} MiB  {ratio:5.2f} x the loop")
    if whole:
        told("site, CPU", found["build"].cpu, "s", MOST_SECONDS)
        told("site, peak", found["build"].peak_mib, "MiB", MOST_MIB)
    return {"site / escape + write": found["build"].cpu / found["loop"].cpu}


def write_run(folder: RunFolder, models: int, items: int) -> None:
    """Tables and requests of a run: each item is right for some models and wrong for others."""
    folder.root.mkdir(parents=True)
    manifest = {"name": "made-up", "task": "layton", "items": {"split": "llm", "hints": 0},
                "scoring": {"metric": "both_correct", "level": 0.95}}  # fmt: skip
    folder.manifest.write_bytes(orjson.dumps({"manifest": manifest}))
    ids = [f"item-{index:05d}" for index in range(items)]
    tables.write(folder.part("items", "items"), tables.frame("items", [_item(one, i) for i, one in enumerate(ids)]))
    names = [f"model-{number:03d}" for number in range(models)]
    for number, name in enumerate(names):
        job = f"predict-{name}"
        rows = list(_rows(job, name, number, ids))
        for table in ("predictions", "scores", "usage"):
            tables.write(folder.part(table, job), tables.frame(table, rows))
        verdicts = [{**row, "judge": f"judge-{seat}", "judge_provider": "openai", "note": None, "raw_text": None,
                     "is_answer_correct": seat < row["yes"], "is_justification_correct": seat < row["yes"]}
                    for row in rows for seat in range(JUDGES)]  # fmt: skip
        tables.write(folder.part("verdicts", job), tables.frame("verdicts", verdicts))
        path = folder.batch(f"{job}.s0001.a1").request_file
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(_line(row, name) for row in rows))
    board = [{"rank": n + 1, "rank_best": n + 1, "rank_worst": n + 2, "model": name, "provider": "openai", "n_hints": 0,
              "score": 90.0 - n / 2, "lower": 88.0 - n / 2, "upper": 92.0 - n / 2, "half_width": 2.0,
              "method": "hierarchical", "metric": "both_correct", "n_items": items, "n_unparsed": 0, "n_missing": 0,
              "n_unjudged": 0, "flags": ""} for n, name in enumerate(names)]  # fmt: skip
    tables.write(folder.part("leaderboard", "leaderboard"), tables.frame("leaderboard", board))


def _item(item_id: str, index: int) -> dict[str, object]:
    return {"item_id": item_id, "split": "llm", "category": f"category {index % 7}", "question": WORD * 12,
            "images": [], "hints": [WORD, WORD], "answer": WORD, "justification": WORD * 4, "solution": WORD * 6,
            "payload": f'{{"_picarats": {10 * (index % 7)}}}'}  # fmt: skip


def _rows(job: str, name: str, number: int, ids: Sequence[str]) -> Iterator[dict[str, object]]:
    for index, item_id in enumerate(ids):
        answer, reason = f"{index} {WORD}", f"{number} {WORD * 6}"
        yield {
            "item_id": item_id, "model": name, "provider": "openai", "family": "openai", "split": "llm", "n_hints": 0,
            "kind": "answered", "answer": answer, "justification": reason, "finish_reason": "stop", "sample": 1,
            "raw_text": json.dumps({"justification": reason, "answer": answer}), "attempt": 1, "job_id": job,
            "custom_id": f"r0-{number:04d}-{index:06d}", "batch_id": f"{job}.s0001.a1", "role": "predict",
            "metric": "both_correct", "yes": (index + number) % (JUDGES + 1), "total": JUDGES, "shard_id": "s0001",
            "input_tokens": 700, "cached_input_tokens": 0, "output_tokens": 300, "reasoning_tokens": 100,
            "cache_write_tokens": 0, "cost_usd": "0.00012345", "unbatched_usd": "0.0002469", "price_source": "made up",
            "price_date": "2026-11-01",
        }  # fmt: skip


def _line(row: dict[str, object], name: str) -> bytes:
    messages = [{"role": "system", "content": WORD * 20}, {"role": "user", "content": f"{row['item_id']} {WORD * 12}"}]
    body = {"model": name, "messages": messages, "max_tokens": 8000}
    line = {"custom_id": row["custom_id"], "method": "POST", "url": "/v1/chat/completions", "body": body}
    return orjson.dumps(line) + b"\n"


def build(folder: Path) -> tuple[float, int]:
    """The whole site."""
    from layton_batch.site.build import build_site

    begun = time.process_time()
    status = Status("made-up", RunState.DONE, None, Decimal(1), Decimal(0), (), ())
    site = build_site(RunFolder(folder / "made-up"), status).parent
    used = time.process_time() - begun
    return used, sum(path.stat().st_size for path in site.rglob("*") if path.is_file())


def loop(folder: Path) -> tuple[float, int]:
    """What must be done at least in Python: read the answers, escape them, write them. The mean of several times, since
    once takes a tenth of a second."""
    out = folder / "loop"
    out.mkdir()
    begun, sizes = time.process_time(), [_escape(folder, out) for _ in range(LOOPS)]
    return (time.process_time() - begun) / LOOPS, sizes[0]


def _escape(folder: Path, out: Path) -> int:
    size = 0
    texts = ["answer", "justification", "raw_text"]
    said = pl.read_parquet(folder / "made-up" / "tables" / "predictions" / "*.parquet", columns=["item_id", *texts])
    for (item_id,), rows in said.group_by("item_id"):
        page = "".join(html.escape(cell) for row in rows.select(texts).iter_rows() for cell in row)
        size += (out / f"{item_id}.html").write_bytes(page.encode())
    return size


if __name__ == "__main__":
    asked_kind, asked_folder = sys.argv[1], Path(sys.argv[2])
    done = loop(asked_folder) if asked_kind == "loop" else build(asked_folder)
    print(json.dumps([*done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
