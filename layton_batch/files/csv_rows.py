"""CSV files as rows: a header line with the columns' names, then a row a record.

Also those of spreadsheet programs, which separate by ``;`` where a comma is a decimal point, put ``sep=;`` before the
header, begin with a byte-order mark, and call UTF-16 "Unicode text".
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import orjson

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.records import JsonValue

ENDINGS = (".csv", ".tsv")
"""Name endings of these files."""
LONGEST_CELL = 40_000_000
"""Characters: a picture in base64 fits in."""
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""The byte-order marks with which a file in UTF-16 begins."""
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n?\Z")
_BLANK = " ,;\t\r\n"
"""Characters of a line without a name of a column, as spreadsheet programs write an empty row."""
INDEX = "Unnamed: 0"
"""The name of a first column without one, as pandas writes its index and calls it when it reads the file again."""
Cell = TypeVar("Cell")
_QUOTED = re.compile(r'"[^"]*"')


def csv_rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    """Yield each row with its line. An empty cell is null. A JSON list or object, such as options, is parsed; all other
    cells are text, numbers too. Blanks behind a separator are dropped.

    Raises DataError with file, line and reason.
    """
    csv.field_size_limit(LONGEST_CELL)
    line = 1
    try:
        with path.open(encoding=_encoding(path), newline="") as handle:
            before, first = 0, handle.readline()
            if separator_line := _SEPARATOR_LINE.match(first):
                before, first = 1, handle.readline()
            while first and not first.strip(_BLANK):
                before, first = before + 1, handle.readline()
            separator = separator_line[1] if separator_line else _separator(first, path)
            lines = itertools.chain([first], handle)
            reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
            header = header_of(next(reader, []), f"{name}, line {1 + before}")
            line = reader.line_num + 1 + before
            for cells in reader:
                if any(cells):
                    yield line, row_of(header, cells, f"{name}, line {line}", typed_cell)
                line = reader.line_num + 1 + before
    except UnicodeError as error:
        raise DataError(f"{name}, {_undecodable(path, name, line)}; save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{name}, line {line}: not CSV ({error})") from error


def header_of(cells: Sequence[object], place: str) -> list[str]:
    """Return the columns' names in a header line; empty cells behind the last one are dropped. Raises DataError if a
    column has no name, or another one's."""
    header = ["" if cell is None else str(cell).strip() for cell in cells]
    while header and not header[-1]:
        header.pop()
    if header and not header[0] and INDEX not in header:
        header[0] = INDEX
    twice = sorted({column for column in header if header.count(column) > 1})
    if "" in header or twice:
        reason = "has a column without a name" if "" in header else f"names a column twice: {twice[0]!r}"
        raise DataError(f"{place}: the header {reason}")
    return header


def row_of(
    header: Sequence[str], cells: Sequence[Cell], place: str, read: Callable[[Cell], JsonValue]
) -> dict[str, JsonValue]:
    """Return a row by column. Raises DataError for too few cells, and for a filled one behind the last column."""
    count = len(cells)
    while count > len(header) and cells[count - 1] in (None, ""):
        count -= 1
    if count != len(header):
        raise DataError(f"{place}: {count} cells; the header has {len(header)}")
    return {column: read(cell) for column, cell in zip(header, cells, strict=False)}


def _undecodable(path: Path, name: str, read: int) -> str:
    """Say in which line a file is not UTF-8, and by which byte; ``read``: the line up to which a file in UTF-16 is."""
    if _encoding(path) == "utf-16":
        return f"near line {read}: begins as UTF-16 and is none"
    with path.open("rb") as handle:
        for number, line in limits.lines(handle, name):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"line {number}: not UTF-8 (byte {error.start + 1} of the line is {line[error.start]:#04x})"
    return f"near line {read}: not UTF-8"


def _encoding(path: Path) -> str:
    with path.open("rb") as handle:
        return "utf-16" if handle.read(2) in UTF_16_MARKS else "utf-8-sig"


def _separator(header: str, path: Path) -> str:
    """Return the separator of the columns' names."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    bare = _QUOTED.sub("", header)
    return max((",", ";", "\t"), key=bare.count)  # the first of equals


def typed_cell(cell: str) -> JsonValue:
    """Read the text of a cell: null where it is blank, a JSON list or object where it is one, else the text."""
    if not cell.strip():
        return None
    if cell[0] in "[{":
        try:
            value: JsonValue = orjson.loads(cell)
        except orjson.JSONDecodeError:
            return cell
        return value
    return cell
