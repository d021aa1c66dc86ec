"""A Parquet file a portion at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

PORTION_ROWS, PORTION_CHARACTERS = 1_000, 32_000_000
"""How much of a long table is held in memory at a time."""


def portions_of(
    path: Path,
    columns: Sequence[str] | None = None,
    rows: int = PORTION_ROWS,
    characters: int = PORTION_CHARACTERS,
    *,
    ahead: bool = False,
) -> Iterator[pl.DataFrame]:
    """At most so many rows and about so many bytes of the file at a time. Raises what Polars raises. ``ahead``: some
    row groups are read ahead, and the list of them once, not for every portion: for files of many small ones."""
    size = path.stat().st_size
    table = pl.scan_parquet(path, glob=False)
    table = table if columns is None else table.select(columns)
    count = table.select(pl.len()).collect().item()
    step = max(1, min(rows, characters * count // size))
    if ahead:
        yield from table.collect_batches(chunk_size=step, maintain_order=True)
        return
    for start in range(0, count, step):
        yield table.slice(start, step).collect()
