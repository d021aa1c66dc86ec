"""Publish: finished tables as a cost report, leaderboard files and static pages. Computes nothing new."""

from __future__ import annotations

import polars as pl

from layton_batch import tables
from layton_batch.costs.cost_layout import line_json
from layton_batch.costs.report import CostReport, build_report
from layton_batch.run import Run
from layton_batch.run_folder import RunFolder
from layton_batch.site.build import build_site
from layton_batch.stages.usage_rows import usage_rows
from layton_batch.status import read_status


def publish(run: Run) -> bool:
    """Write the cost table and the site anew when the leaderboard or the bill is newer than they are."""
    board = run.folder.part("leaderboard", "leaderboard")
    page = run.folder.site / "index.html"
    if not board.exists() or (page.exists() and page.stat().st_mtime_ns >= _newest(run.folder)):
        return False
    republish(run)
    return True


def republish(run: Run) -> None:
    """Write the cost table and the site from the tables as they are."""
    write_costs(run.folder, cost_report([run.folder]))
    build_site(run.folder, read_status(run.store))


def _newest(folder: RunFolder) -> int:
    written = [*(folder.tables / "usage").glob("*.parquet"), folder.part("leaderboard", "leaderboard")]
    return max(path.stat().st_mtime_ns for path in written)


def cost_report(folders: list[RunFolder]) -> CostReport:
    """What these runs cost together, from their usage tables."""
    usage = pl.concat([tables.read(folder.tables, "usage") for folder in folders])
    return build_report(usage_rows(usage.iter_rows(named=True)))


def write_costs(folder: RunFolder, report: CostReport) -> None:
    """Replace the run's cost table; unknown amounts are null."""
    rows = []
    for line in report.lines:
        row = dict(line_json(line))
        rows.append({key: None if value == "unknown" else value for key, value in row.items()})
    tables.write(folder.part("cost", "cost"), tables.frame("cost", rows))
