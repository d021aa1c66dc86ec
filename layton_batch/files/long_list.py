"""A list of any length: its first values are in memory, those of a long one after them on disk."""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import eq
from typing import IO, TypeVar, overload

from layton_batch.errors import file_error

Value = TypeVar("Value")
IN_MEMORY = 8 << 20
"""Bytes of packed values."""


class LongList(Sequence[Value]):
    """``unpack`` makes a value again, an equal one, of the bytes that it is kept with.

    What is on disk is in a nameless file, which goes with the list; threads may read side by side. Raises FileError
    where there is no space for it.
    """

    def __init__(self, unpack: Callable[[bytes], Value]) -> None:
        self._unpack = unpack
        self._here: list[Value] = []
        self._room = IN_MEMORY
        self._file: IO[bytes] | None = None
        self._ends = array("Q", [0])

    def keep(self, value: Value, packed: bytes) -> None:
        """Put a value at the end."""
        if self._file is None and len(packed) <= self._room:
            self._room -= len(packed)
            self._here.append(value)
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  goes with the list
                weakref.finalize(self, _let_go, self._file)
            self._file.write(packed)
        except OSError as error:
            raise self._no_room(error) from error
        self._ends.append(self._ends[-1] + len(packed))

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
        if at < 0 or self._file is None:
            return self._here[at]
        try:
            self._file.flush()
            start, end = self._ends[at : at + 2]
            return self._unpack(os.pread(self._file.fileno(), end - start, start))
        except OSError as error:
            raise self._no_room(error) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def _no_room(self, error: OSError) -> Exception:
        return file_error(f"{tempfile.gettempdir()}: cannot keep a long list there: {error.strerror or error}", error)


def _let_go(file: IO[bytes]) -> None:
    with suppress(OSError):  # what there was no room for
        file.close()
