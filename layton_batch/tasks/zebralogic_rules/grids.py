"""Right grids of puzzles, and the corrected protocol: the last grid of a reply counts, whatever stands around it.

Nothing within a thought counts, and nothing is repaired. Raw line breaks in strings and braces in prose do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated

import msgspec

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.reply_json import objects
from layton_batch.tasks.thoughts import without_thoughts
from layton_batch.tasks.zebralogic_rules.grading import (
    Cell,
    GoldGrid,
    GridGrade,
    GridReading,
    GridRules,
    Tag,
    compared,
    normal_grid,
)

PRIVATE_SOURCE = "hf://datasets/allenai/ZebraLogicBench-private/grid_mode/test-00000-of-00001.parquet"
"""Address of the gated data set with the solutions, as in a manifest."""
_FORM = '{"header": ["House", attribute, …], "rows": [["1", value, …], …]}'


class _Solution(msgspec.Struct):
    header: Annotated[list[str], msgspec.Meta(min_length=2)]
    rows: Annotated[list[list[str | int | float]], msgspec.Meta(min_length=1)]


def gold_from(solution: JsonValue, where: str) -> GoldGrid:
    """Read the solution of a puzzle, which may be JSON text. Raises DataError that starts with ``where``."""
    try:
        document = msgspec.json.decode(solution) if isinstance(solution, str) else solution
        table = msgspec.convert(document, _Solution)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DataError(f"{where}: column 'solution' must be {_FORM}, also as JSON text ({error})") from error
    header, rows = tuple(table.header), tuple(tuple(map(str, row)) for row in table.rows)
    if header[0].strip().lower() != "house" or {len(row) for row in rows} != {len(header)}:
        raise DataError(f"{where}: column 'solution' must be {_FORM}, with a value for each attribute in each row")
    if not all(value.replace("_", "").strip() for row in rows for value in row[1:]):
        raise DataError(
            f"{where}: the solution is blanked out, as in the public copies of ZebraLogicBench. The solutions are in "
            f"the gated data set {PRIVATE_SOURCE}: ask for access on its page and set HF_TOKEN"
        )
    cells = (
        Cell(f"House {number}", f"house {row[0].strip().lower()}", attribute, value)
        for number, row in enumerate(rows, 1)
        for attribute, value in zip(header[1:], row[1:], strict=True)
    )
    return GoldGrid(header, rows, tuple(cells))


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
