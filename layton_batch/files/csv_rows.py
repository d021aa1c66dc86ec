"""CSV files as rows: a header line with the columns' names, then a row a record."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import orjson

from layton_batch.errors import DataError
from layton_batch.records import JsonValue

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""By the ending of a file's name."""
LONGEST_CELL = 40_000_000
"""Characters: a picture in base64 fits in."""


def csv_rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, JsonValue]]]:
    """Each row with its line. An empty cell is null; a cell that is a JSON list or object is that, as options or a grid
    have to be; everything else is text, numbers too.

    Raises DataError with file, line and reason.
    """
    csv.field_size_limit(LONGEST_CELL)
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle, delimiter=SEPARATORS[path.suffix.lower()], strict=True)
            header = next(reader, [])
            _check_header(header, name)
            line = reader.line_num + 1
            for cells in reader:
                if any(cells):
                    if len(cells) != len(header):
                        raise DataError(f"{name}, line {line}: {len(cells)} cells; the header has {len(header)}")
                    yield line, {column: _value(cell) for column, cell in zip(header, cells, strict=True)}
                line = reader.line_num + 1
    except UnicodeDecodeError as error:
        raise DataError(f"{name}, near line {line}: not UTF-8 (byte {error.object[error.start]:#04x})") from error
    except csv.Error as error:
        raise DataError(f"{name}, line {line}: not CSV ({error})") from error


def _check_header(header: list[str], name: str) -> None:
    wrong = [column for column in header if not column.strip()]
    twice = sorted({column for column in header if header.count(column) > 1})
    if wrong or twice:
        reason = "has a column without a name" if wrong else f"names a column twice: {twice[0]!r}"
        raise DataError(f"{name}, line 1: the header {reason}")


def _value(cell: str) -> JsonValue:
    if not cell.strip():
        return None
    if cell[0] in "[{":
        try:
            found: JsonValue = orjson.loads(cell)
        except orjson.JSONDecodeError:
            return cell
        return found
    return cell
