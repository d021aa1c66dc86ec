"""Differences between stored files and the same files computed again, named by file, byte and row.

Pictures of charts are not compared, for fonts differ between machines: their data are, which stand beside them as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import chain
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

_CHUNK = 1 << 20
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""Numbers of other processors may differ in their last digits, which no board prints."""


def compare_folders(stored: Path, computed: Path, without: Set[str] = frozenset()) -> Iterator[str]:
    """Yield a sentence for each file below ``computed`` that is not the same below ``stored``.

    Tables are the same if their numbers and texts are, pages if all but the pictures of charts is. ``without``: names
    of files and folders that are not compared.
    """
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
    if not stored.exists():
        yield f"{stored}: is gone"
    elif not computed.exists() or _is_same_page(stored, computed):  # the manifest asks no more for what is not computed
        return
    elif (byte := first_difference(stored, computed)) is not None:
        if stored.suffix != ".parquet":
            yield f"{stored}: byte {byte} differs from what the raw replies give"
        elif (row := _differing_row(stored, computed)) is not None:
            yield f"{stored}: byte {byte}, {row}: differs from what the raw replies give"


_PICTURES = (".svg", ".png")
_CHART = re.compile(rb'<svg [^>]*class="chart".*?</svg>', re.DOTALL)


def _is_same_page(stored: Path, computed: Path) -> bool:
    """Tell whether two files of a site are pictures, or pages that differ in their pictures alone."""
    return stored.suffix in _PICTURES or (stored.suffix == ".html" and _words(stored) == _words(computed))


def _words(page: Path) -> bytes:
    """Read a page without the pictures of its charts."""
    return _CHART.sub(b"", page.read_bytes())


def _differing_row(stored: Path, computed: Path) -> str | None:
    """Describe the first difference (row and column); None if equal.

    Messages of requests without an answer may have come with the batch's status, of which nothing else is kept.
    """
    try:
        own, again = (pl.read_parquet(path, glob=False) for path in (stored, computed))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        return f"cannot be read ({' '.join(str(error).split())[:200]})"
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
