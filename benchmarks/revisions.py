"""A workspace of 1,000,000 planned requests and 30 revisions that add a model each: CPU, memory, SQL a revision.

``scripts/bench revisions [--lines N] [--items N] [--revisions N]``. Nothing is sent.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sqlalchemy import event
from sqlalchemy.engine import Engine

from benchmarks.prepare import write_run
from layton_batch.manifest.checks import load_manifest
from layton_batch.runs.open import open_run
from layton_batch.settings import Settings
from layton_batch.stages.plan import plan


@dataclass(frozen=True)
class Planned:
    """One call of ``plan``: CPU seconds with opening the run, SQL statements with `BEGIN`, and commits."""

    cpu: float
    statements: int
    commits: int


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench revisions", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--revisions", type=int, default=30)
    options = parser.parse_args(arguments)
    models = max(1, options.lines // options.items)
    sql: Counter[str] = Counter()
    event.listen(Engine, "before_cursor_execute", lambda *_: sql.update(["statements"]))
    event.listen(Engine, "commit", lambda *_: sql.update(["commits"]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = _planned(folder, options.items, models, sql)
        later = [_planned(folder, options.items, models + number + 1, sql) for number in range(options.revisions)]
        idle = _planned(folder, options.items, models + options.revisions, sql)
        size = (folder / "runs" / "state.sqlite3").stat().st_size
    print(f"{models * options.items:,} requests of {models:,} models: {_sentence(first)}")
    if later:
        middle = Planned(
            median(planned.cpu for planned in later),
            round(median(planned.statements for planned in later)),
            round(median(planned.commits for planned in later)),
        )
        print(f"a model more, median of {len(later)}: {_sentence(middle)}; the last: {_sentence(later[-1])}")
    print(f"nothing more: {_sentence(idle)}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak {peak:.0f} MiB; state {size / 1e6:,.0f} MB, {size / (models * options.items):.0f} bytes a request")


def _planned(folder: Path, items: int, models: int, sql: Counter[str]) -> Planned:
    write_run(folder, items, models)
    settings = Settings.from_environment({"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}, folder)
    sql.clear()
    begun = time.process_time()
    with open_run(load_manifest(folder / "manifest.toml"), folder / "runs", settings) as run:
        plan(run)
    return Planned(time.process_time() - begun, sql["statements"], sql["commits"])


def _sentence(planned: Planned) -> str:
    return f"{planned.cpu:.2f} cpu-s, {planned.statements} SQL statements, {planned.commits} commits"
