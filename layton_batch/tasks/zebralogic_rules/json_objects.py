"""Every JSON object in a text, however it is wrapped, in time linear in the text.

From left to right, each object once and whole. Where one is broken, the whole objects within its readable part are
found, and reading goes on at the fault. Objects that begin inside a string of a broken one are seen only if it is the
last string before the fault: that is the one whose quote may have been prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic_rules.strict_json import string_end

JsonObject = Mapping[str, JsonValue]

_FIRST_WINDOW = 4096
_NEAR_THE_CUT = 16
"""Characters before a cut in which a fault may be the cut's: a literal such as ``-Infinity``, an escape, a number."""
_SKIPPED_DEPTH = 500
"""How many levels of a nest that is too deep are given up at a time; less than any Python's limit."""
_TOKEN = re.compile(r'["{}\[\]]')
_BEGIN = re.compile(r'\{\s*(?:\}|"(?:[^"\\]|\\.){0,200}"\s*:)')
"""How an object begins: empty, or with a key (of at most 200 characters) and a colon. Spares most braces of prose."""
_DECODER = json.JSONDecoder(
    strict=False,
    # Numbers stay as they were written, and an integer of 5,000 digits is no reason to fail.
    parse_int=str,
    parse_float=str,
    parse_constant=str,
)


@dataclass(frozen=True, slots=True)
class _Broken:
    """Where reading an object failed; None where it was nested too deep."""

    position: int | None


def objects(text: str) -> Iterator[JsonObject]:
    """The outermost whole objects of the text, in order."""
    position = 0
    while begin := _BEGIN.search(text, position):
        found = _decode(text, begin.start())
        if isinstance(found, _Broken):
            spans, position = _readable_part(text, begin.start(), found)
            for start in spans:
                inner = _decode(text, start)
                if not isinstance(inner, _Broken):
                    yield inner[0]
        else:
            value, position = found
            yield value


def outermost(value: JsonObject, is_wanted: Callable[[JsonObject], bool]) -> Iterator[JsonObject]:
    """The objects in ``value``, itself included, that are wanted and not within another that is; in order."""
    waiting: list[JsonValue] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            if is_wanted(part):
                yield part
            else:
                waiting.extend(reversed(list(part.values())))
        elif isinstance(part, list):
            waiting.extend(reversed(part))


def _decode(text: str, start: int) -> tuple[JsonObject, int] | _Broken:
    """The object at ``start`` and where it ends.

    Read in windows that grow: an error of Python's reader costs time in proportion to the text it was given, and a
    hostile text has an error at every brace.
    """
    size = _FIRST_WINDOW
    while True:
        window = text[start : start + size]
        try:
            value, end = _DECODER.raw_decode(window)
        except RecursionError:
            return _Broken(None)
        except json.JSONDecodeError as error:
            by_cut = error.pos >= len(window) - _NEAR_THE_CUT or error.msg.startswith("Unterminated string")
            if start + size >= len(text) or not by_cut:
                return _Broken(start + error.pos)
        else:
            return cast("JsonObject", value), start + end
        size *= 8


def _readable_part(text: str, start: int, broken: _Broken) -> tuple[list[int], int]:
    """Where the whole objects between ``start`` and the fault begin, and where to go on.

    The objects that are still open at the fault fail there as well, whichever of them one starts with.
    """
    end = len(text) if broken.position is None else max(broken.position, start + 1)
    position = start
    string = (end, -1)  # where the content of the last string begins, and where it is over
    opened: list[int] = []
    whole: list[int] = []
    while match := _TOKEN.search(text, position, end):
        position = match.end()
        if match.group() == '"':
            position = string_end(text, position, end)
            string = (match.end(), position)
        elif match.group() in "{[":
            opened.append(match.start())
            if broken.position is None and len(opened) > _SKIPPED_DEPTH:
                return whole, match.start()
        elif opened:
            _close(text, opened.pop(), whole)
    ends_in_string = string[1] >= 0 and not text[string[1] : end].strip()
    return whole, string[0] if ends_in_string else end


def _close(text: str, start: int, whole: list[int]) -> None:
    if text[start] == "{":
        while whole and whole[-1] > start:
            whole.pop()
        whole.append(start)
