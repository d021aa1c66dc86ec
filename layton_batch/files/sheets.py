"""Sheets as rows: CSV files and Excel workbooks, a header line with the columns' names, then a row a record.

CSV files of spreadsheet programs separate by ``;`` where a comma is a decimal point, put ``sep=;`` before the header,
begin with a byte-order mark, and call UTF-16 "Unicode text". Of a workbook the first visible sheet is read.
"""

from __future__ import annotations

import codecs
import csv
import itertools
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
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
        raise DataError(f"{name}, {_undecodable(path, name)}; save it as CSV in UTF-8") from error
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


def _undecodable(path: Path, name: str) -> str:
    """Say in which line a file is not UTF-8, and by which byte."""
    if _encoding(path) == "utf-16":
        return "begins as UTF-16 and is none"
    with path.open("rb") as handle:
        for number, line in limits.lines(handle, name):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"line {number}: not UTF-8 (byte {error.start + 1} of the line is {line[error.start]:#04x})"
    return "not UTF-8"


def _encoding(path: Path) -> str:
    with path.open("rb") as handle:
        return "utf-16" if handle.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


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


WORKBOOK = ".xlsx"
SAVE_AS_CSV = "save the sheet as CSV in UTF-8"


def workbook_rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    """Yield each row with its line. Cells are as in a CSV file, but numbers stay numbers; formulas are their values.

    Raises DataError with file, line and reason, and where the reader of workbooks is not installed.
    """
    try:
        import openpyxl
    except ImportError as error:
        advice = f"to read a workbook, run pip install '.[excel]' in the checkout of layton-batch, or {SAVE_AS_CSV}"
        raise DataError(f"{name}: {advice}") from error
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        limits.LIMITS.check("members", len(members), name, "the workbook has")
        limits.check_unpacked(sum(member.file_size for member in members), path, name)
        sheets = []
        for is_value in (True, False):
            book = openpyxl.load_workbook(path, read_only=True, data_only=is_value, keep_links=False)
            sheets.append(next(sheet for sheet in book.worksheets if sheet.sheet_state == "visible"))
            sheets[-1].reset_dimensions()  # what the file says of its size may be wrong
        values, formulas = (sheet.iter_rows(values_only=True) for sheet in sheets)
        yield from _rows(_with_values(values, formulas, name), name)
    except (DataError, OSError):
        raise
    except Exception as error:  # a third-party reader on a foreign file: whatever it trips over, the file is unreadable
        raise DataError(f"{name}: not a readable workbook ({type(error).__name__}: {error}); {SAVE_AS_CSV}") from error


def _with_values(
    values: Iterator[tuple[object, ...]], formulas: Iterator[tuple[object, ...]], name: str
) -> Iterator[tuple[object, ...]]:
    """Yield the cells by line. Raises DataError for a formula without a value: programs that compute none write such
    files, and its cell would read as empty."""
    for number, (cells, texts) in enumerate(zip(values, formulas, strict=True), 1):
        if missing := [text for cell, text in zip(cells, texts, strict=True) if cell is None and text is not None]:
            raise DataError(
                f"{name}, line {number}: the formula {str(missing[0])[:60]!r} has no value in the file: open it in a "
                f"spreadsheet program and save it again, or {SAVE_AS_CSV}"
            )
        yield cells


def _rows(lines: Iterator[tuple[object, ...]], name: str) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    header: list[str] = []
    for line, cells in enumerate(lines, 1):
        place = f"{name}, line {line}"
        if not any(cell is not None for cell in cells):
            continue
        if header:
            yield line, row_of(header, (*cells, *[None] * (len(header) - len(cells))), place, _value)
        else:
            header = header_of(cells, place)


def _value(cell: object) -> JsonValue:
    match cell:
        case None | bool() | int():
            return cell
        case float():
            return int(cell) if cell.is_integer() else cell
        case datetime() if cell.time() == time():
            return cell.date().isoformat()
        case datetime() | date() | time():
            return cell.isoformat()
        case timedelta():
            return str(cell)
    return typed_cell(str(cell))
