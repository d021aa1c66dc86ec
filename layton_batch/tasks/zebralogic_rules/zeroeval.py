"""The protocol of the ZebraLogic paper (WildEval/ZeroEval, src/evaluation/zebra_grid_eval.py), on one reply a puzzle.

Braces are counted also inside strings, the last complete group is read, line breaks are deleted first. Where the
paper's script would stop with an exception, the reply is ``malformed_output``: answered, and not solved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic_rules.gold import Cell, Gold
from layton_batch.tasks.zebralogic_rules.grading import GridGrade, Reading, Rules, compared
from layton_batch.tasks.zebralogic_rules.strict_json import TooDeepError, load
from layton_batch.tasks.zebralogic_rules.tags import Tag

_BRACE = re.compile(r"[{}]")
_ABSENT = object()


class UnfitError(Exception):
    """What the paper's script cannot compare, and so stops at."""


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read(text: str) -> Reading:
    """The last complete top-level ``{…}`` group, if it is JSON with a ``solution`` that is not null."""
    group = _last_group(text)
    if group is None:
        return Reading(tag=Tag.NO_ANSWER, note="no complete {...} group")
    try:
        value = load(group.replace("\n", ""))
    except TooDeepError:
        return Reading(tag=Tag.MALFORMED_OUTPUT, note="JSON nested too deep for the paper's script")
    except ValueError:
        return Reading(tag=Tag.NO_ANSWER, note="the last {...} group is not JSON")
    if not isinstance(value, Mapping) or value.get("solution") is None:
        return Reading(tag=Tag.NO_ANSWER, note="no solution in the last {...} group")
    return Reading(value["solution"], value.get("reasoning", ""))


def compare(reading: Reading, gold: Gold) -> GridGrade:
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
    """Of several samples of one puzzle the answered one with most right cells, the first of equals."""
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
    """What a grid says of a cell, in lower case and stripped; None where it says nothing. Raises UnfitError."""
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
    said = (value[0] if value else None) if isinstance(value, list) else value
    if not isinstance(said, str):
        raise UnfitError(f"{cell.label} is {_kind(said)}")
    return said.strip().lower()


def _part(whole: object, key: str) -> object:
    """``whole[key]`` where Python's ``in`` says it is there; the script's TypeErrors are UnfitError."""
    if isinstance(whole, Mapping):
        return whole.get(key, _ABSENT)
    if isinstance(whole, str | list) and key not in whole:
        return _ABSENT
    raise UnfitError(f"{_kind(whole)} where an object with {key!r} belongs")


def length(value: object) -> int:
    """Of a text, an array or an object. Raises UnfitError for what has none."""
    if isinstance(value, str | list | Mapping):
        return len(value)
    raise UnfitError(f"{_kind(value)} where a text belongs")


def _kind(value: object) -> str:
    kinds = {str: "a text", list: "an array", bool: "true or false", type(None): "null", dict: "an object"}
    return kinds.get(type(value), "a number")


ZEROEVAL = Rules("zeroeval", read, compare)
