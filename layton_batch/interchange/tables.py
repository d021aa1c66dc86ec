"""A run as tables: CSV and Parquet of the leaderboard and of every prediction with its verdicts or marks, and a run's
votes in one Parquet file, for a folder of many runs' (``scoring/vote_files.py`` has the columns)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from layton_batch.columns import Table, columns
from layton_batch.errors import DataError
from layton_batch.files import atomic, tables
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.interchange.run_contents import ModelContents, RunContents
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.reports.label_sheet import reference_text
from layton_batch.reports.leaderboard_tables import Leaderboard
from layton_batch.reports.table import as_csv
from layton_batch.runs.context import Run
from layton_batch.scoring.gold import HUMAN
from layton_batch.scoring.leaderboard import stored
from layton_batch.scoring.vote_files import SCHEMA
from layton_batch.stages.rank import finished_jobs, joined, label_rows, scores_of

_PREDICTION = ("item_id", "model", "provider", "family", "split", "n_hints", "kind", "answer", "justification",
               "raw_text", "note", "finish_reason", "sample")  # fmt: skip
_QUESTION = ("item_id", "question", "reference")
_ANSWER = ("item_id", "model", "n_hints", "sample")
_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cost_usd")
_VERDICT = tuple(METRIC_FIELDS.values())


def csv_files(contents: RunContents) -> Iterator[tuple[str, bytes]]:
    """Yield ``leaderboard.csv`` (the run's metric) and ``predictions.csv``.

    Text that a spreadsheet would run as a formula starts with an apostrophe. Line breaks inside a cell stay.
    """
    yield "leaderboard.csv", Leaderboard(contents.boards[contents.metrics[0]]).text("csv").encode()
    table = _predictions(contents)
    yield "predictions.csv", as_csv(Table(columns(*table.columns), table.rows()), keep="\n\t").encode()


def parquet_files(contents: RunContents) -> Iterator[tuple[str, bytes]]:
    """Yield ``leaderboard.parquet`` with every metric's board, and ``predictions.parquet``; texts are unchanged."""
    yield "leaderboard.parquet", _parquet(stored(pl.concat(contents.boards.values())))
    yield "predictions.parquet", _parquet(_predictions(contents))


def _parquet(table: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    table.write_parquet(out, compression="zstd")
    return out.getvalue()


def _predictions(contents: RunContents) -> pl.DataFrame:
    """Return a row a prediction, with its question and people's label; null for judges outside the model's jury and for
    unreadable verdicts."""
    judges = list(dict.fromkeys(judge.name for model in contents.models for judge in model.judges))
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        **{name: SCHEMAS["predictions"][name] for name in _PREDICTION},
        **{metric: pl.Float64() for metric in contents.metrics},
        "flag": pl.String(),
        **{f"{name}_{judge}": pl.Boolean() for judge in judges for name in _VERDICT},
        **{name: SCHEMAS["usage"][name] for name in _TOKENS},
    }
    rows = [row for model in (*contents.models, *contents.later) for row in _rows(model, contents.metrics, judges)]
    table = pl.DataFrame({name: [row[name] for row in rows] for name in schema}, schema=schema)
    texts = [(item.id, item.question, reference_text(item)) for item in contents.run.items]
    questions = pl.DataFrame(texts, schema=dict.fromkeys(_QUESTION, pl.String()), orient="row")
    table = table.join(questions, on="item_id", how="left", maintain_order="left")
    return _with_labels(table, contents).select(*_QUESTION, pl.exclude(_QUESTION))


def _with_labels(table: pl.DataFrame, contents: RunContents) -> pl.DataFrame:
    """Add people's labels on the metrics of a run that a jury judges."""
    run = contents.run
    if not run.task.uses_jury:
        return table
    labels = tables.frame("labels", list(label_rows(run, joined(run))))
    human = {column: metric for metric, column in HUMAN.items() if metric in contents.metrics}
    return table.join(labels.select(*_ANSWER, **human), on=_ANSWER, how="left", maintain_order="left")


def _rows(model: ModelContents, metrics: Sequence[str], judges: Sequence[str]) -> Iterator[dict[str, object]]:
    for prediction in model.predictions:
        item = str(prediction["item_id"])
        marks = {metric: model.marks.get((item, metric), {}) for metric in metrics}
        given, usage = model.verdicts.get(item, {}), model.usage.get(item, {})
        yield {
            **{name: prediction[name] for name in _PREDICTION},
            **{metric: row.get("vote") for metric, row in marks.items()},
            "flag": marks[metrics[0]].get("flag"),
            **{f"{name}_{judge}": given.get(judge, {}).get(name) for judge in judges for name in _VERDICT},
            **{name: usage.get(name) for name in _TOKENS},
        }


_GROUP_ROWS = 100_000
"""Rows of a row group: a reader of one metric skips the groups of the others."""


def write_votes(run: Run, out: Path) -> int:
    """Write a row for every prediction and metric, models in the order of their names. Return the number of rows.

    Raises DataError where no jury judges, and where no model is done.
    """
    if not run.task.uses_jury:
        raise DataError(f"{run.id}: this task is graded by rule: there are no votes")
    done = finished_jobs(run)
    if not done:
        raise DataError(
            f"run {run.id}: no model is done yet; there is nothing to export. `layton-batch run` continues it"
        )
    parts = [scores_of(run, job, metric).select(list(SCHEMA)) for metric in run.task.metrics for job in done]
    votes = pl.concat(parts).sort("metric", "model", "provider", "n_hints", "sample", "item_id")
    with atomic.writing(out) as handle:
        votes.write_parquet(handle, compression="zstd", row_group_size=_GROUP_ROWS)
    return votes.height
