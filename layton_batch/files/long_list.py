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
_AT_ONCE = 1 << 18
"""Bytes that are read at once where one value after another is asked for: into the same place each time, for memory
that is new to the process takes longer than what is read into it."""


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
        if at < 0:
            return self._here[at]
        start, end = self._ends[at : at + 2]
        room = memoryview(bytearray(end - start))
        self._read(room, start)
        return self._unpack(room)

    def __iter__(self) -> Iterator[Value]:
        return self.since(0)

    def since(self, at: int) -> Iterator[Value]:
        """The values from one on."""
        yield from islice(self._here, at, None)
        yield from map(self._unpack, self._on_disk(max(0, at - len(self._here))))

    def _on_disk(self, first: int) -> Iterator[memoryview]:
        """What the values on disk are kept with, from one of them on; each until the next one is taken."""
        count, room = len(self._ends) - 1, memoryview(b"")
        while first < count:
            start, end = self._ends[first], self._end(first, _AT_ONCE)
            if (size := self._ends[end] - start) > len(room):
                room = memoryview(bytearray(max(size, _AT_ONCE)))
            self._read(room[:size], start)
            for at in range(first, end):
                yield room[self._ends[at] - start : self._ends[at + 1] - start]
            first = end

    def _end(self, first: int, size: int) -> int:
        """Where so many bytes of the values on disk end that begin with one of them: one at least."""
        return max(first + 1, bisect_right(self._ends, self._ends[first] + size, first) - 1)

    def fewest(self, size: int, most: int) -> int:
        """How many values, of those on disk, each stretch of so many bytes holds at least, or ``most``."""
        first, count = 0, len(self._ends) - 1
        while (end := self._end(first, size)) < count:
            most, first = min(most, end - first), end
        return most

    def _read(self, room: memoryview, start: int) -> None:
        """What is on disk from this byte on."""
        assert self._file is not None  # noqa: S101 - there is a value on disk
        try:
            if not self._is_written:
                self._file.flush()
                self._is_written = True
            os.preadv(self._file.fileno(), [room], start)
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
