"""cost: the bill of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from layton_batch.batches.run_costs import queried_costs
from layton_batch.clock import SystemClock, utc
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import AnyRuns, Runs, environment, run_folders, runs_folder
from layton_batch.costs.report import CostQuery
from layton_batch.reports.cost_document import CostDocument
from layton_batch.runs.folders import find_runs, made_up_note, misplaced_runs


def cost(
    run: AnyRuns = None,
    *,
    by: Annotated[
        str | Sequence[str] | None,
        str | None,
        typer.Option("--by", help="Any of run, provider, model, stage, day, week, month: --by day,model."),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="A date, today, yesterday, or 7d.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="The last day, in the same forms.")] = None,
    runs: Runs = None,
) -> CostDocument:
    """Show what runs cost, and what the same tokens cost live.

    A line for each provider, model and stage, or for each group of --by, and the total: requests, tokens, cost, the
    price of the same tokens without batches, and the cost's share of it. A request belongs to the day, in UTC, on which
    its batch ended.

    --format html is one page to send: it needs no other file, and fits a phone. Last night by model:
    `layton-batch cost --since yesterday --by day,provider,model --format html > cost.html`.
    """
    settings = environment()
    groups = by if by is None or isinstance(by, str) else ",".join(by)
    query = CostQuery.parse(groups, since, until, utc(SystemClock().now()).date())
    place = runs_folder(runs, settings)
    folders = find_runs(place) if run is None else []
    if folders:
        warn(f"left out: {line}" for line in misplaced_runs(place))
    else:
        folders = run_folders(run, runs, settings)
    names = [folder.root.resolve().name for folder in folders]
    return CostDocument(queried_costs(folders, query, settings), names, query, made_up_note(*folders))
