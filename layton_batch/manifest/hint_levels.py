"""``[items] hints``: how many hints a participant is given, one number or several."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

MOST_HINTS = 4


def _levels(value: object) -> int | tuple[int, ...]:
    """Check the hint levels. A list of a single level becomes that level; a longer list is sorted."""
    levels = [_level(entry) for entry in value] if isinstance(value, list | tuple) else [_level(value)]
    if not levels:
        raise _wrong("an empty list: give at least one number of hints")
    if len(set(levels)) < len(levels):
        raise _wrong(f"{levels} has a number twice")
    return levels[0] if len(levels) == 1 else tuple(sorted(levels))


def _level(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(f"must be a whole number, not {json.dumps(value, default=str)}")
    if not 0 <= value <= MOST_HINTS:
        raise _wrong(f"must be at {'least 0' if value < 0 else f'most {MOST_HINTS}'}, not {value}")
    return value


Hints = Annotated[int | tuple[int, ...], BeforeValidator(_levels, json_schema_input_type=int | list[int])]


def _wrong(reason: str) -> PydanticCustomError:
    return PydanticCustomError("manifest", "{reason}", {"reason": reason})
