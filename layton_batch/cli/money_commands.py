"""cost: what runs paid."""

from __future__ import annotations

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
    from layton_batch.errors import ManifestError
    from layton_batch.reports.cost import FORMATS, write_costs
    from layton_batch.run.open import find_run
    from layton_batch.stages.publish import cost_report

    if form not in FORMATS:
        raise ManifestError(f"--format {form!r}: one of {', '.join(FORMATS)}")
    write_costs(cost_report([find_run(name, runs) for name in run_names]), "json" if as_json else form)
