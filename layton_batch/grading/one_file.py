"""What may be graded, and the rows of a file by what the benchmarks' own programs leave behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sources import read_rows, stream_rows
from layton_batch.records import JsonValue
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from layton_batch.tasks.protocol import RuleTask

Row = Mapping[str, JsonValue]

RULE_GRADED = ("mcq_idk", "zebralogic", "rome")
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "mcq_idk": ("corrected", "original"),
    "zebralogic": ("corrected", "original", "zeroeval"),
    "rome": ("corrected", "original"),
}
"""By task; the first is the default. Those of tasks that entry points add are their own to say."""
METRICS: Mapping[str, tuple[str, ...]] = {
    "mcq_idk": ("idk_score", "trad_score"),
    "zebralogic": ("puzzle_accuracy", "cell_accuracy"),
    "rome": ("accuracy",),
}
"""What a board of several models can be ranked by; the first is the default."""


def chosen_protocol(task: str, protocol: str | None) -> str | None:
    """The protocol asked for, or the task's default (None: a third party's task, as it comes). Raises ManifestError for
    a task or protocol there is none of."""
    if task not in RULE_GRADED:
        third_party(task, protocol)
        return protocol
    chosen = PROTOCOLS[task][0] if protocol is None else protocol
    if chosen not in PROTOCOLS[task]:
        raise ManifestError(f"grade: protocol {chosen!r}: {task} has {', '.join(PROTOCOLS[task])}")
    return chosen


def chosen_metric(task: str, metric: str | None) -> str:
    """The metric asked for, or the task's default. Raises ManifestError for one the task is not ranked by."""
    metrics = METRICS[task] if task in METRICS else tuple(third_party(task, None).metrics)
    chosen = metrics[0] if metric is None else metric
    if chosen not in metrics:
        raise ManifestError(f"grade: --metric {chosen!r}: {task} is ranked by {' or '.join(metrics)}")
    return chosen


def prediction_rows(task: str, path: Path, settings: Settings) -> Iterable[Row]:
    """A file of predictions. Raises DataError (file, line, reason): not there, empty, in none of the task's forms."""
    if task == "rome":
        from layton_batch.tasks.rome_rules.files import read_predictions

        return read_predictions(path)
    rows = _list(path) if _is_list(path) else stream_rows(settings.cwd / path)
    if task == "mcq_idk":
        from layton_batch.tasks.mcq_idk_rules.result_files import detail_rows, is_detail

        found = iter(rows)
        first = next(found)  # there is one, else reading has told
        rows = chain([first], found)
        return detail_rows(rows, str(path)) if is_detail(first) else rows
    return rows


def item_rows(task: str, path: Path, settings: Settings) -> Sequence[Row]:
    """A file of items. Raises DataError as for predictions."""
    if task == "rome":
        from layton_batch.tasks.rome_rules.files import read_annotations

        return list(read_annotations(path))
    return _list(path) if _is_list(path) else read_rows(str(path), settings.cwd, settings)


def _list(path: Path) -> Sequence[Row]:
    """One JSON list of objects, as some evaluators leave their results."""
    try:
        rows = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    wrong = next((number for number, row in enumerate(rows, 1) if not isinstance(row, dict)), None)
    if wrong is not None:
        raise DataError(f"{path}: element {wrong} of the list is not an object")
    if not rows:
        raise DataError(f"{path}: the list is empty; there must be at least one row")
    return list(rows)


def _is_list(path: Path) -> bool:
    if path.suffix != ".json":
        return False
    try:
        with path.open("rb") as handle:
            return handle.read(64).lstrip().startswith(b"[")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def third_party(task: str, protocol: str | None) -> RuleTask:
    """A task that an entry point adds. Raises ManifestError for none that is graded by rule, and for its protocol."""
    from layton_batch.grading.third_party import load

    return load(task, protocol)


def first_of(rows: Iterable[Row], where: str) -> Iterable[Row]:
    """The same rows, once there is one. Raises DataError where there is none."""
    found = iter(rows)
    first = next(found, None)
    if first is None:
        raise DataError(f"{where}: there are no predictions in it")
    return chain([first], found)
