"""Per-item scores as a table of one's own: ``model``, ``item_id``, ``score``, a row an answer; CSV, JSONL or Parquet.

More columns, where there are any: ``provider``, ``n_hints``, ``sample``, ``kind`` (``answered``, ``abstained`` …) and
``flag``, what was wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files.csv_rows import ENDINGS
from layton_batch.files.sources import stream_placed_rows, stream_rows
from layton_batch.files.workbooks import WORKBOOK
from layton_batch.interchange.score_file import ItemOutcome, Object, ScoreFile, text_at
from layton_batch.records import JsonValue
from layton_batch.states import PredictionKind

METRIC = "score"
_COLUMNS = frozenset({"model", "item_id", METRIC})
_PARQUET = ".parquet"
_TABLES = (*ENDINGS, WORKBOOK, _PARQUET)
_KINDS = frozenset(map(str, PredictionKind))
_WORDS: Mapping[str, float] = {"true": 1.0, "false": 0.0}


def is_row(row: Object) -> bool:
    """Return whether a row has the columns of such a table."""
    return row.keys() >= _COLUMNS


def is_table(path: Path) -> bool:
    """Return whether a file of a table's form has these columns. Raises DataError where it cannot be read."""
    return path.suffix.lower() in _TABLES and any(map(is_row, islice(stream_rows(path), 1)))


def read(path: Path) -> list[ScoreFile]:
    """Read the scores, a file for each model and sample. Raises DataError with file, line or row, and reason."""
    files: dict[tuple[str, str, int, int], ScoreFile] = {}
    unit = "row" if path.suffix.lower() == _PARQUET else "line"
    for location, row in stream_placed_rows(path):
        place = f"{path}, {unit} {location.line}"
        model, provider = text_at(row, "model", place), _text(row.get("provider")) or ""
        hints, sample = _whole(row, "n_hints", 0, place), _whole(row, "sample", 1, place)
        key = (model, provider, hints, sample)
        if (file := files.get(key)) is None:
            file = files[key] = ScoreFile(str(path), model, path.stem, provider, hints, sample)
        file.add(METRIC, _item(row, place), _outcome(row, place), place)
    return list(files.values())


def _outcome(row: Object, place: str) -> ItemOutcome:
    kind = _text(row.get("kind")) or str(PredictionKind.ANSWERED)
    if kind not in _KINDS:
        raise DataError(f"{place}: 'kind' is {kind!r}, and there are {', '.join(PredictionKind)}")
    return ItemOutcome(_score(row.get(METRIC), place), kind, _text(row.get("flag")))


def _score(value: JsonValue, place: str) -> float | None:
    """Read a score; null is outside the score. A decimal comma is read, as spreadsheet programs write it."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            text = value.strip().lower()
            number = _WORDS[text] if text in _WORDS else float(text.replace(",", "."))
        else:
            number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(
            f"{place}: {METRIC!r} is {str(value)[:40]!r}, not a number, true or false; where there is no score, leave "
            "it empty (in Python: None)"
        )
    return number


def _item(row: Object, place: str) -> str:
    item = _text(row.get("item_id"))
    if not item:
        raise DataError(f"{place}: 'item_id' is empty")
    return item


def _whole(row: Object, name: str, default: int, place: str) -> int:
    text = _text(row.get(name))
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise DataError(f"{place}: {name!r} must be a whole number, not {text[:40]!r}")
    return int(text)


def _text(value: JsonValue) -> str | None:
    return None if value is None else str(value)
