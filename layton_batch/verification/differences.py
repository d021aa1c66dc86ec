"""What is stored beside what was computed again, byte for byte; what differs is named by file, byte and row."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import chain
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

from layton_batch.files import sealed

_CHUNK = 1 << 20
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""Numbers of other processors may differ in their last digits, which no board prints."""


def compare_folders(stored: Path, computed: Path, without: Set[str] = frozenset()) -> Iterator[str]:
    """Yield a sentence for each file below ``computed`` that is not the same below ``stored``, and for each damaged
    table there. ``without``: names of files and folders that are not compared."""
    names = {path.relative_to(folder) for folder in (stored, computed) for path in _files(folder)}
    for name in sorted(names):
        if without.isdisjoint({name.as_posix(), name.parts[0]}):
            yield from _compare(stored / name, computed / name)


def count_files(folder: Path) -> int:
    """Count the files that :func:`compare_folders` finds in a folder."""
    return sum(1 for _ in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    """Without what is not finished, or was put aside."""
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            yield path


def _compare(stored: Path, computed: Path) -> Iterator[str]:
    is_table = stored.suffix == ".parquet"
    if not stored.exists():
        yield f"{stored}: is gone"
    elif not computed.exists():  # of what the manifest asks no more: there is nothing to compare it with
        if is_table and not sealed.is_whole(stored):
            yield f"{stored}: was changed since it was written (its digest differs)"
    elif (byte := first_difference(stored, computed)) is not None:
        if is_table:
            yield from _compare_tables(stored, computed, byte)
        else:
            yield f"{stored}: byte {byte} differs from what the raw replies give"


def _compare_tables(stored: Path, computed: Path, byte: int) -> Iterator[str]:
    is_whole = sealed.is_whole(stored)
    row = _differing_row(stored, computed)
    where = f"byte {byte}" + (f", {row}" if row else "")
    if not is_whole:
        yield f"{stored}: {where}: was changed since it was written (its digest differs)"
    elif row:
        yield f"{stored}: {where}: differs from what the raw replies give"


def _differing_row(stored: Path, computed: Path) -> str | None:
    """Describe the first difference (row and column); None if equal, or if the stored table cannot be read.

    Messages of requests without an answer may have come with the batch's status, of which nothing else is kept.
    """
    try:
        own, again = (pl.read_parquet(path, glob=False) for path in (stored, computed))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None
    if own.schema != again.schema or own.height != again.height:
        return f"{own.height} rows with {own.width} columns, where {again.height} with {again.width} are computed"
    for column in own.columns:
        if column == "error_message" or _equal(own.select(column), again.select(column)):
            continue
        first, last = 0, own.height  # the first row that differs is among these
        while last - first > 1:
            middle = (first + last) // 2
            if _equal(own.select(column)[first:middle], again.select(column)[first:middle]):
                first = middle
            else:
                last = middle
        return f"row {first + 1}, {column}: {own[column][first]!r:.100}, computed {again[column][first]!r:.100}"
    return None


def _equal(own: pl.DataFrame, again: pl.DataFrame) -> bool:
    try:
        assert_frame_equal(own, again, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    except AssertionError:
        return False
    return True


def first_difference(stored: Path, computed: Path) -> int | None:
    """Return the position (from 0) of the first differing byte or the shorter file's end; None for equal files."""
    position = 0
    with stored.open("rb") as stored_file, computed.open("rb") as computed_file:
        while True:
            ours, theirs = stored_file.read(_CHUNK), computed_file.read(_CHUNK)
            if ours != theirs:
                pairs = zip(chain(ours, [-1]), chain(theirs, [-1]), strict=False)
                return position + next(number for number, (byte, other_byte) in enumerate(pairs) if byte != other_byte)
            if not ours:
                return None
            position += len(ours)
