"""Publish: finished tables as a cost report, leaderboard files and static pages. Computes nothing new."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from layton_batch import tables
from layton_batch.costs.cost_layout import line_json
from layton_batch.costs.report import CostReport, build_report
from layton_batch.run import Run
from layton_batch.run_folder import RunFolder
from layton_batch.site.build import build_site
from layton_batch.stages.usage_rows import untold_of, usage_rows
from layton_batch.status import read_status


def publish(run: Run) -> bool:
    """Write the site anew when the leaderboard is newer than it, and the cost table when the bill is."""
    board, page = run.folder.part("leaderboard", "leaderboard"), run.folder.site / "index.html"
    if _newer(page, [board]):
        republish(run)
        return True
    if _newer(run.folder.part("cost", "cost"), (run.folder.tables / "usage").glob("*.parquet")):
        write_costs(run.folder, cost_report([run.folder]))
    return False


def _newer(made: Path, sources: Iterable[Path]) -> bool:
    """Whether a source was written after what is made of it; without any source there is nothing to make."""
    newest = max((path.stat().st_mtime_ns for path in sources if path.exists()), default=0)
    return newest > (made.stat().st_mtime_ns if made.exists() else 0)


def republish(run: Run) -> None:
    """Write the cost table and the site from the tables as they are."""
    write_costs(run.folder, cost_report([run.folder]))
    build_site(run.folder, read_status(run.store))


def cost_report(folders: list[RunFolder]) -> CostReport:
    """What these runs cost together, from their usage tables, and what it may have been beside that."""
    usage = pl.concat([tables.read(folder.tables, "usage") for folder in folders])
    untold = pl.concat([tables.read(folder.tables, "untold") for folder in folders])
    return build_report(usage_rows(usage.iter_rows(named=True)), untold_of(untold.iter_rows(named=True)))


def write_costs(folder: RunFolder, report: CostReport) -> None:
    """Replace the run's cost table: what answers cost; unknown amounts are null."""
    rows = []
    for line in report.lines:
        if not line.requests:
            continue  # nothing of it is known
        row = dict(line_json(line))
        rows.append({key: None if value == "unknown" else value for key, value in row.items()})
    tables.write(folder.part("cost", "cost"), tables.frame("cost", rows))
