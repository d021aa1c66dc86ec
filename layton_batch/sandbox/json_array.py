"""Splits the one big array out of a JSON document on disk without reading the document into memory."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from typing import IO

import orjson

# Possessive quantifiers: a string of megabytes (an image) is passed in one step, without a backtracking stack.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],]', re.DOTALL)


class BadDocument(ValueError):
    """The document is not JSON of the expected shape."""


def elements(source: IO[bytes], name: str) -> Iterator[bytes]:
    """The raw elements of the array under the top-level key `name`, in order. That each is JSON is for the caller to
    check.

    Raises BadDocument, at the latest at the end, if the rest of the document is not a JSON object with that array.
    """
    source.seek(0, 2)
    if source.tell() == 0:
        raise BadDocument("the body is empty")
    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as text:
        yield from _split(text, name)


def _split(text: mmap.mmap, name: str) -> Iterator[bytes]:
    depth, start, opened, closed, previous = 0, 0, -1, -1, b""
    for found in _TOKEN.finditer(text):
        mark = text[found.start() : found.start() + 1]
        if mark in b"{[":
            depth += 1
            if mark == b"[" and depth == 2 and opened < 0 and _named(previous, name):
                opened = start = found.end()
        elif mark in b"}]":
            depth -= 1
            if opened >= 0 and closed < 0 and depth == 1:
                closed = found.start()
        inside = opened >= 0 and closed < 0 and depth == 2 and mark == b","
        if (inside or closed == found.start()) and opened >= 0:
            element = text[start : found.start()].strip()
            if element or inside or start != opened:
                yield element
            start = found.end()
        previous = text[found.start() : found.end()] if mark == b'"' and depth == 1 else previous
    if closed < 0:
        raise BadDocument(f"the body is not a JSON object with an array under {name!r}")
    _rest(text[:opened] + text[closed:])


def _named(previous: bytes, name: str) -> bool:
    return previous == orjson.dumps(name)


def _rest(remainder: bytes) -> None:
    try:
        orjson.loads(remainder)
    except orjson.JSONDecodeError as error:
        raise BadDocument(f"could not parse the body as JSON: {error}") from error
