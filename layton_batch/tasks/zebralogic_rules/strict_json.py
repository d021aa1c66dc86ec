"""Strict JSON as the published graders of logic grids read it: their protocols say which text is JSON.

Both published graders let ``RecursionError`` pass. When CPython raises it depends on its version and on how deep the
caller is, so here the depth of the text decides.
"""

from __future__ import annotations

import json
import re
from typing import cast

from layton_batch.records import JsonValue
from layton_batch.tasks.json_objects import string_end

_TOKEN = re.compile(r'["{}\[\]]')
MAX_DEPTH = 990
"""CPython 3.11 gives up at 1,000 frames, of which the graders' own take a few."""


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
