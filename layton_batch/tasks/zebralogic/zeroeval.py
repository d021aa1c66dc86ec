"""The protocol of the ZebraLogic paper (WildEval/ZeroEval, src/evaluation/zebra_grid_eval.py).

Of one reply braces are counted also inside strings, the last complete group is read, line breaks are deleted first.
Where the paper's script would stop with an exception, the reply is ``malformed_output``: answered, and not solved.

Of several samples of one puzzle those without a readable solution are dropped first; none left is "no answer", and of
one left that one counts, whatever the mode. Two faults of the script are not kept: a puzzle with one readable sample
switched the mode off for all puzzles after it, and ``best_of_n`` stopped at a value written as a list.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from layton_batch.errors import ManifestError
from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic.grids import Cell, GoldGrid, GridGrade, GridReading, GridRules, Tag, compared

_BRACE = re.compile(r"[{}]")
_ABSENT = object()


class UnfitError(Exception):
    """A value that the paper's script cannot compare: it stops there."""


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read(text: str) -> GridReading:
    """The last complete top-level ``{…}`` group, if it is JSON with a ``solution`` that is not null."""
    group = _last_group(text)
    if group is None:
        return GridReading(tag=Tag.NO_ANSWER, note="no complete {...} group")
    try:
        value = json.loads(group.replace("\n", ""))
    except RecursionError:
        return GridReading(tag=Tag.MALFORMED_OUTPUT, note="JSON nested too deep for the paper's script")
    except ValueError:
        return GridReading(tag=Tag.NO_ANSWER, note="the last {...} group is not JSON")
    if not isinstance(value, Mapping) or value.get("solution") is None:
        return GridReading(tag=Tag.NO_ANSWER, note="no solution in the last {...} group")
    return GridReading(value["solution"], value.get("reasoning", ""))


def compare(reading: GridReading, gold: GoldGrid) -> GridGrade:
    """Keys as they are, values in lower case and stripped; houses are counted from 1, whatever the gold calls them."""
    total = len(gold.cells)
    if reading.tag is not Tag.NONE:
        return GridGrade(reading.tag, 0, total, gold.labels, note=reading.note)
    try:
        reasoning = length(reading.reasoning)
        return compared(gold, lambda cell: _is_right(reading.grid, cell), reasoning)
    except UnfitError as error:
        return GridGrade(Tag.MALFORMED_OUTPUT, 0, total, gold.labels, note=str(error))


def best(grades: Sequence[GridGrade]) -> GridGrade:
    """Choose the answered sample with most right cells; of equal samples the first."""
    answered = [grade for grade in grades if grade.tag is not Tag.NO_ANSWER]
    return max(answered or grades[:1], key=lambda grade: grade.cells_correct or 0)


def _last_group(text: str) -> str | None:
    depth = start = 0
    span: tuple[int, int] | None = None
    for match in _BRACE.finditer(text):
        if match.group() == "{":
            start = start if depth else match.start()
            depth += 1
        elif depth:
            depth -= 1
            span = span if depth else (start, match.end())
    return text[slice(*span)] if span else None


def cell_value(grid: JsonValue, cell: Cell) -> str | None:
    """Return the grid's value of a cell, in lower case and stripped, or None. Raises UnfitError."""
    value = _said(grid, cell)
    return None if value is None else _text(value, cell)


def _is_right(grid: JsonValue, cell: Cell) -> bool:
    value = _said(grid, cell)
    return value is not None and length(value) > 0 and _text(value, cell) == cell.value_key


def _said(grid: JsonValue, cell: Cell) -> object:
    row = _part(grid, cell.house)
    value = None if row is _ABSENT else _part(row, cell.attribute)
    return None if value is _ABSENT else value


def _text(value: object, cell: Cell) -> str:
    """A list stands for its first value."""
    text = (value[0] if value else None) if isinstance(value, list) else value
    if not isinstance(text, str):
        raise UnfitError(f"{cell.label} is {_kind(text)}")
    return text.strip().lower()


def _part(whole: object, key: str) -> object:
    """``whole[key]`` where Python's ``in`` says it is there; the script's TypeErrors are UnfitError."""
    if isinstance(whole, Mapping):
        return whole.get(key, _ABSENT)
    if isinstance(whole, str | list) and key not in whole:
        return _ABSENT
    raise UnfitError(f"{_kind(whole)} where an object with {key!r} belongs")


def length(value: object) -> int:
    """Return the length of a text, an array or an object. Raises UnfitError for other values."""
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise UnfitError(f"{_kind(value)} where a text belongs")


def _kind(value: object) -> str:
    kinds = {str: "a text", list: "an array", bool: "true or false", type(None): "null", dict: "an object"}
    return kinds.get(type(value), "a number")


ZEROEVAL = GridRules("zeroeval", read, compare)


# ---- several samples of one puzzle, made one answer ----------------------------------------------------------------


BEST_OF_N, MAJORITY_OF_N = "best_of_n", "majority_of_n"
MODES = (BEST_OF_N, MAJORITY_OF_N)
"""The script's modes that are known here; the first is its default."""


def grade_samples(texts: Sequence[str], gold: GoldGrid, mode: str = BEST_OF_N) -> GridGrade:
    """Return the grade of one or more replies to a puzzle. Raises ManifestError for an unknown mode."""
    check_mode(mode)
    readings = [read(text) for text in texts]
    readable = [reading for reading in readings if reading.tag is not Tag.NO_ANSWER] or readings[:1]
    if mode == BEST_OF_N:
        return best([compare(reading, gold) for reading in readable])
    if unfit := next((reading for reading in readable if reading.tag is not Tag.NONE), None):
        return compare(unfit, gold)
    try:
        return compare(readable[0] if len(readable) == 1 else _voted(readable, gold), gold)
    except UnfitError as error:
        return replace(compare(GridReading(tag=Tag.MALFORMED_OUTPUT), gold), note=str(error))


def check_mode(mode: str) -> None:
    """Raises ManifestError for a mode there is none of."""
    if mode not in MODES:
        raise ManifestError(f"samples {mode!r}: there are {', '.join(MODES)}")


def _voted(samples: Sequence[GridReading], gold: GoldGrid) -> GridReading:
    """A grid of each cell's most frequent value, the first named of equals; its reasoning is the first sample's."""
    rows: dict[str, dict[str, JsonValue]] = {}
    for cell in gold.cells:
        values = (cell_value(reading.grid, cell) for reading in samples)
        counts = Counter(value for value in values if value is not None)
        rows.setdefault(cell.house, {})[cell.attribute] = counts.most_common(1)[0][0] if counts else None
    return GridReading({**rows}, samples[0].reasoning)
