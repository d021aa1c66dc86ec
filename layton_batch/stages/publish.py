"""Publish: finished tables as a cost report, leaderboard files and static pages. Computes nothing new."""

from __future__ import annotations

from functools import partial

import polars as pl

from layton_batch.batches.usage_rows import statements, unknown_costs_of, usage_rows
from layton_batch.costs.report import UNKNOWN, CostReport, build_report, line_json
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.run.context import Run
from layton_batch.run.status import read_status
from layton_batch.site.build import build_site, made_from


def publish(run: Run) -> bool:
    """Make the pages and the cost table what the tables say, where they can be read."""
    return run.apart("site", partial(_publish, run))


def _publish(run: Run) -> bool:
    """Write the cost table where the bill is another than it was made from, and so with the site and its leaderboard.

    Costs change with every collected batch: until the run is over the site keeps those of its leaderboard's day.
    """
    bill = _bill_digest(run)
    if bill is not None and tables.made_from(run.folder.part("cost", "cost")) != bill:
        _write_costs(run, bill)
    site = _site_digest(run, bill)
    if site is None or made_from(run.folder.site) == site:
        return False
    build_site(run.folder, read_status(run.store), origin=site)
    return True


def republish(run: Run) -> None:
    """Write the cost table and the site from the tables as they are."""
    bill = _bill_digest(run)
    _write_costs(run, bill)
    build_site(run.folder, read_status(run.store), origin=_site_digest(run, bill))


def _bill_digest(run: Run) -> str | None:
    """What the cost table is made from; None while nothing was collected."""
    parts = [
        path.name
        for name in ("usage", "untold", "reused")
        for path in sorted((run.folder.tables / name).glob("*.parquet"))
    ]
    money = run.store.money()
    return tables.digest("cost", str(money.spent), str(money.unknown_cost), *parts) if parts else None


def _site_digest(run: Run, bill: str | None) -> str | None:
    """What the site is made from; None while there is no leaderboard."""
    board = tables.made_from(run.folder.part("leaderboard", "leaderboard"))
    if board is None:
        return None
    is_over = all(job.graded for job in run.store.jobs())
    return tables.digest("site", board, bill if is_over else None, run.manifest.frozen_json())


def cost_report(folders: list[RunFolder]) -> CostReport:
    """What these runs cost together, from their usage tables, and the upper bounds of unknown costs."""
    usages = [tables.read(folder.tables, "usage") for folder in folders]
    unknowns = [tables.read(folder.tables, "untold") for folder in folders]
    stated = [
        statement
        for folder, usage, unknown in zip(folders, usages, unknowns, strict=True)
        for statement in statements(tables.read(folder.tables, "stated"), usage, unknown)
    ]
    return build_report(
        usage_rows(pl.concat(usages).iter_rows(named=True)),
        unknown_costs_of(pl.concat(unknowns).iter_rows(named=True)),
        stated,
        [row for folder in folders for row in usage_rows(tables.read(folder.tables, "reused").iter_rows(named=True))],
    )


def _write_costs(run: Run, origin: str | None) -> None:
    """Replace the run's cost table: what answers cost; unknown amounts are null."""
    rows = []
    for line in cost_report([run.folder]).lines:
        if not line.requests:
            continue  # nothing of it is known
        row = dict(line_json(line))
        rows.append({key: None if value == UNKNOWN else value for key, value in row.items()})
    tables.write(run.folder.part("cost", "cost"), tables.frame("cost", rows), origin)
