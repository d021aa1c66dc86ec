"""Frames of a notebook as polars frames: polars, pandas, Arrow and lists of dicts.

Narwhals knows the libraries. None of them but polars has to be installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import polars as pl

from layton_batch.errors import DataError, LaytonBatchError
from layton_batch.interchange.score_file import ROUNDING
from layton_batch.text import one_line

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

Frame: TypeAlias = "IntoDataFrame | Sequence[Mapping[str, object]]"
"""A polars, pandas or Arrow table, any other table that narwhals knows, or a list of dicts, a row each."""


def as_frame(value: object, argument: str) -> pl.DataFrame | None:
    """Return a table as a polars frame; None for anything else. Raises DataError, which names the argument, for a table
    that cannot be read.

    A named index of pandas becomes columns.
    """
    if isinstance(value, pl.DataFrame):
        return value
    if isinstance(value, str | PathLike | Mapping):
        return None
    try:
        if isinstance(value, list | tuple):
            return _of_rows(value) if value and all(isinstance(row, Mapping) for row in value) else None
        return value.collect() if isinstance(value, pl.LazyFrame) else _of_library(value)
    except (pl.exceptions.PolarsError, TypeError, ValueError, ImportError) as error:
        raise DataError(f"{argument}: the table cannot be read ({one_line(str(error))[:200]})") from error


def _of_library(value: Any) -> pl.DataFrame | None:
    """Return a table of another library as a polars frame; None for anything else."""
    if (columns := getattr(value, "columns", None)) is not None and hasattr(value, "reset_index"):
        if not all(isinstance(name, str) for name in columns):
            raise ValueError("the columns' names must be text; set `columns` of the table")
        levels = [name for name in value.index.names if name is not None and name not in columns]
        value = value.reset_index(level=levels) if levels else value
    table = nw.from_native(value, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        # polars' own reading of pandas needs pyarrow for most columns
        columns = {
            name: [None if lacks else value for value, lacks in zip(column, column.is_null(), strict=True)]
            for name, column in ((name, table[name]) for name in table.columns)
        }
        return pl.DataFrame(columns, strict=False)
    is_series = hasattr(value, "to_frame")
    return pl.DataFrame(value) if hasattr(value, "__arrow_c_stream__") and not is_series else None


def read_frame(value: object, argument: str) -> pl.DataFrame:
    """Return a table as a polars frame. Raises DataError, which names the argument, for anything else, also no rows."""
    frame = as_frame(value, argument)
    if frame is None:
        kind = type(value).__name__
        raise DataError(f"{argument}: a {kind} is no table: give a polars, pandas or Arrow table, or a list of dicts")
    if frame.is_empty():
        raise DataError(f"{argument}: the table is empty; there must be at least one row")
    return frame


@contextmanager
def as_files(entries: Mapping[str, object]) -> Iterator[list[str]]:
    """Write the frames among the entries to temporary Parquet files, and yield the text of every entry, or its path.

    An error of this package that names such a file is raised with the entry's key, the argument, in its place.
    """
    with TemporaryDirectory() as folder:
        names, arguments = [], {}
        for argument, entry in entries.items():
            if isinstance(entry, pl.DataFrame):
                path = Path(folder) / f"{argument}.parquet"
                _write(entry, path, argument)
                arguments[str(path)] = argument
                entry = path
            names.append(str(entry))
        try:
            yield names
        except LaytonBatchError as error:
            message = str(error)
            for path_name, argument in arguments.items():
                message = message.replace(path_name, argument)
            error.args = (message, *error.args[1:])
            raise


def _write(frame: pl.DataFrame, path: Path, argument: str) -> None:
    for name, dtype in frame.schema.items():
        if dtype == pl.Object:
            raise DataError(f"{argument}: column {name!r} holds values that are neither text nor numbers")
    frame.write_parquet(path)


def _of_rows(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in names}, strict=False)


def check_scores(frame: pl.DataFrame, argument: str, least: float, largest: float) -> None:
    """Raise DataError, with its row, for a number in the column ``score`` that is not from ``least`` to ``largest``."""
    if not {"item_id", "score"} <= set(frame.columns) or not frame["score"].dtype.is_numeric():
        return
    scores = frame["score"].cast(pl.Float64)
    for row in (~scores.is_between(least - ROUNDING, largest + ROUNDING) & scores.is_not_nan()).arg_true().head(1):
        score = scores[row]
        name, mark = ("min_score", "worst") if score < least else ("max_score", "best")
        range_ = f"between {least:g} and {largest:g}; {name} names the {mark} mark, where it is another"
        raise DataError(f"{argument}, row {1 + row}: score {score:g} is not {range_}")
