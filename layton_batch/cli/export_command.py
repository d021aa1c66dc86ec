"""export: a run in the forms that others read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.run_commands import RUNS, RunName, Runs


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("export")(export)


def _known_form(to: str | None) -> str | None:
    """Check the form before Typer misses another option; None while a shell completes a command line."""
    from layton_batch.interchange.writing import check_form

    return to if to is None else check_form(to)


def export(
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORM",
            callback=_known_form,
            help="ppi | annotations | results | items | votes | csv | parquet | eee | hf",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The file to write (ppi, annotations, results, items, votes), or the folder.")
    ],
    run_name: RunName = None,
    organization: Annotated[str, typer.Option("--organization", help="eee: who evaluated.")] = "not stated",
    dataset: Annotated[str | None, typer.Option("--dataset", help="hf: the benchmark, OWNER/NAME.")] = None,
    task_id: Annotated[str | None, typer.Option("--task-id", help="hf: the id in the benchmark's eval.yaml.")] = None,
    runs: Runs = RUNS,
) -> None:
    """Write a run down in the forms that others read. No network, no key.

    ppi, annotations, results: layton-eval's three files, JSONL: every answer with the verdicts and the label on it;
    the labels that people gave; the leaderboard. items: JSONL, the items with the explanations that people confirmed
    (`role = "justify"`). votes: Parquet, a row a prediction and metric, for a folder that `leaderboard` ranks with all
    that was put there. csv, parquet: the leaderboard, and every prediction with its verdicts
    or marks. eee: Every Eval Ever 0.3.0, a document a model and a line an item and metric, in its data store's folders;
    `leaderboard` reads the lines. hf: a file a model for `.eval_results/` of its repository on the hub. Models that are
    not done yet are left out of the last five.

    The file of votes ends in .parquet, any other single file in .jsonl. csv, parquet, eee and hf write several files.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.interchange.writing import ExportArguments, check_out, write_form
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings

    check_out(to, out)
    with read_run(find_run(run_name, runs), Settings.from_process()) as run:
        say(write_form(run, to, out, ExportArguments(organization, dataset, task_id)))
