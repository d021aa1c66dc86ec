"""The run's items as Parquet: frozen when the run begins, so that a source that changes later changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from layton_batch.files import tables
from layton_batch.files.item_shelf import Shelf, item_row
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.records import Item

PORTION_CHARACTERS = 1_000_000
"""Of pictures, when they are frozen and read: several portions are in memory at a time."""


def write(folder: RunFolder, items: Iterable[Item]) -> None:
    """Freeze the items."""
    tables.write_rows(folder.part("items", "items"), "items", map(item_row, items), characters=PORTION_CHARACTERS)


def read(folder: RunFolder) -> Shelf:
    """The frozen items, in their order. Raises DamagedTableError where they are gone or cannot be read."""
    portions = tables.read_portions(folder.part("items", "items"), list(SCHEMAS["items"]), PORTION_CHARACTERS)
    return Shelf(rows=(row for portion in portions for row in portion.iter_rows(named=True)))
