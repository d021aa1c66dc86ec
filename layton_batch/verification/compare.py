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
    """How many files :func:`compare_folders` finds in a folder."""
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
    """The first row and column that differ; None where none does, or the stored table cannot be read.

    Messages of requests without an answer may have come with the batch's status, of which nothing else is kept.
    """
    try:
        here, there = (pl.read_parquet(path, glob=False) for path in (stored, computed))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None
    if here.schema != there.schema or here.height != there.height:
        return f"{here.height} rows with {here.width} columns, where {there.height} with {there.width} are computed"
    for column in here.columns:
        if column == "error_message" or _equal(here.select(column), there.select(column)):
            continue
        first, last = 0, here.height  # the first row that differs is among these
        while last - first > 1:
            middle = (first + last) // 2
            if _equal(here.select(column)[first:middle], there.select(column)[first:middle]):
                first = middle
            else:
                last = middle
        return f"row {first + 1}, {column}: {here[column][first]!r:.100}, computed {there[column][first]!r:.100}"
    return None


def _equal(here: pl.DataFrame, there: pl.DataFrame) -> bool:
    try:
        assert_frame_equal(here, there, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    except AssertionError:
        return False
    return True


def first_difference(stored: Path, computed: Path) -> int | None:
    """The position (from 0) of the first byte that differs, the end of the shorter file among them; None: no byte."""
    position = 0
    with stored.open("rb") as here, computed.open("rb") as there:
        while True:
            ours, theirs = here.read(_CHUNK), there.read(_CHUNK)
            if ours != theirs:
                pairs = zip(chain(ours, [-1]), chain(theirs, [-1]), strict=False)
                return position + next(number for number, (one, other) in enumerate(pairs) if one != other)
            if not ours:
                return None
            position += len(ours)
