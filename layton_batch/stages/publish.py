"""Publish: finished tables as a cost report, leaderboard files and static pages. Computes nothing new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from layton_batch.batches.run_costs import RunCosts, has_charges, usage_rows
from layton_batch.costs.report import (
    UNKNOWN,
    WHOLE,
    CostQuery,
    CostReport,
    build_report,
    line_json,
)
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.context import Run
from layton_batch.runs.status import read_status
from layton_batch.runs.stores import open_stores
from layton_batch.scoring import history
from layton_batch.settings import Settings
from layton_batch.store.run_store import RunStore


def publish(run: Run) -> bool:
    """Make the pages and the cost table what the tables say, where they can be read."""
    return run.engine.apart("site", partial(_publish, run))


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
    build_site(run.folder, read_status(run.store), report or cost_report({run.folder: run.store}), origin=site)
    return True


def publish_costs(run: Run) -> tuple[str | None, CostReport | None]:
    """Write the tables ``usage`` and ``cost`` where the bill is another than they were made from. Return its digest,
    and the report if they were written."""
    bill = _bill_digest(run)
    usage, cost = run.folder.part("usage", "usage"), run.folder.part("cost", "cost")
    if bill is None or tables.made_from(usage) == tables.made_from(cost) == bill:
        return bill, None
    costs = _costs(run.folder, run.store)
    tables.write(usage, costs.usage, bill)
    report = _report({run.folder: costs}, WHOLE)
    tables.write(cost, _cost_table(report), bill)
    return bill, report


def _keep_history(run: Run) -> None:
    """A snapshot of the board of a run that is over, for people who want to know what a refresh changed."""
    board = run.folder.part("leaderboard", "leaderboard")
    if board.exists() and _is_over(run):
        history.keep(run.folder.history, tables.read_part(board), run.clock.now())


def _bill_digest(run: Run) -> str | None:
    """Hash the bill's sources; None while nothing was collected."""
    reused = [str(tables.made_from(path)) for path in tables.parts(run.folder.tables, "reused")]
    batches = [
        f"{batch.id} {batch.spent_usd} {batch.unknown_usd} {batch.creates_usd} {batch.creates_of_unknown_cost}"
        for batch in run.store.batches()
        if has_charges(batch) or batch.creates_of_unknown_cost
    ]
    if not batches and not reused:
        return None
    names = [f"{job.id} {job.spec.name}" for job in run.store.all_jobs()]
    prices = f"{run.manifest.prices!r} {run.store.price_changes()}"  # other prices may leave a batch its sum
    return tables.digest("cost", prices, *batches, *reused, *names)


def _site_digest(run: Run, bill: str | None) -> str | None:
    """Hash the site's sources; None while there is no leaderboard."""
    board = tables.made_from(run.folder.part("leaderboard", "leaderboard"))
    if board is None:
        return None
    bill = bill if _is_over(run) else None
    manifest = run.manifest.frozen() | {"folder": "."}  # wherever it stands
    return f"{board} {tables.digest('site', board, bill, repr(manifest))}"


def _board_of(site: str) -> str:
    return site.partition(" ")[0]


def _is_over(run: Run) -> bool:
    return all(job.graded for job in run.store.jobs())


def cost_report(stores: Mapping[RunFolder, RunStore], query: CostQuery = WHOLE) -> CostReport:
    """Report the cost of these runs together, with upper bounds of unknown costs.

    Answers that a run has from another of these runs are in the sums, so only those of further runs count as reused;
    a bill of some days says nothing of them.
    """
    return _report({folder: _costs(folder, store) for folder, store in stores.items()}, query)


def _costs(folder: RunFolder, store: RunStore) -> RunCosts:
    return RunCosts.read(folder.root.name, store)


def _report(costs: Mapping[RunFolder, RunCosts], query: CostQuery) -> CostReport:
    within = [of_run.within(query) for of_run in costs.values()]
    names = [folder.root.resolve().name for folder in costs]
    reused = pl.concat(tables.read(folder.tables, "reused") for folder in costs)
    of_others = reused.filter(~pl.col("run").is_in(names)).unique(("run", "batch_id", "paid_as")).drop("run")
    return build_report(
        [row for of_run in within for row in usage_rows(of_run.table)],
        [cost for of_run in within for cost in of_run.unknown_costs()],
        [statement for of_run in within for statement in of_run.statements()],
        () if query.has_dates else usage_rows(of_others),
        query.by,
    )


def queried_costs(folders: Sequence[RunFolder], query: CostQuery, settings: Settings) -> CostReport:
    """Report the cost of these runs as a person asks for it."""
    with open_stores(settings) as store_of:
        return cost_report({folder: store_of(folder) for folder in folders}, query)


def _cost_table(report: CostReport) -> pl.DataFrame:
    """Return what answers cost; unknown amounts are null."""
    lines = [line_json(line) for line in report.lines if line.requests]  # of other lines nothing is known
    rows = [{key: None if value == UNKNOWN else value for key, value in line.items()} for line in lines]
    return tables.frame("cost", rows)
