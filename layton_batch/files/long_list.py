"""A list of any length: its first values are in memory, those of a long one after them on disk."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from operator import eq
from typing import IO, TypeVar, overload

from layton_batch.errors import file_error

Value = TypeVar("Value")
IN_MEMORY = 2 << 20
"""Bytes of packed values."""
_AT_ONCE = 1 << 20
"""Bytes that are read at once where one value after another is asked for."""


class LongList(Sequence[Value]):
    """``unpack`` makes a value again, an equal one, of the bytes that it is kept with.

    What is on disk is in a nameless file, which goes with the list; threads may read side by side. Raises FileError
    where there is no space for it.
    """

    def __init__(self, unpack: Callable[[bytes | memoryview], Value]) -> None:
        self._unpack = unpack
        self._here: list[Value] = []
        self._room = IN_MEMORY
        self._file: IO[bytes] | None = None
        self._ends = array("Q", [0])
        self._is_written = True

    def keep(self, value: Value, packed: bytes) -> None:
        """Put a value at the end."""
        if self._file is None and len(packed) <= self._room:
            self._room -= len(packed)
            self._here.append(value)
        else:
            self._put_down(packed)

    def _put_down(self, packed: bytes) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  goes with the list
                weakref.finalize(self, _let_go, self._file)
            self._file.write(packed)
            self._is_written = False
        except OSError as error:
            raise self._no_room(error) from error
        self._ends.append(self._ends[-1] + len(packed))

    def keep_packed(self, packed: bytes) -> None:
        """The same of a value that is packed already: it is made only where it stays in memory."""
        if self._file is None and len(packed) <= self._room:
            self.keep(self._unpack(packed), packed)
        else:
            self._put_down(packed)

    def __len__(self) -> int:
        return len(self._here) + len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | Sequence[Value]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index] - len(self._here)
        return self._here[at] if at < 0 else self._unpack(self._packed(*self._ends[at : at + 2]))

    def __iter__(self) -> Iterator[Value]:
        return self.since(0)

    def since(self, at: int) -> Iterator[Value]:
        """The values from one on."""
        yield from islice(self._here, at, None)
        first, count = max(0, at - len(self._here)), len(self._ends) - 1
        while first < count:
            start = self._ends[first]
            end = max(first + 1, bisect_right(self._ends, start + _AT_ONCE, first, count + 1) - 1)
            packed = memoryview(self._packed(start, self._ends[end]))
            for at in range(first, end):
                yield self._unpack(packed[self._ends[at] - start : self._ends[at + 1] - start])
            first = end

    def _packed(self, start: int, end: int) -> bytes:
        """What is on disk from one byte to another."""
        assert self._file is not None  # noqa: S101 - there is a value on disk
        try:
            if not self._is_written:
                self._file.flush()
                self._is_written = True
            return os.pread(self._file.fileno(), end - start, start)
        except OSError as error:
            raise self._no_room(error) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def _no_room(self, error: OSError) -> Exception:
        return file_error(f"{tempfile.gettempdir()}: cannot keep a long list there: {error.strerror or error}", error)


def since(values: Sequence[Value], at: int) -> Iterator[Value]:
    """The values from one on."""
    return values.since(at) if isinstance(values, LongList) else islice(values, at, None)


def _let_go(file: IO[bytes]) -> None:
    with suppress(OSError):  # what there was no room for
        file.close()
