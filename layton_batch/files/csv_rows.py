"""CSV files as rows: a header line with the columns' names, then a row a record.

Also those of spreadsheet programs, which separate by ``;`` where a comma is a decimal point, put ``sep=;`` before the
header, begin with a byte-order mark, and call UTF-16 "Unicode text".
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

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
_QUOTED = re.compile(r'"[^"]*"')


def csv_rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    """Yield each row with its line. An empty cell is null. A JSON list or object, such as options, is parsed; all other
    cells are text, numbers too. Where the header has a blank after each separator, blanks there are dropped.

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
            reader = csv.reader(
                itertools.chain([first], handle),
                delimiter=separator,
                strict=True,
                skipinitialspace=_has_blanks(first, separator),
            )
            named = next(reader, [])
            header = [column.strip() for column in without_end(named)]
            header[:1] = [header[0] or INDEX * (INDEX not in header)] if header else []
            check_header(header, f"{name}, line {1 + before}")
            line = reader.line_num + 1 + before
            for cells in reader:
                if any(cells):
                    cells = _fitted(cells, header, named, f"{name}, line {1 + before}")
                    if len(cells) != len(header):
                        raise DataError(f"{name}, line {line}: {len(cells)} cells; the header has {len(header)}")
                    yield line, {column: typed_cell(cell) for column, cell in zip(header, cells, strict=True)}
                line = reader.line_num + 1 + before
    except UnicodeError as error:
        raise DataError(f"{name}, {_undecodable(path, name, line)}; save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{name}, line {line}: not CSV ({error})") from error


def without_end(header: list[str]) -> list[str]:
    """Return a header without the empty cells at its end, as a separator behind the last column makes them."""
    count = len(header)
    while count and not header[count - 1].strip():
        count -= 1
    return header[:count]


def _fitted(cells: list[str], header: list[str], named: list[str], place: str) -> list[str]:
    """Return the cells of a row without empty ones behind the last column. Raises DataError for a filled one there,
    where the whole header, ``named``, has an empty cell."""
    while len(cells) > len(header) and not cells[-1].strip():
        cells.pop()
    if len(header) < len(cells) <= len(named):
        check_header(named, place)
    return cells


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


def _has_blanks(header: str, separator: str) -> bool:
    """Tell whether a blank follows each separator between the columns' names."""
    _, *later_names = _QUOTED.sub('""', header).rstrip(_BLANK).split(separator)
    return bool(later_names) and all(name.startswith(" ") for name in later_names)


def check_header(header: list[str], place: str) -> None:
    """Raise DataError where a column has no name, or another one's."""
    wrong = [column for column in header if not column.strip()]
    twice = sorted({column for column in header if header.count(column) > 1})
    if wrong or twice:
        reason = "has a column without a name" if wrong else f"names a column twice: {twice[0]!r}"
        raise DataError(f"{place}: the header {reason}")


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
