"""grade: bring your own predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, Runs


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("grade")(grade)


def grade(
    task: Annotated[str, typer.Argument(metavar="TASK", help="mcq_idk | zebralogic | rome, or your own.")],
    predictions: Annotated[
        list[str],
        typer.Option("--predictions", metavar="[NAME=]FILE|FOLDER|RUN", help="Repeat it to rank several models."),
    ],
    items: Annotated[Path | None, typer.Option("--items", help="The gold; may be left out if rows carry it.")] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="corrected (default) | original; zebralogic: zeroeval too.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Rank by: idk_score, trad_score | puzzle_accuracy, cell_accuracy | accuracy."),
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(
            "--samples",
            metavar="MODE",
            help="zeroeval, where a puzzle has several outputs: best_of_n (default), majority_of_n, most_common_of_n, "
            "middle_common_of_n, least_common_of_n, longest_of_n, shortest_of_n, median_of_n, rm_bon.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write the report into this file.")] = None,
    updated: Annotated[Path | None, typer.Option("--updated", help="rome: write every prediction, graded.")] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="FILE.md", help="mcq_idk: the published table; - for stdout.")
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE.svg|png", help="mcq_idk: its bar chart; rome: accuracy against tokens."),
    ] = None,
    risk_chart: Annotated[
        Path | None, typer.Option("--risk-chart", metavar="FILE.svg|png", help="mcq_idk: risk against coverage.")
    ] = None,
    ensembles: Annotated[
        bool, typer.Option("--ensembles", help="mcq_idk: also all models as one, by vote; and the best three.")
    ] = False,
    rounds: Annotated[
        bool, typer.Option("--rounds", help="rome: files are rounds of one model, or of each NAME given.")
    ] = False,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", help="mcq_idk: which of several in a folder; charts are titled by it.")
    ] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Grade predictions by a benchmark's rules.

    One file gives its report. Several, a folder of files or a run give a leaderboard with rank boxes. evaluate-idk's
    results folder and ROME's three forms of predictions are read as they are. A benchmark that an entry point adds
    takes --items in its own form, and predictions with item_id and response.
    """
    from layton_batch.cli.grade_files import Asked, check
    from layton_batch.cli.grade_work import run_grade

    asked = Asked(task, tuple(predictions), items, protocol, metric, samples, output, updated, table, chart, risk_chart,
                  ensembles, rounds, benchmark, runs, as_json)  # fmt: skip
    check(asked)
    run_grade(asked)
