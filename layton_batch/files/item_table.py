"""The run's items as Parquet: frozen when the run begins, so that a source that changes later changes nothing."""

from __future__ import annotations

from itertools import islice

import polars as pl

from layton_batch.files import tables
from layton_batch.files.item_shelf import Shelf
from layton_batch.files.parquet_portions import PORTION_ROWS
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import SCHEMAS

PORTION_CHARACTERS = 1_000_000
"""Of pictures, when they are frozen and read: several portions are in memory at a time."""


def write(folder: RunFolder, items: Shelf) -> None:
    """Freeze the items."""
    size = items.fewest(PORTION_CHARACTERS, PORTION_ROWS)
    rows, columns = items.rows, SCHEMAS["items"]
    portions = iter(lambda: list(islice(rows, size)), [])
    frames = (pl.DataFrame(portion, schema=columns) for portion in portions)
    has_pictures = any(item.images for item in items[:1])
    tables.write_frames(folder.part("items", "items"), "items", frames, size, pictures=has_pictures)


def read(folder: RunFolder) -> Shelf:
    """The frozen items, in their order. Raises DamagedTableError where they are gone or cannot be read."""
    portions = tables.read_portions(folder.part("items", "items"), list(SCHEMAS["items"]), PORTION_CHARACTERS)
    return Shelf(rows=(row for portion in portions for row in portion.iter_rows(named=True)))
