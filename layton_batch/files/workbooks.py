"""The first visible sheet of an Excel workbook as rows: a header line with the columns' names, then a row a record."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.files.csv_rows import header_of, row_of, typed_cell
from layton_batch.records import JsonValue

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
