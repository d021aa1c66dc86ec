"""The run's items as Parquet: frozen when the run begins, so that a source that changes later changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import polars as pl

from layton_batch.files import tables
from layton_batch.files.item_list import item_from, item_list, item_rows, picture_characters
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.records import Item

PORTION_CHARACTERS = 8_000_000
"""Characters of pictures that are frozen and read together: several portions are in memory at a time."""


def write(folder: RunFolder, items: Sequence[Item]) -> None:
    """Freeze the items."""
    largest = max(map(picture_characters, items), default=0)
    size = max(1, min(tables.PORTION_ROWS, PORTION_CHARACTERS // max(largest, 1)))
    rows = item_rows(items)
    portions = iter(lambda: list(islice(rows, size)), [])
    with tables.writing_frames(folder.part("items", "items"), "items", pictures=largest > 0) as add:
        for portion in portions:
            add(pl.DataFrame(portion, schema=SCHEMAS["items"]))


def read(folder: RunFolder) -> list[Item]:
    """Read the frozen items, in their order. Raises DamagedTableError where they are gone or cannot be read."""
    portions = tables.read_portions(folder.part("items", "items"), list(SCHEMAS["items"]), PORTION_CHARACTERS)
    return item_list(item_from(row) for portion in portions for row in portion.iter_rows(named=True))
