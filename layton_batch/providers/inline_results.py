"""A reply that holds every result of a batch as one array, read without holding it in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.wire_errors import parse_object
from layton_batch.records import JsonValue

# Possessive quantifiers: a string of megabytes is passed in one step. The group is there where a string goes on in the
# next piece of the reply, perhaps within an escape.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|(\\?\Z))|[{}\[\],]', re.DOTALL)


class InlineResults:
    """The elements of the array under ``name`` at the top of a JSON object, and the object without them."""

    def __init__(self, pieces: Iterable[bytes], name: str, provider: str, reply_name: str) -> None:
        self._pieces = pieces
        self._name = b'"%s"' % name.encode()
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

    def rest(self) -> Mapping[str, JsonValue]:
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
            begins = mark == b"[" and self._depth == 2 and self._key == self._name
            self._inside = self._inside or begins
            return begins
        if mark in b"}]":
            self._depth -= 1
            ends = self._inside and self._depth == 1
            self._inside = self._inside and not ends
            return ends
        return self._inside and self._depth == 2
