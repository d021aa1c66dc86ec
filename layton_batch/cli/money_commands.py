"""cost: what runs paid."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, Runs


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("cost")(cost)


def cost(
    run_names: Annotated[list[str], typer.Argument(metavar="RUN...")],
    form: Annotated[str, typer.Option("--format", help="table | json | csv | md")] = "table",
    as_json: Json = False,
    runs: Runs = RUNS,
) -> None:
    """What runs cost, and what the same tokens cost unbatched.

    Per provider, model and stage: requests, tokens, batched, unbatched, saved.
    """
    from layton_batch.cli.cost_tables import print_costs
    from layton_batch.cli.terminal import print_json
    from layton_batch.costs.cost_layout import report_csv, report_json, report_markdown
    from layton_batch.errors import ManifestError
    from layton_batch.run.open import find_run
    from layton_batch.stages.publish import cost_report

    report = cost_report([find_run(name, runs) for name in run_names])
    match "json" if as_json else form:
        case "json":
            print_json(report_json(report))
        case "csv":
            sys.stdout.write(report_csv(report))
        case "md":
            sys.stdout.write(report_markdown(report))
        case "table":
            print_costs(report)
        case _:
            raise ManifestError(f"--format {form!r}: one of table, json, csv, md")
