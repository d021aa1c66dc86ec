"""The first visible sheet of an Excel workbook as rows: a header line with the columns' names, then a row a record."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.files.csv_rows import check_header, typed_cell, without_end
from layton_batch.records import JsonValue

if TYPE_CHECKING:
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet as Worksheet

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
        values, formulas = (
            openpyxl.load_workbook(path, read_only=True, data_only=is_value, keep_links=False)
            for is_value in (True, False)
        )
        shown = [at for at, sheet in enumerate(values.worksheets) if sheet.sheet_state == "visible"]
        title = values.worksheets[shown[0]].title
        lines = _lines(values.worksheets[shown[0]], formulas.worksheets[shown[0]], name)
        yield from _rows_of_cover(lines, name, title) if len(shown) > 1 else _rows(lines, name)
    except (DataError, OSError):
        raise
    except Exception as error:  # a third-party reader on a foreign file: whatever it trips over, the file is unreadable
        raise DataError(f"{name}: not a readable workbook ({type(error).__name__}: {error}); {SAVE_AS_CSV}") from error


def _lines(values: Worksheet, formulas: Worksheet, name: str) -> Iterator[tuple[object, ...]]:
    """Yield the cells of a sheet by line. Raises DataError for a formula whose value the file does not hold."""
    for sheet in (values, formulas):
        sheet.reset_dimensions()  # what the file says of its size may be wrong
    lines = zip(values.iter_rows(values_only=True), formulas.iter_rows(values_only=True), strict=True)
    for number, (cells, texts) in enumerate(lines, 1):
        for cell, text in zip(cells, texts, strict=True):
            if cell is None and text is not None:
                raise DataError(
                    f"{name}, line {number}: the formula {str(text)[:60]!r} has no value in the file: open it in a "
                    f"spreadsheet program and save it again, or {SAVE_AS_CSV}"
                )
        yield cells


def _rows_of_cover(
    lines: Iterator[tuple[object, ...]], name: str, title: str
) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    """Yield the rows of a first sheet before others. Raises DataError where it has none: the rows may be behind it."""
    line = None
    for line, row in _rows(lines, f"{name}, sheet {title!r}"):
        yield line, row
    if line is None:
        raise DataError(
            f"{name}: only the first sheet, {title!r}, is read, and it has no rows; put the sheet with the rows first"
        )


def _rows(lines: Iterator[tuple[object, ...]], name: str) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    header: list[str] = []
    for line, cells in enumerate(lines, 1):
        if not any(cell is not None for cell in cells):
            continue
        if not header:
            header = without_end(["" if cell is None else str(cell).strip() for cell in cells])
            check_header(header, f"{name}, line {line}")
            continue
        if any(cell is not None for cell in cells[len(header) :]):
            raise DataError(f"{name}, line {line}: a cell stands beyond the last column of the header")
        filled = (*cells, *[None] * (len(header) - len(cells)))
        yield line, {column: _value(cell) for column, cell in zip(header, filled, strict=False)}


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
