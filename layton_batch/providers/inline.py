"""Requests and results that come within a JSON document: a create call that carries every request of a batch file, a
reply that holds every result of a batch. Neither is held in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from layton_batch.errors import FileError, ProviderReplyError
from layton_batch.providers.wire_errors import CUSTOM_ID
from layton_batch.providers.wire_json import JsonObject, parse_object

# ---- requests

HEAD, _TAIL = b'{"requests":[', b"]}"
_CHUNK = 1 << 20
_HEAD_BYTES = 1 << 20
"""Bytes at the head of results whose custom_ids tell whose they are."""


def body(path: Path, head: bytes = HEAD) -> Iterator[bytes]:
    """Yield the create call's body from a batch file: its lines are JSON without raw newlines, so each newline but the
    last becomes a comma. ``head`` goes before the first of them."""
    yield head
    held = b""
    with path.open("rb") as lines:
        while chunk := lines.read(_CHUNK):
            yield held
            text = chunk.rstrip(b"\n")
            yield text.replace(b"\n", b",")
            held = b"," * (len(chunk) - len(text))
    yield _TAIL


def body_size(path: Path, provider: str, head: bytes = HEAD) -> int:
    """Return the bytes of :func:`body`. Raises FileError if the file cannot be read."""
    try:
        with path.open("rb") as lines:
            size = lines.seek(0, 2)
            lines.seek(max(0, size - 1))
            return len(head) + size - (lines.read(1) == b"\n") + len(_TAIL)
    except OSError as error:
        raise FileError(f"{provider}: the batch file {path} cannot be read: {error}") from error


def custom_ids(path: Path) -> set[str]:
    """Return the ids of a batch file, read without parsing its lines; none if the file is gone."""
    try:
        with path.open("rb") as lines:
            return {match[1].decode() for line in lines if (match := CUSTOM_ID.search(line))}
    except OSError:
        return set()


def first_custom_ids(results: Iterator[bytes]) -> frozenset[str]:
    """Return the ids that the first 1 MiB of results name."""
    head = b""
    while len(head) < _HEAD_BYTES and (piece := next(results, b"")):
        head += piece
    return frozenset(name.decode() for name in CUSTOM_ID.findall(head))


# ---- results

# Possessive quantifiers: a string of megabytes is passed in one step. The group is there where a string goes on in the
# next piece of the reply, perhaps within an escape.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|(\\?\Z))|[{}\[\],]', re.DOTALL)


class ReplyResults:
    """The elements of the array ``results`` at the top of a JSON object, and the object without them."""

    def __init__(self, pieces: Iterable[bytes], provider: str, reply_name: str) -> None:
        self._pieces = pieces
        self._provider, self._what = provider, reply_name
        self._rest = bytearray()
        self._depth = 0
        self._key = b""  # the last string at the top; where an array follows, its key
        self._inside = False

    def __iter__(self) -> Iterator[bytes]:
        """Each element as one line, without the newline; once. Raises ProviderReplyError where the reply ends within
        the object. That the elements are JSON is for the caller to check."""
        held, begin, scan = b"", 0, 0  # `begin`: of the current element, or of what is not yet in the rest
        for piece in self._pieces:
            held, begin, scan = held[begin:] + piece, 0, scan - begin
            for token in _TOKEN.finditer(held, scan):
                scan = token.start()
                if token[1] is not None:
                    break  # the string's end is still to come
                scan = token.end()
                was_inside = self._inside
                if not self._passes_a_border(token[0]):
                    continue
                if was_inside and (element := held[begin : token.start()].strip()):
                    yield element.replace(b"\n", b" ").replace(b"\r", b" ")  # line ends stand only between tokens
                if not was_inside:
                    self._rest += held[begin : token.end()]
                begin = token.end() if self._inside else token.start()
            if not self._inside:
                self._rest += held[begin:scan]
                begin = scan
        self._rest += held[begin:]
        if self._depth or self._inside:
            raise ProviderReplyError(f"{self._provider}: {self._what} breaks off")

    def rest(self) -> JsonObject:
        """The object without the array's elements, after they were all taken. Raises ProviderReplyError for what is
        no JSON object."""
        return parse_object(bytes(self._rest), self._provider, self._what)

    def _passes_a_border(self, token: bytes) -> bool:
        """Return whether the token begins the array, ends it or separates two of its elements."""
        mark = token[:1]
        if mark == b'"':
            self._key = token if self._depth == 1 else self._key
            return False
        if mark in b"{[":
            self._depth += 1
            begins = mark == b"[" and self._depth == 2 and self._key == b'"results"'
            self._inside = self._inside or begins
            return begins
        if mark in b"}]":
            self._depth -= 1
            ends = self._inside and self._depth == 1
            self._inside = self._inside and not ends
            return ends
        return self._inside and self._depth == 2
