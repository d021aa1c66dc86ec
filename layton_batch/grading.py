"""Bring your own predictions: grade a file by a benchmark's rules, without models, batches or network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import orjson

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import JsonValue
from layton_batch.settings import Settings
from layton_batch.sources import read_rows

Row = Mapping[str, JsonValue]

RULE_GRADED = ("mcq_idk", "zebralogic", "rome")
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "mcq_idk": ("corrected", "original"),
    "zebralogic": ("corrected", "original", "zeroeval"),
    "rome": ("corrected", "original"),
}
"""By task; the first is the default."""


class Report(Protocol):
    """What every task's ``grade_rows`` returns."""

    def to_json(self) -> Mapping[str, JsonValue]:
        """The document of ``grade --json``."""
        ...


def grade_files(
    task: str,
    items: Path | None,
    predictions: Path,
    settings: Settings,
    *,
    protocol: str | None = None,
    updated: Callable[[Row], None] | None = None,
) -> Report:
    """Grade the predictions of a file in their order; ``updated`` is handed each of rome's rows with its mark.

    Raises ManifestError (unknown task or protocol, ``updated`` for another task), DataError (file, line, reason).
    """
    if task not in RULE_GRADED:
        raise ManifestError(f"grade: {task!r} is not graded by rule; there are {', '.join(RULE_GRADED)}")
    chosen = protocol or PROTOCOLS[task][0]
    if chosen not in PROTOCOLS[task]:
        raise ManifestError(f"grade: protocol {chosen!r}: {task} has {', '.join(PROTOCOLS[task])}")
    if updated is not None and task != "rome":
        raise ManifestError("grade: --updated is for rome")
    if task == "rome":
        return _rome(items, predictions, chosen, updated)
    asked = None if items is None else _rows(items, settings)
    if task == "mcq_idk":
        from layton_batch.tasks.mcq_idk_rules import bring_your_own as mcq

        return mcq.grade_rows(asked, _rows(predictions, settings), chosen)
    from layton_batch.tasks.zebralogic_rules import bring_your_own as zebra

    return zebra.grade_rows(asked, _rows(predictions, settings), chosen)


def _rows(path: Path, settings: Settings) -> Iterable[Row]:
    """JSONL or Parquet, or one JSON list of objects, as some evaluators leave their results."""
    if path.suffix != ".json" or not _is_list(path):
        return read_rows(str(path), settings.cwd, settings)
    try:
        rows = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    wrong = next((number for number, row in enumerate(rows, 1) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DataError(f"{path}: element {wrong} of the list is not an object")
    return list(rows)


def _is_list(path: Path) -> bool:
    try:
        with path.open("rb") as handle:
            return handle.read(64).lstrip().startswith(b"[")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _rome(items: Path | None, predictions: Path, protocol: str, updated: Callable[[Row], None] | None) -> Report:
    from layton_batch.tasks.rome_rules import bring_your_own as rome
    from layton_batch.tasks.rome_rules.files import read_annotations, read_predictions

    annotations = None if items is None else read_annotations(items)
    return rome.grade_rows(annotations, read_predictions(predictions), protocol, sink=updated or _drop)


def _drop(row: Row) -> None:
    """Graded rows that nobody wants."""
