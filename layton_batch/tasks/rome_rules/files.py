"""ROME's own files of annotations and predictions: a JSON list, a JSON object by question id, one prediction as an
object, JSONL, or Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, cast

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.offline import FileRow

_PARQUET = b"PAR1"
_ROWS_AT_ONCE = 2_000


def read_annotations(path: Path) -> Iterator[FileRow]:
    """The questions. Raises DataError with file and reason: not there, not UTF-8, not JSON, not in one of the forms."""
    for number, row in enumerate(_rows(path), 1):
        yield _with_text(row, "question_id", f"{path}, annotation {number}")


def read_predictions(path: Path) -> Iterator[FileRow]:
    """The predictions, in order; a JSONL file is read line by line. Raises DataError as for annotations."""
    yield from _rows(path)


def _rows(path: Path) -> Iterator[FileRow]:
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


def _table(path: Path) -> Iterator[FileRow]:
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


def _lines(path: Path, handle: IO[str]) -> Iterator[FileRow]:
    for number, line in enumerate(handle, 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield _object(_loads(line, where), where)


def _shaped(value: JsonValue, path: Path) -> Iterator[FileRow]:
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


def _object(value: JsonValue, where: str) -> FileRow:
    if not isinstance(value, dict):
        raise DataError(f"{where}: not an object")
    return value


def _with_text(row: FileRow, column: str, where: str) -> FileRow:
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
