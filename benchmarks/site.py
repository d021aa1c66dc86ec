"""The pages of 100 models and 2,000 items: CPU and memory, beside a plain Jinja template of the items' pages.

``scripts/bench site [--models N] [--items N]``; each in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import jinja2
import orjson
import polars as pl

from benchmarks.apart import apart
from benchmarks.measure import told
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.status import RunState, Status

MODULE = "benchmarks.site"
MODELS, ITEMS, JUDGES = 100, 2_000, 3
MOST_SECONDS, MOST_MIB, MOST_TIMES = 20.0, 500.0, 2.0
WORD = "a riddle of some words, <with> signs & an end. "


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench site", description=__doc__)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--items", type=int, default=ITEMS)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(RunFolder(folder / "made-up"), asked.models, asked.items)
        runs = {kind: apart(MODULE, kind, folder) for kind in ("build", "items", "jinja")}
    whole = (asked.models, asked.items) == (MODELS, ITEMS)
    print(f"{asked.models:,} models, {asked.items:,} items: {runs['build'].size / 1e6:,.0f} MB of pages")
    for kind, run in runs.items():
        ratio = run.cpu / runs["jinja"].cpu
        print(f"{kind:8} {run.cpu:6.2f} cpu-s  peak {run.peak_mib:4.0f} MiB  {ratio:5.2f} x plain Jinja")
    told("pages of items, beside plain Jinja", runs["items"].cpu / runs["jinja"].cpu, "x", MOST_TIMES)
    if whole:
        told("site, CPU", runs["build"].cpu, "s", MOST_SECONDS)
        told("site, peak", runs["build"].peak_mib, "MiB", MOST_MIB)


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


class InterruptedBuildError(Exception):
    """The build came to the pages of the items."""


def items(folder: Path) -> tuple[float, int]:
    """The pages of the items alone, as the site has them."""
    from layton_batch.site import build as site
    from layton_batch.site.items import write_item_pages
    from layton_batch.site.sent import SentRequests

    given: list[Any] = []

    def stop(*values: object) -> None:
        given.extend(values)
        raise InterruptedBuildError

    with (
        unittest.mock.patch.object(site, "write_item_pages", stop),
        contextlib.suppress(InterruptedBuildError),
    ):
        build(folder)
    out = folder / "items"
    begun = time.process_time()
    with ExitStack() as stack:
        made, _ = given
        write_item_pages(replace(made, building=folder), SentRequests(made.folder, stack))
    return time.process_time() - begun, sum(path.stat().st_size for path in out.iterdir())


PLAIN = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{{ item.item_id }}</title></head><body>
<h1>{{ item.item_id }}</h1><p>{{ item.category }}</p><div class="text">{{ item.question }}</div>
{% for hint in item.hints %}<p>{{ hint }}</p>{% endfor %}
<h2>Reference</h2><p>{{ item.answer }}</p><p>{{ item.justification }}</p><p>{{ item.solution }}</p>
<h2>Prompt</h2>{% for message in messages %}<div class="text">{{ message.content }}</div>{% endfor %}
{% for row in rows %}<article class="{{ "right" if row.yes == row.total else "wrong" }}">
<h3>{{ row.model }} <small>{{ row.provider }}</small></h3><p>{{ row.yes }} of {{ row.total }} yes</p>
<p class="answer">{{ row.answer }}</p><p class="reason">{{ row.justification }}</p>
<ul>{% for verdict in row.verdicts %}<li>{{ verdict.judge }}
answer {{ "yes" if verdict.is_answer_correct else "no" }}
reason {{ "yes" if verdict.is_justification_correct else "no" }}</li>{% endfor %}</ul>
<details><summary>The reply as it came {{ row.input_tokens }} in, {{ row.output_tokens }} out,
{{ row.cost_usd }}</summary>
<div class="text">{{ row.raw_text }}</div></details></article>
{% endfor %}</body></html>
"""


SPENT = ["custom_id", "input_tokens", "output_tokens", "cost_usd"]


def jinja(folder: Path) -> tuple[float, int]:
    """The least that shows the same of items: tables joined by Polars, requests read, a template that escapes."""
    out, tables_of = folder / "jinja", folder / "made-up" / "tables"
    out.mkdir()
    begun = time.process_time()
    template = jinja2.Environment(autoescape=True).from_string(PLAIN)
    key = ["item_id", "model"]
    names = ["judge", "is_answer_correct", "is_justification_correct"]
    verdicts = pl.read_parquet(tables_of / "verdicts" / "*.parquet", columns=[*key, *names])
    rows = pl.read_parquet(tables_of / "predictions" / "*.parquet").join(
        pl.read_parquet(tables_of / "scores" / "*.parquet", columns=[*key, "yes", "total"]), on=key
    ).join(
        pl.read_parquet(tables_of / "usage" / "*.parquet", columns=SPENT),
        on="custom_id",
    ).join(verdicts.group_by(key).agg(verdicts=pl.struct(names)), on=key)  # fmt: skip
    sent = {}
    for path in (folder / "made-up").parent.rglob("request.jsonl"):
        for line in path.read_bytes().splitlines():
            request = orjson.loads(line)
            sent[request["custom_id"]] = request["body"]["messages"]
    by_item = {str(name[0]): group for name, group in rows.group_by("item_id")}
    for item in pl.read_parquet(tables_of / "items" / "*.parquet").iter_rows(named=True):
        replies = by_item[item["item_id"]].to_dicts()
        page = template.render(item=item, rows=replies, messages=sent[replies[0]["custom_id"]])
        (out / f"{item['item_id']}.html").write_bytes(page.encode())
    return time.process_time() - begun, sum(path.stat().st_size for path in out.iterdir())


if __name__ == "__main__":
    asked_kind, asked_folder = sys.argv[1], Path(sys.argv[2])
    done = {"build": build, "items": items, "jinja": jinja}[asked_kind](asked_folder)
    print(json.dumps([*done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
