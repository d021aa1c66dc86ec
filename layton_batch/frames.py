"""Frames of a notebook as polars frames: polars, pandas, Arrow and lists of dicts; and per-item scores among them.

Narwhals knows the libraries. None of them but polars has to be installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import narwhals as nw
import polars as pl

from layton_batch.errors import DataError
from layton_batch.scoring.evidence import Entrant, ItemScores
from layton_batch.states import PredictionKind

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

Frame: TypeAlias = "IntoDataFrame | Sequence[Mapping[str, object]]"
"""A polars, pandas or Arrow table, any other table that narwhals knows, or a list of dicts, a row each."""


def as_frame(value: object) -> pl.DataFrame | None:
    """Return a table as a polars frame; None for anything else. Raises DataError for rows that make no table."""
    if isinstance(value, pl.DataFrame):
        return value
    if isinstance(value, pl.LazyFrame):
        return value.collect()
    if isinstance(value, list | tuple):
        return _of_rows(value) if value and all(isinstance(row, Mapping) for row in value) else None
    table = nw.from_native(value, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        # polars' own reading of pandas needs pyarrow for most columns
        return _frame(
            {
                name: [None if lacks else value for value, lacks in zip(column, column.is_null(), strict=True)]
                for name, column in ((name, table[name]) for name in table.columns)
            }
        )
    return pl.DataFrame(value) if hasattr(value, "__arrow_c_stream__") else None


def read_frame(value: object) -> pl.DataFrame:
    """Return a table as a polars frame. Raises DataError for anything else."""
    frame = as_frame(value)
    if frame is None:
        kind = type(value).__name__
        raise DataError(f"a {kind} is no table: give a polars, pandas or Arrow table, or a list of dicts")
    return frame


def _of_rows(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return _frame({name: [row.get(name) for row in rows] for name in names})


def _frame(columns: Mapping[str, Sequence[object]]) -> pl.DataFrame:
    try:
        return pl.DataFrame(columns, strict=False)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise DataError(f"the table cannot be read ({str(error)[:200]})") from error


# ---- per-item scores -----------------------------------------------------------------------------------------------


def item_scores(frame: pl.DataFrame, least: float = 0.0, largest: float = 1.0) -> Iterator[ItemScores]:
    """Yield per-item scores by who is ranked, divided by ``largest``, the best mark there is. ``least``: the worst.

    Raises DataError for columns that are not there or of another kind, and for a score outside these two.
    """
    lacking = [name for name in ("model", "item_id") if name not in frame.columns]
    if lacking:
        raise DataError(f"the frame has no column {lacking[0]!r}: per-item scores have model, item_id and score")
    defaults = {"provider": pl.lit(""), "n_hints": pl.lit(0), "kind": pl.lit(str(PredictionKind.ANSWERED)),
                "sample": pl.lit(1), "flag": pl.lit(None)}  # fmt: skip
    whole = frame.with_columns(**{name: value for name, value in defaults.items() if name not in frame.columns})
    try:
        rows = whole.select(
            pl.col("model", "provider", "item_id", "kind", "flag").cast(pl.String),
            pl.col("n_hints", "sample").cast(pl.Int64),
            pl.col("score").cast(pl.Float64),
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(f"the frame's scores cannot be read ({str(error)[:200]})") from error
    _check_scores(rows["score"].to_list(), least, largest)
    for (model, provider, hints, _), part in rows.sort("sample", maintain_order=True).group_by(
        "model", "provider", "n_hints", "sample", maintain_order=True
    ):
        yield ItemScores(
            Entrant(str(model), str(provider), int(hints)),
            part["item_id"].to_list(),
            (part["score"].fill_null(float("nan")) / largest).to_list(),
            part["kind"].to_list(),
            part["flag"].to_list() if "flag" in frame.columns else (),
            span=(least / largest, 1.0),
        )


def _check_scores(scores: Sequence[float | None], least: float, largest: float) -> None:
    for number, score in enumerate(scores, 1):
        if score is not None and not math.isnan(score) and not least <= score <= largest:
            name, mark = ("min_score", "worst") if score < least else ("max_score", "best")
            range_ = f"between {least:g} and {largest:g}; {name} names the {mark} mark, where it is another"
            raise DataError(f"row {number} of the frame: score {score:g} is not {range_}")
