"""CSV and Parquet: the leaderboard, and every prediction with its verdicts or marks."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import polars as pl

from layton_batch.exports.run_contents import ModelContents, RunContents
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import JsonValue
from layton_batch.reports.leaderboard_tables import board_csv
from layton_batch.reports.table import as_csv
from layton_batch.scoring.leaderboard import stored
from layton_batch.text import Table, columns

_PREDICTION = ("item_id", "model", "provider", "family", "split", "n_hints", "kind", "answer", "justification",
               "raw_text", "note", "finish_reason", "sample")  # fmt: skip
_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cost_usd")
_VERDICT = tuple(METRIC_FIELDS.values())


def csv_files(contents: RunContents) -> Iterator[tuple[str, bytes]]:
    """Yield ``leaderboard.csv`` (the run's metric) and ``predictions.csv``.

    Text that a spreadsheet would run as a formula starts with an apostrophe. Line breaks inside a cell stay.
    """
    yield "leaderboard.csv", board_csv(contents.boards[contents.metrics[0]]).encode()
    table = _predictions(contents)
    rows: tuple[tuple[JsonValue, ...], ...] = tuple(table.iter_rows())
    yield "predictions.csv", as_csv(Table(columns(*table.columns), rows), keep="\n\t").encode()


def parquet_files(contents: RunContents) -> Iterator[tuple[str, bytes]]:
    """Yield ``leaderboard.parquet`` with every metric's board, and ``predictions.parquet``; texts are unchanged."""
    yield "leaderboard.parquet", _parquet(stored(pl.concat(contents.boards.values())))
    yield "predictions.parquet", _parquet(_predictions(contents))


def _parquet(table: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    table.write_parquet(out, compression="zstd")
    return out.getvalue()


def _predictions(contents: RunContents) -> pl.DataFrame:
    """Return a row a prediction; null for judges outside the model's jury and for unreadable verdicts."""
    judges = list(dict.fromkeys(judge.name for model in contents.models for judge in model.judges))
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        **{name: SCHEMAS["predictions"][name] for name in _PREDICTION},
        **{metric: pl.Float64() for metric in contents.metrics},
        "flag": pl.String(),
        **{f"{name}_{judge}": pl.Boolean() for judge in judges for name in _VERDICT},
        **{name: SCHEMAS["usage"][name] for name in _TOKENS},
    }
    rows = [row for model in (*contents.models, *contents.later) for row in _rows(model, contents.metrics, judges)]
    return pl.DataFrame({name: [row[name] for row in rows] for name in schema}, schema=schema)


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
