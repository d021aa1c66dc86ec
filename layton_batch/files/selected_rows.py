"""Some rows of a large table, so that what is read of it stays small."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from layton_batch.files import tables
from layton_batch.files.table_columns import SCHEMAS


def read_selected(
    folder: Path, name: str, columns: Sequence[str], column: str, values: Collection[str]
) -> pl.DataFrame:
    """The rows in which ``column`` is one of ``values``, in the table's order. A column that parts of an earlier
    version lack is null there. Raises DamagedTableError where a part cannot be read."""
    schema = {one: SCHEMAS[name][one] for one in columns}
    found = tables.parts(folder, name)
    if not found:
        return pl.DataFrame(schema=schema)
    wanted = pl.Series(values=list(values), dtype=pl.String)
    try:
        scanned = pl.scan_parquet(
            found, schema=schema, missing_columns="insert", extra_columns="ignore", glob=False, low_memory=True
        )
        return scanned.filter(pl.col(column).is_in(wanted.implode())).select(columns).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        whole = tables.read(folder, name, columns)  # names the part that is damaged
        return whole.filter(pl.col(column).is_in(wanted.implode()))
