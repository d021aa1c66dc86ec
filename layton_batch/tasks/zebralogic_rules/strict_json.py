"""JSON as Python's own reader takes it, with its limit on nesting made the same on every version of Python.

Both published graders let ``RecursionError`` pass. When CPython raises it depends on its version and on how deep the
caller is, so here it is the depth of the text that decides.
"""

from __future__ import annotations

import json
import re
from typing import cast

from layton_batch.records import JsonValue

MAX_DEPTH = 990
"""CPython 3.11 gives up at 1,000 frames, of which the graders' own take a few."""

_TOKEN = re.compile(r'["{}\[\]]')


class TooDeepError(Exception):
    """The text nests deeper than MAX_DEPTH."""


def load(text: str) -> JsonValue:
    """The value. Raises ValueError where it is not JSON (JSONDecodeError but for over-long integers), TooDeepError."""
    try:
        value = cast("JsonValue", json.loads(text))
    except RecursionError as error:
        raise TooDeepError from error
    except json.JSONDecodeError as error:
        # What was read before the fault may already have been too deep.
        _check_depth(text, error.pos)
        raise
    _check_depth(text, len(text))
    return value


def _check_depth(text: str, end: int) -> None:
    """Raises TooDeepError. The text up to ``end`` is JSON as far as it goes."""
    if text.count("{", 0, end) + text.count("[", 0, end) <= MAX_DEPTH:
        return
    depth = position = 0
    while match := _TOKEN.search(text, position, end):
        mark, position = match.group(), match.end()
        if mark == '"':
            position = string_end(text, position, end)
        else:
            depth += 1 if mark in "{[" else -1
        if depth > MAX_DEPTH:
            raise TooDeepError


def string_end(text: str, start: int, end: int) -> int:
    """Where the string literal whose content begins at ``start`` is over: after its quote, or at ``end``."""
    position = start
    while (quote := text.find('"', position, end)) >= 0:
        first = quote
        while first > position and text[first - 1] == "\\":
            first -= 1
        position = quote + 1
        if (quote - first) % 2 == 0:
            return position
    return end
