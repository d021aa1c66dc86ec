"""leaderboard: rank models from runs, files or tables."""

from __future__ import annotations

from typing import Annotated

import typer

from layton_batch.commands.parameters import Columns, Files, Runs, Sources, ThisSet, names_of
from layton_batch.commands.sources import read_board_sources
from layton_batch.grading.board_sources import BoardOptions, board_of
from layton_batch.interchange.score_table import TableColumns
from layton_batch.reports.leaderboard_tables import Leaderboard
from layton_batch.scoring.leaderboard import on_this_set


def leaderboard(
    source: Sources = None,
    *,
    method: Annotated[
        str | None, typer.Option("--method", help="paper: reproduce layton-eval's published table.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="both_correct | answer_correct | justification_correct, or one that files have."),
    ] = None,
    this_set: ThisSet = False,
    min_score: float = 0.0,
    max_score: Annotated[
        float | None,
        typer.Option("--max-score", help="The best mark in files of other programs, where it is not 1."),
    ] = None,
    labels: Annotated[
        Files,
        list[str] | None,
        typer.Option("--labels", metavar="FILE", help="Only people's labels are taken from this file."),
    ] = None,
    column: Columns = None,
    level: float | None = None,
    seed: int | None = None,
    runs: Runs = None,
) -> Leaderboard:
    """Rank models from runs or files.

    Score, interval and rank range are for new items of this kind; with --this-set for exactly these items.
    Files of recorded predictions, or the per-item scores of any evaluation program: a table (CSV, XLSX, JSONL,
    Parquet) with the columns model, item_id and score. --column names others, also those of judges' verdicts and of
    labels: item=COLUMN, model=, score=, judge= (for each judge), human=. A column `metric` is chosen by --metric.

    Files of other programs, or a folder of them: Every Eval Ever lines, inspect_ai logs (.eval, .json),
    lm-evaluation-harness samples, results of promptfoo and deepeval, tables of MLflow and ragas; their models are
    ranked on the items that all have. NAME=FILE gives such a file's model another name.
    layton-eval's judge files are ranked without the answers that they judge: NAME=FILE or PROVIDER/NAME=FILE for each
    of a model's files; with --labels by people's labels on other models.
    Sources are ranked together, as if they were one run. Labels count as they are now. No key; no network, unless a
    source or a run's labels are at an address: where labels there cannot be reached, the run's copy is used.

    Votes are what `export --to votes` writes.
    \f
    In Python a source may also be a table: per-item scores (``model``, ``item_id``, ``score`` from 0 to 1, or
    ``min_score`` to ``max_score``; if you like ``provider``, ``n_hints``, ``sample``, ``kind``, and ``flag``, what was
    wrong), or layton-eval-ppi's form. Columns ``new_*`` and ``set_*`` of ``frame`` always hold both targets. Raises
    DataError, with the number of the row, for a score outside its bounds.
    """
    columns = TableColumns.of(names_of(column, "column"))
    options = BoardOptions(method, metric, seed, level, max_score, names_of(labels, "labels"), min_score, columns)
    board = board_of(read_board_sources(source, options, runs))
    return Leaderboard(on_this_set(board) if this_set else board)
