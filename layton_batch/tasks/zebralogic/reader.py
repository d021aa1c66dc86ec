"""The corrected protocol: the last grid of a reply counts, whatever stands around it.

Nothing within a thought counts, and nothing is repaired. Raw line breaks in strings and braces in prose do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from layton_batch.records import JsonValue
from layton_batch.tasks.reply_json import objects
from layton_batch.tasks.thoughts import without_thoughts
from layton_batch.tasks.zebralogic.grids import (
    GoldGrid,
    GridGrade,
    GridReading,
    GridRules,
    Tag,
    compared,
    normal_grid,
)


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read(text: str) -> GridReading:
    """Read the last JSON object with a house 1, in its ``solution`` or in itself."""
    reading = GridReading(tag=Tag.NO_ANSWER, note="no JSON object with houses found")
    for reply_object in objects(without_thoughts(text)):
        holder = reply_object.value
        grid = next((value for value in (holder.get("solution"), holder) if _is_grid(value)), None)
        if grid is not None:
            reading = GridReading(grid, holder.get("reasoning"))
    return reading


def compare(reading: GridReading, gold: GoldGrid) -> GridGrade:
    """Compare keys and values in lower case, with blanks collapsed. Houses are counted from 1."""
    if reading.tag is not Tag.NONE:
        return GridGrade(reading.tag, 0, len(gold.cells), gold.labels, note=reading.note)
    grid = normal_grid(reading.grid, _plain, lambda value: _plain(value) if isinstance(value, str) else "")
    reasoning = len(reading.reasoning) if isinstance(reading.reasoning, str) else 0
    none: Mapping[str, str] = {}
    return compared(
        gold, lambda cell: grid.get(cell.house.lower(), none).get(cell.attribute_key) == _plain(cell.value), reasoning
    )


def _is_grid(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and any(_plain(key) == "house 1" for key in value)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


CORRECTED = GridRules("corrected", read, compare)
