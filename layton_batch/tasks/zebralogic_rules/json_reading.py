"""JSON in replies: every object in a text, however it is wrapped, and strict JSON as the published graders read it.

``objects`` takes time linear in the text. From left to right, each object once and whole. Where one is broken, the
whole objects within its readable part are found, and reading goes on at the fault. Objects that begin inside a string
of a broken one are seen only if it is the last string before the fault: that one's quote may have been prose.

``load`` has the limit on nesting made the same on every version of Python. Both published graders let
``RecursionError`` pass. When CPython raises it depends on its version and on how deep the caller is, so here it is the
depth of the text that decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from layton_batch.records import JsonValue

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


# ---- JSON as Python's own reader takes it --------------------------------------------------------------------------


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
