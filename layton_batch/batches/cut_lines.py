"""Result lines decoded without making Python texts of their answers.

An answer of pages is most of its line. Where a dialect says what answers go by, a long one is cut out as the JSON
string that it is, the rest of the line is decoded with a stand-in in its place, and Polars reads the strings of many
lines together. A line that this does not suit is decoded whole: what comes out is the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from layton_batch.batches import raw_results
from layton_batch.errors import ProviderError, ProviderReplyError
from layton_batch.files import tables
from layton_batch.records import Response

Decode = Callable[[bytes], Response]
Line = tuple[bytes, bool]
"""A result line, and whether it ended in a newline."""

STAND_IN = f"answer {os.urandom(16).hex()}"
"""The text of a response whose own text is elsewhere; nothing that a provider writes."""
_STAND_IN = b'"%s"' % STAND_IN.encode()
_SHORTEST, _LONGEST_LINE, _LONGEST_REST = 64, 1 << 20, 400
"""Bytes of a string that is worth cutting out, and of a line of which copies may be made; characters of what else is
said there that may stay in memory."""
_FEW_STRINGS = 16
"""Under one key: a line with more is decoded whole, so that what is looked at stays in proportion to its length."""
_FEW_QUOTES = 32
"""Within a string, looked at one by one: that takes less time than a copy without them."""
_ROWS, _SIZE = 2_000, 2 << 20
"""Lines, and bytes of them, in memory at a time."""
_BACKSLASH = ord("\\")
_VALUE = re.compile(rb'\s{0,8}:\s{0,8}"')


@dataclass(slots=True)
class Decoded:
    """A line, and what it says or why nobody can tell. ``place``: where the text of the response, which has the
    stand-in, is among the texts of the portion: start and length in bytes. None: the response is whole."""

    line: bytes
    is_complete: bool
    said: Response | ProviderError
    place: tuple[int, int] | None = None


def decoded(lines: Iterable[Line], decode: Decode, keys: Sequence[str]) -> Iterator[tuple[Sequence[Decoded], bytes]]:
    """The lines in their order, a portion at a time, each with the texts that were cut out of its lines, in UTF-8.

    ``keys``: as the dialect's ``answer_keys``; without them every line is decoded whole.
    """
    quoted = [b'"%s"' % key.encode() for key in keys]
    for portion in _portions(lines):
        yield _decoded(portion, decode, quoted)


def _portions(lines: Iterable[Line]) -> Iterator[Sequence[Line]]:
    portion: list[Line] = []
    size = 0
    for line in lines:
        portion.append(line)
        size += len(line[0])
        if len(portion) >= _ROWS or size >= _SIZE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _decoded(lines: Sequence[Line], decode: Decode, keys: Sequence[bytes]) -> tuple[Sequence[Decoded], bytes]:
    found: list[Decoded] = []
    cut: list[Decoded] = []
    strings: list[bytes] = []
    longest = min(_LONGEST_LINE, raw_results.LONGEST_LINE)
    for line, is_complete in lines:
        span = _long_string(line, keys) if len(line) <= longest else None
        rest = None if span is None else _rest(line, span, decode)
        one = Decoded(line, is_complete, rest or _whole(line, decode))
        found.append(one)
        if span is not None and rest is not None:
            cut.append(one)
            strings.append(line[span[0] : span[1]])
    texts = tables.utf8_column(strings, lambda _: None).str.json_path_match("$")
    end = 0
    for one, length in zip(cut, texts.str.len_bytes().to_list(), strict=True):
        if length is None:  # no JSON string: a byte that is no UTF-8, a control character, half a surrogate pair
            one.said = _whole(one.line, decode)
        else:
            one.place = end, length
            end += length
    return found, texts.str.join("").cast(pl.Binary).item() if strings else b""


def _whole(line: bytes, decode: Decode) -> Response | ProviderError:
    try:
        if len(line) > raw_results.LONGEST_LINE:
            raise ProviderReplyError(f"the line is longer than {raw_results.LONGEST_LINE} bytes")
        return decode(line)
    except ProviderError as error:
        return error


def _rest(line: bytes, span: tuple[int, int], decode: Decode) -> Response | None:
    """What the line says besides the string in ``span``; None unless that is its whole text."""
    try:
        response = decode(line[: span[0]] + _STAND_IN + line[span[1] :])
    except ProviderError:
        return None
    if response.text != STAND_IN or response.refusal is not None:
        return None
    kept = len(response.served_model or "") + len(response.raw_finish_reason or "")
    return response if kept <= _LONGEST_REST else None


def _long_string(line: bytes, keys: Sequence[bytes]) -> tuple[int, int] | None:
    """Start and end of the last long string under the first of the keys that has one, with its quotes. What looks like
    a key is one: quotes within a string have a backslash in front."""
    for key in keys:
        found, strings, place = None, 0, line.find(key)
        while place >= 0:
            place += len(key)
            value = _VALUE.match(line, place)
            if value is not None:
                strings += 1
                if strings > _FEW_STRINGS:
                    return None
                place = _end(line, value.end())
                if place - value.end() > _SHORTEST:
                    found = value.end() - 1, place
            place = line.find(key, place) if place else -1
        if found is not None:
            return found
    return None


def _end(line: bytes, start: int) -> int:
    """Where a string ends that begins at ``start``, behind its quote; 0 where it does not."""
    place = start - 1
    for _ in range(_FEW_QUOTES):
        place = line.find(b'"', place + 1)
        if place < 0 or line[place - 1] != _BACKSLASH:
            return place + 1
        if line[place - 2] == _BACKSLASH:
            break
    rest = line[start:].replace(b"\\\\", b"..").replace(b'\\"', b"..")
    end = rest.find(b'"')
    return start + end + 1 if end >= 0 else 0
