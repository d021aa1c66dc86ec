"""grade: bring your own predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.grade_work import GradeArguments, check_task, run_grade
from layton_batch.cli.options import Json, Runs
from layton_batch.commands.parameters import environment, runs_folder
from layton_batch.tasks import grade_help

HELP = f"""Grade predictions by a benchmark's rules.

One file gives its report. Several, a folder of files or a run give a leaderboard with rank boxes. {grade_help.FORMS}
A benchmark that an entry point adds takes --items in its own form, and predictions with item_id and response.
"""


def grade(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help=grade_help.TASK)] = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option("--predictions", metavar="[NAME=]FILE|FOLDER|RUN", help="Repeat it to rank several models."),
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", help="The gold, or `bundled`; may be left out if rows carry it.")
    ] = None,
    protocol: Annotated[str | None, typer.Option("--protocol", help=grade_help.PROTOCOL)] = None,
    metric: Annotated[str | None, typer.Option("--metric", help=grade_help.METRIC)] = None,
    samples: Annotated[str | None, typer.Option("--samples", metavar="MODE", help=grade_help.SAMPLES)] = None,
    updated: Annotated[Path | None, typer.Option("--updated", help=grade_help.UPDATED)] = None,
    table: Annotated[str | None, typer.Option("--table", metavar="FILE.md", help=grade_help.TABLE)] = None,
    chart: Annotated[Path | None, typer.Option("--chart", metavar="FILE.svg|png", help=grade_help.CHART)] = None,
    named: Annotated[
        list[str] | None, typer.Option("--ensemble", metavar="NAME=MODEL,MODEL,…", help=grade_help.ENSEMBLE)
    ] = None,
    benchmark: Annotated[str | None, typer.Option("--benchmark", help=grade_help.BENCHMARK)] = None,
    every_run: Annotated[bool, typer.Option("--every-run", help=grade_help.EVERY_RUN)] = False,
    runs: Runs = None,
    as_json: Json = False,
) -> None:
    sources = tuple(predictions or ())
    task = check_task(task, sources)
    arguments = GradeArguments(
        task, sources, items, protocol, metric, samples, updated, table, chart, tuple(named or ()), every_run,
        benchmark, runs_folder(runs, environment()), as_json,
    )  # fmt: skip
    run_grade(arguments)


grade.__doc__ = HELP
