"""Publish: finished tables as a cost report, leaderboard files and static pages. Computes nothing new."""

from __future__ import annotations

from functools import partial

from layton_batch.batches.run_costs import RunCosts, add_up, cost_report, has_charges
from layton_batch.costs.report import UNKNOWN, CostReport, line_json
from layton_batch.files import tables
from layton_batch.runs.context import Run
from layton_batch.runs.status import read_status
from layton_batch.scoring import history


def publish(run: Run) -> bool:
    """Make the pages and the cost table what the tables say, where they can be read."""
    return run.engine.apart("site", partial(_publish, run))


def _publish(run: Run) -> bool:
    """Write the cost table where the bill is another than it was made from, and so with the site and its leaderboard.

    Costs change with every collected batch, and a manifest before anything else does: until the run is over the site
    is that of its leaderboard, and nothing is written anew while that is the same.
    """
    bill, report = publish_costs(run)
    part, is_over = run.folder.part("leaderboard", "leaderboard"), all(job.graded for job in run.store.jobs())
    if (board := tables.made_from(part)) is None:
        return False
    from layton_batch.site.build import build_site, made_from

    earlier = made_from(run.folder.site)
    if earlier is not None and earlier.partition(" ")[0] == board.partition(" ")[0] and not is_over:
        return False
    manifest = run.manifest.frozen() | {"folder": "."}  # wherever it stands
    batches = run.store.batches() if is_over else ()  # a person may change what is said of them, and nothing else
    shown = (f"{batch.id} {batch.state} {batch.outcome} {batch.reason}" for batch in batches)
    site = f"{board} {tables.digest('site', board, bill if is_over else None, repr(manifest), *shown)}"
    if earlier == site:
        return False
    if is_over:  # for people who want to know what a refresh changed
        history.keep(run.folder.history, tables.read_part(part), run.clock.now())
    build_site(run.folder, read_status(run.store), report or cost_report({run.folder: run.store}), origin=site)
    return True


def publish_costs(run: Run) -> tuple[str | None, CostReport | None]:
    """Write the tables ``usage`` and ``cost`` where the bill is another than they were made from. Return its digest,
    and the report if they were written."""
    bill = _bill_digest(run)
    usage, cost = run.folder.part("usage", "usage"), run.folder.part("cost", "cost")
    if bill is None or tables.made_from(usage) == tables.made_from(cost) == bill:
        return bill, None
    costs = RunCosts.read(run.folder, run.store)
    tables.write(usage, costs.usage, bill)
    report = add_up([costs])
    lines = [line_json(line) for line in report.lines if line.requests]  # of other lines nothing is known
    rows = [{key: None if value == UNKNOWN else value for key, value in line.items()} for line in lines]
    tables.write(cost, tables.frame("cost", rows), bill)
    return bill, report


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
