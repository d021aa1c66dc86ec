"""A network that is slow, on a clock of its own: fake connections below the real HTTP clients of every SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest import mock

import httpcore
import httpcore2

from layton_batch.providers import connections

Paced = Callable[[bytes, int, float], list[int]]
"""``paced(body, size, seconds)``: every reply is this body, ``size`` bytes each so many seconds; the list tells how
many bytes of each reply were read."""


@dataclass
class _Clock:
    now: float = 0.0

    def read(self) -> float:
        return self.now


@dataclass
class _Slow:
    """A connection whose replies come in pieces, each so many seconds after the one before."""

    library: ModuleType
    clock: _Clock
    body: bytes
    size: int
    seconds: float
    read_of: list[int]
    _pieces: Iterator[bytes] = field(default_factory=lambda: iter(()))
    _next: tuple[float, bytes] | None = None

    def write(self, _buffer: bytes, timeout: float | None = None) -> None:
        self._pieces, self._next = self._reply(), None

    def _reply(self) -> Iterator[bytes]:
        self.read_of.append(0)
        yield f"HTTP/1.1 200 OK\r\ncontent-length: {len(self.body)}\r\n\r\n".encode()
        for start in range(0, len(self.body), self.size):
            yield self.body[start : start + self.size]

    def read(self, _most: int, timeout: float | None = None) -> bytes:
        if self._next is None:
            piece = next(self._pieces, b"")
            self._next = (self.clock.now + (0.0 if piece.startswith(b"HTTP/") else self.seconds), piece)
        due, piece = self._next
        if timeout is not None and due > self.clock.now + timeout:
            self.clock.now += timeout
            raise self.library.ReadTimeout
        self.clock.now, self._next = due, None
        if not piece.startswith(b"HTTP/"):
            self.read_of[-1] += len(piece)
        return piece

    def start_tls(self, *_arguments: object, **_options: object) -> _Slow:
        return self

    def close(self) -> None:
        pass

    def get_extra_info(self, _info: str) -> Any:
        return None


@contextmanager
def slow_network() -> Iterator[Paced]:
    clock = _Clock()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(connections, "monotonic", clock.read))

        def serve(body: bytes, size: int, seconds: float) -> list[int]:
            read: list[int] = []
            for library in (httpcore, httpcore2):
                made = _Slow(library, clock, body, size, seconds, read)
                connect = mock.patch.object(library.SyncBackend, "connect_tcp", return_value=made)
                stack.enter_context(connect)
            return read

        yield serve
