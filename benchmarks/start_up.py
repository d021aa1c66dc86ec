"""CPU time of ``--help``, ``status`` and ``events``: imports must wait until a command needs them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.measure import best, told
from layton_batch.store.engine import sqlite_url
from tests.support.store_rows import RUN, opened

BATCHES = 100
MOST_SECONDS = 0.3


def main() -> None:
    measured = best(["--help"])
    told("--help, CPU", measured.cpu, "s", 0.5)
    told("--help, peak memory", measured.peak_mib, "MiB", 100)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / RUN
        root.mkdir()
        (root / "run.json").write_text(f'{{"manifest": {{"name": "{RUN}"}}, "run_id": "{RUN}"}}')
        with opened(sqlite_url(Path(name) / "state.sqlite3"), BATCHES):
            pass
        for options in ([], ["--log"]):
            measured = best(["status", RUN, *options, "--runs", name])
            told(
                f"{' '.join(['status', *options])} of a run of {BATCHES} batches, CPU", measured.cpu, "s", MOST_SECONDS
            )
