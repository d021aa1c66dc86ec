"""The protocol of agi-evals 0.1.0, quirks included: the first acceptable JSON object wins, and lists of wrong cells end
after 20."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic.grids import (
    GoldGrid,
    GridGrade,
    GridReading,
    GridRules,
    Tag,
    compared,
    normal_grid,
)

MAX_WRONG_CELLS = 20
NO_GRID = "no JSON solution grid found"
_FENCE = "```"
_BLANKS = re.compile(r"\s*")


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read(text: str) -> GridReading:
    """The first fenced block, else the span from the first to the last brace, that is strict JSON with a house key."""
    for candidate in _candidates(text):
        try:
            value = json.loads(candidate)
        except RecursionError:
            return GridReading(tag=Tag.HARNESS_ERROR, note="JSON nested too deep for the original's reader")
        except ValueError:
            continue
        if not isinstance(value, Mapping):
            continue
        grid = value.get("solution", value)
        if isinstance(grid, Mapping) and any(key.lower().startswith("house") for key in grid):
            return GridReading(grid, value.get("reasoning"))
    return GridReading(tag=Tag.NO_ANSWER, note=NO_GRID)


def compare(reading: GridReading, gold: GoldGrid) -> GridGrade:
    """Keys and values in lower case and stripped. Replies without a grid have no cell counts."""
    if reading.tag is not Tag.NONE:
        return GridGrade(reading.tag, note=reading.note)
    try:
        grid = normal_grid(reading.grid, _house_key, _value_key)
    except RecursionError:
        return GridGrade(Tag.HARNESS_ERROR, note="a value nested too deep to compare")
    reasoning = len(reading.reasoning) if isinstance(reading.reasoning, str) else 0
    none: Mapping[str, str] = {}
    grade = compared(
        gold, lambda cell: grid.get(cell.house_key, none).get(cell.attribute_key) == cell.value_key, reasoning
    )
    return replace(grade, wrong_cells=grade.wrong_cells[:MAX_WRONG_CELLS])


def _candidates(text: str) -> Iterator[str]:
    yield from _fenced(text)
    start = text.find("{")
    if start >= 0:
        yield text[start : text.rfind("}") + 1]


def _fenced(text: str) -> Iterator[str]:
    """Find the matches of ```` ```(?:json)?\\s*\\n(.*?)``` ````, without its quadratic time on runs of newlines."""
    position = 0
    while (start := text.find(_FENCE, position)) >= 0:
        blank = start + len(_FENCE)
        blank += 4 if text.startswith("json", blank) else 0
        blanks = _BLANKS.match(text, blank)
        newline = text.rfind("\n", blank, blanks.end() if blanks else blank)
        if newline < 0:
            position = start + 1
            continue
        end = text.find(_FENCE, newline + 1)
        if end < 0:
            return  # no later opening can have a closing fence either
        yield text[newline + 1 : end]
        position = end + len(_FENCE)


def _house_key(key: str) -> str:
    return re.sub(r"\s+", " ", key.strip().lower())


def _value_key(value: JsonValue) -> str:
    # null becomes "none" and a list "['x']", as in the original.
    return str(value).strip().lower()


ORIGINAL = GridRules("original", read, compare)
