"""ROME's own files: annotations and predictions in, ``scores.json`` and ``updated_predictions.json`` out.

In: a JSON list, a JSON object by question id, one prediction as an object, JSONL, or Parquet. Out: the published form,
byte for byte: an indent of 2, letters of every script as they are, no line end after the last bracket.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, cast

from layton_batch.errors import DataError
from layton_batch.records import JsonValue

Row = Mapping[str, JsonValue]
_PARQUET = b"PAR1"
_ROWS_AT_ONCE = 2_000


def read_annotations(path: Path) -> Iterator[Row]:
    """The questions. Raises DataError with file and reason: not there, not UTF-8, not JSON, not in one of the forms."""
    for number, row in enumerate(_rows(path), 1):
        yield _with_text(row, "question_id", f"{path}, annotation {number}")


def read_predictions(path: Path) -> Iterator[Row]:
    """The predictions, in order; a JSONL file is read line by line. Raises DataError as for annotations."""
    yield from _rows(path)


def json_text(value: JsonValue) -> str:
    """The published form of a file."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: object) -> str:
    """What tables hold and JSON does not: bytes as base64, times and the like as they are printed."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


class RowsFile:
    """A JSON list in the published form, written a row at a time to a text handle."""

    def __init__(self, handle: IO[str]) -> None:
        self._handle = handle
        self._is_empty = True

    def add(self, row: Row) -> None:
        text = json_text([dict(row)])
        self._handle.write(("[" if self._is_empty else ",") + text[1:-2])
        self._is_empty = False

    def close(self) -> None:
        """Write the end of the list; the handle stays open."""
        self._handle.write("[]" if self._is_empty else "\n]")


def _rows(path: Path) -> Iterator[Row]:
    try:
        if _is_parquet(path):
            yield from _table(path)
            return
        with path.open(encoding="utf-8-sig") as handle:
            first = next((line for line in handle if line.strip()), "")
            if _is_one_of_many(first):
                handle.seek(0)
                yield from _lines(path, handle)
                return
            handle.seek(0)
            whole = handle.read()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start})") from error
    if whole.strip():
        yield from _shaped(_loads(whole, str(path)), path)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(len(_PARQUET)) == _PARQUET


def _table(path: Path) -> Iterator[Row]:
    import polars as pl

    try:
        for part in pl.scan_parquet(path, glob=False).collect_batches(chunk_size=_ROWS_AT_ONCE):
            yield from part.iter_rows(named=True)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: not a Parquet file that can be read ({error})") from error


def _is_one_of_many(first: str) -> bool:
    """Whether a first line is a whole object by itself, and no id-to-row mapping: then the file is JSONL."""
    if not first.lstrip().startswith("{"):
        return False
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not _is_mapping(value)


def _is_mapping(value: Mapping[str, JsonValue]) -> bool:
    return bool(value) and all(isinstance(row, dict) for row in value.values())


def _lines(path: Path, handle: IO[str]) -> Iterator[Row]:
    for number, line in enumerate(handle, 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield _object(_loads(line, where), where)


def _shaped(value: JsonValue, path: Path) -> Iterator[Row]:
    if isinstance(value, list):
        for number, row in enumerate(value, 1):
            yield _object(row, f"{path}, row {number}")
    elif isinstance(value, dict) and _is_mapping(value):
        for name, row in value.items():
            yield {"question_id": name, **cast("dict[str, JsonValue]", row)}
    elif isinstance(value, dict):
        yield value
    else:
        raise DataError(f"{path}: neither a list of rows nor an object of rows by question id")


def _object(value: JsonValue, where: str) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"{where}: not an object")
    return value


def _with_text(row: Row, column: str, where: str) -> Row:
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(f"{where}: {column} must be a text or a whole number")
    return row


def _loads(text: str, where: str) -> JsonValue:
    try:
        return cast("JsonValue", json.loads(text))
    except RecursionError as error:
        raise DataError(f"{where}: nested too deep") from error
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error})") from error
