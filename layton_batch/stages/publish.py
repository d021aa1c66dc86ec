"""Publish: finished tables as a cost report, leaderboard files and static pages. Computes nothing new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from layton_batch.batches.cost_tables import complete_cost_tables, statements, unknown_costs_of, usage_rows
from layton_batch.clock import utc
from layton_batch.costs.report import NOT_ENDED, UNKNOWN, WHOLE, CostQuery, CostReport, build_report, line_json
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.context import Run
from layton_batch.runs.status import read_status
from layton_batch.runs.stores import open_stores
from layton_batch.scoring import history
from layton_batch.settings import Settings


def publish(run: Run) -> bool:
    """Make the pages and the cost table what the tables say, where they can be read."""
    completed = complete_cost_tables(run)
    return run.apart("site", partial(_publish, run)) or completed


def _publish(run: Run) -> bool:
    """Write the cost table where the bill is another than it was made from, and so with the site and its leaderboard.

    Costs change with every collected batch, and a manifest before anything else does: until the run is over the site
    is that of its leaderboard, and nothing is written anew while that is the same.
    """
    bill, report = publish_costs(run)
    site = _site_digest(run, bill)
    if site is None:
        return False
    from layton_batch.site.build import build_site, made_from

    earlier = made_from(run.folder.site)
    if earlier == site:
        return False
    if earlier is not None and earlier.startswith(_board_of(site)) and not _is_over(run):
        return False
    _keep_history(run)
    build_site(run.folder, read_status(run.store), report or cost_report([run.folder]), origin=site)
    return True


def publish_costs(run: Run) -> tuple[str | None, CostReport | None]:
    """Write the cost table where the bill is another than it was made from: its digest, and the report if so."""
    bill = _bill_digest(run)
    if bill is None or tables.made_from(run.folder.part("cost", "cost")) == bill:
        return bill, None
    report = cost_report([run.folder])
    _write_costs(run, bill, report)
    return bill, report


def _keep_history(run: Run) -> None:
    """A snapshot of the board of a run that is over, for people who want to know what a refresh changed."""
    board = run.folder.part("leaderboard", "leaderboard")
    if board.exists() and _is_over(run):
        history.keep(run.folder.history, tables.read_part(board), run.clock.now())


def _bill_digest(run: Run) -> str | None:
    """Hash the cost table's sources; None while nothing was collected."""
    paths = [path for name in ("usage", "untold") for path in tables.parts(run.folder.tables, name)]
    parts = [f"{path.name} {path.stat().st_size}" for path in paths]  # a part of another size is read again
    parts += [str(tables.made_from(path)) for path in tables.parts(run.folder.tables, "reused")]
    money = run.store.money()
    names = [f"{job.id} {job.spec.name}" for job in run.store.all_jobs()]
    prices = f"{run.manifest.prices!r} {run.store.price_changes()}"  # other prices may leave a part its size
    return tables.digest("cost", str(money.spent), str(money.unknown_cost), prices, *parts, *names) if parts else None


def _site_digest(run: Run, bill: str | None) -> str | None:
    """Hash the site's sources; None while there is no leaderboard."""
    board = tables.made_from(run.folder.part("leaderboard", "leaderboard"))
    if board is None:
        return None
    bill = bill if _is_over(run) else None
    return f"{board} {tables.digest('site', board, bill, run.manifest.frozen_json())}"


def _board_of(site: str) -> str:
    return site.partition(" ")[0]


def _is_over(run: Run) -> bool:
    return all(job.graded for job in run.store.jobs())


def cost_report(
    folders: Sequence[RunFolder], query: CostQuery = WHOLE, days: Mapping[str, Mapping[str, str]] | None = None
) -> CostReport:
    """Report the cost of these runs together, from their usage tables, with upper bounds of unknown costs.

    Answers that a run has from another of these runs are in the sums, so only those of further runs count as reused;
    a bill of some days says nothing of them. ``days``: by run and batch (see ``_days_of``), if the query needs them.
    """
    names = [folder.root.resolve().name for folder in folders]
    usages, unknowns, stated = (
        [_of_days(tables.read(folder.tables, name), folder, query, days) for folder in folders]
        for name in ("usage", "untold", "stated")
    )
    comparisons = [
        statement for parts in zip(stated, usages, unknowns, strict=True) for statement in statements(*parts)
    ]
    reused = pl.concat(tables.read(folder.tables, "reused") for folder in folders)
    of_others = reused.filter(~pl.col("run").is_in(names)).unique(("run", "batch_id", "paid_as")).drop("run")
    return build_report(
        usage_rows(pl.concat(usages)),
        unknown_costs_of(pl.concat(unknowns)),
        comparisons,
        () if query.has_dates else usage_rows(of_others),
        query.by,
    )


def queried_costs(folders: Sequence[RunFolder], query: CostQuery, settings: Settings) -> CostReport:
    """Report the cost of these runs as a person asks for it."""
    return cost_report(folders, query, _days_of(folders, settings) if query.needs_days else None)


def _of_days(
    table: pl.DataFrame, folder: RunFolder, query: CostQuery, days: Mapping[str, Mapping[str, str]] | None
) -> pl.DataFrame:
    """Add run and day to a cost table's rows, and keep those of the query's days."""
    named = table.with_columns(run=pl.lit(folder.root.name))
    if days is None:
        return named
    of_run = pl.col("batch_id").replace_strict(days[folder.root.name], default=NOT_ENDED, return_dtype=pl.String)
    dated = named.with_columns(day=of_run)
    return dated.filter(pl.col("day").is_in([day for day in dated["day"].unique() if query.includes(day)]))


def _days_of(folders: Sequence[RunFolder], settings: Settings) -> dict[str, dict[str, str]]:
    """Return by run and batch the day, in UTC, on which the batch ended, for those that have."""
    with open_stores(settings) as store_of:
        return {
            folder.root.name: {
                batch.id: f"{utc(batch.ended_at):%Y-%m-%d}" for batch in store_of(folder).batches() if batch.ended_at
            }
            for folder in folders
        }


def _write_costs(run: Run, origin: str | None, report: CostReport) -> None:
    """Replace the run's cost table: what answers cost; unknown amounts are null."""
    rows = []
    for line in report.lines:
        if not line.requests:
            continue  # nothing of it is known
        row = dict(line_json(line))
        rows.append({key: None if value == UNKNOWN else value for key, value in row.items()})
    tables.write(run.folder.part("cost", "cost"), tables.frame("cost", rows), origin)
