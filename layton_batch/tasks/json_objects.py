"""JSON objects in a model's text, however they are wrapped.

``objects`` takes time linear in the text. From left to right, it finds each object once and whole. Where an object is
broken, the whole objects within its readable part are found, and reading goes on at the fault. Objects that begin
inside a string of a broken object are seen only if that string is the last before the fault: its quote may have been
prose.
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

Fields = list[tuple[str, JsonValue]]
"""Names and values of an object in their order; a name may be repeated."""


@dataclass(frozen=True, slots=True)
class TextObject:
    """An object, and where it begins and ends in the text."""

    value: JsonObject
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Broken:
    """Place where reading an object failed; None where it was nested too deep."""

    position: int | None


def objects(text: str, on_fields: Callable[[Fields], None] | None = None) -> Iterator[TextObject]:
    """Find the outermost whole objects of the text, in order.

    Numbers are the text in which they were written. ``on_fields``: gets the fields of every whole object at any depth,
    perhaps several times.
    """
    decoder = _decoder(on_fields)
    position = 0
    while begin := _BEGIN.search(text, position):
        candidate = _decode(decoder, text, begin.start())
        if isinstance(candidate, _Broken):
            starts, position = _readable_part(text, begin.start(), candidate)
            parts = (_decode(decoder, text, start) for start in starts)
            yield from (part for part in parts if isinstance(part, TextObject))
        else:
            yield candidate
            position = candidate.end


def _decoder(on_fields: Callable[[Fields], None] | None) -> json.JSONDecoder:
    def with_fields(fields: Fields) -> dict[str, JsonValue]:
        if on_fields is not None:
            on_fields(fields)
        return dict(fields)

    return json.JSONDecoder(
        strict=False,
        object_pairs_hook=with_fields,
        # Numbers stay text: 1.50 is an answer, and an integer of 5,000 digits is no reason to fail.
        parse_int=str,
        parse_float=str,
        parse_constant=str,
    )


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


def _decode(decoder: json.JSONDecoder, text: str, start: int) -> TextObject | _Broken:
    """Decode the object at ``start``.

    Read in windows that grow: an error of Python's reader costs time in proportion to the text it was given, and a
    hostile text has an error at every brace.
    """
    size = _FIRST_WINDOW
    while True:
        window = text[start : start + size]
        try:
            value, end = decoder.raw_decode(window)
        except RecursionError:
            return _Broken(None)
        except json.JSONDecodeError as error:
            by_cut = error.pos >= len(window) - _NEAR_THE_CUT or error.msg.startswith("Unterminated string")
            if start + size >= len(text) or not by_cut:
                return _Broken(start + error.pos)
        else:
            return TextObject(cast("JsonObject", value), start, start + end)
        size *= 8


def _readable_part(text: str, start: int, broken: _Broken) -> tuple[list[int], int]:
    """Find where the whole objects between ``start`` and the fault begin, and where to continue.

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


def string_end(text: str, start: int, end: int) -> int:
    """Return the end of the string literal whose content begins at ``start``: after its quote, or ``end``."""
    position = start
    while (quote := text.find('"', position, end)) >= 0:
        first = quote
        while first > position and text[first - 1] == "\\":
            first -= 1
        position = quote + 1
        if (quote - first) % 2 == 0:
            return position
    return end
