"""The default protocol: a tolerant reader, where the published ones fail answers that are plainly there.

Every JSON object in the text is looked at and the last grid counts, as a correction comes after what it corrects.
Nothing within a thought counts. Raw line breaks and tabs in strings are accepted, an envelope is not needed, braces in
prose do no harm. Nothing is repaired: a grid that was not written out is not one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from layton_batch.records import JsonValue
from layton_batch.tasks.reply_json import objects
from layton_batch.tasks.thoughts import without_thoughts
from layton_batch.tasks.zebralogic_rules.grading import GridGrade, GridReading, GridRules, Tag, compared, normal_grid
from layton_batch.tasks.zebralogic_rules.right_grids import GoldGrid, house_number, tolerant_house_key


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read(text: str) -> GridReading:
    """The last object, in whatever it stands, with a key such as "House 1"; its own ``solution`` goes before it."""
    reading: GridReading | None = None
    for found_object in objects(without_thoughts(text)):
        for holder in _grid_holders(found_object.value):
            reading = GridReading(_grid(holder), holder.get("reasoning"))
    if reading is None:
        note = "no JSON object with houses found"
        if text.count("{") > text.count("}"):
            note = f"{note}, and a brace is never closed: the reply may be cut off"
        return GridReading(tag=Tag.NO_ANSWER, note=note)
    return reading


def compare(reading: GridReading, gold: GoldGrid) -> GridGrade:
    """Keys and values in lower case, blanks collapsed; "House1" and "House 01" are house 1; a list's first counts."""
    total = len(gold.cells)
    if reading.tag is not Tag.NONE:
        return GridGrade(reading.tag, 0, total, gold.labels, note=reading.note)
    grid = normal_grid(reading.grid, tolerant_house_key, _value_key)
    reasoning = len(reading.reasoning) if isinstance(reading.reasoning, str) else 0
    none: Mapping[str, str] = {}
    return compared(
        gold,
        lambda cell: grid.get(cell.tolerant_house, none).get(cell.attribute_key) == cell.tolerant_value,
        reasoning,
    )


def _grid_holders(value: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    """Yield the objects in ``value``, itself included, that have a grid and are not within another that has one."""
    if isinstance(value, Mapping) and _has_grid(value):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _grid_holders(part)


def _has_grid(value: Mapping[str, JsonValue]) -> bool:
    return _is_grid(value) or _is_grid(value.get("solution"))


def _grid(holder: Mapping[str, JsonValue]) -> JsonValue:
    inner = holder.get("solution")
    return inner if _is_grid(inner) else holder


def _is_grid(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and any(house_number(key) is not None for key in value)


def _value_key(value: JsonValue) -> str:
    """The text of a value; an empty one, which equals no gold, for what is no value at all."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value).lower().split())


CORRECTED = GridRules("corrected", read, compare)
