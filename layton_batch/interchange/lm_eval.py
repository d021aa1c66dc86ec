"""lm-evaluation-harness, ``--log_samples``: one line a document and filter, in ``<model>/samples_<task>_<date>.jsonl``.

The line does not name the model: the results file that the same call wrote beside it does, else the folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.interchange.score_file import (
    ItemOutcome,
    Object,
    ScoreFile,
    document_of,
    fingerprint,
    json_lines,
    number_of,
)
from layton_batch.providers.wire_json import at, text
from layton_batch.states import PredictionKind

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_NOT_METRICS = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
     "target_hash"}
)  # fmt: skip


def is_line(row: Object) -> bool:
    """Return whether a file's first line is a line of lm-eval."""
    return {"doc_id", "resps", "filtered_resps"} <= row.keys()


def refuse_totals(path: Path, document: Object) -> None:
    """Raise DataError for a results file, which has totals only. Nothing is said of any other document."""
    if isinstance(document.get("results"), Mapping):
        raise DataError(
            f"{path}: has the totals of lm-evaluation-harness, not its items; give the samples_*.jsonl files that "
            "`lm_eval --log_samples` writes beside it"
        )


def read(path: Path) -> list[ScoreFile]:
    """The marks of a file. Raises DataError with file, line and reason."""
    named = _NAME.fullmatch(path.name)
    results = _results(path, named["date"] if named else "")
    folder = path.absolute().parent.name  # called after the model
    task = named["task"] if named else path.stem
    file = ScoreFile(str(path), text(results, "model_name") or folder.replace("__", "/", 1), task)
    rows = list(json_lines(path))
    filters = {row.get("filter", "none") for _, row in rows}
    for place, row in rows:
        _add(file, row, place, several=len(filters) > 1)
    lower = _lower_is_better(results, task)
    file.lower_is_better = {name for name in file.metrics if name.partition(",")[0] in lower}
    return [file]


def _add(file: ScoreFile, row: Object, place: str, *, several: bool) -> None:
    """A metric under several filters is a metric each, called ``<metric>,<filter>`` as the harness's tables do."""
    number = row.get("doc_id")
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise DataError(f"{place}: 'doc_id' must be a number")
    names = _metrics(row)
    if not names:
        raise DataError(f"{place}: there is no metric of document {number}")
    for name in names:
        if not isinstance(row.get(name), bool | int | float | None):
            note = f"{file.where}: {name} is left out: it holds something else than numbers"
            file.notes += [note] if note not in file.notes else []
            continue
        mark = number_of(row.get(name))  # None: NaN, as for a document without a score
        outcome = ItemOutcome(mark, str(PredictionKind.ANSWERED), None)
        file.add(f"{name},{row.get('filter', 'none')}" if several else name, str(number), outcome, place)
    file.questions[str(number)] = _asked(row)


def _metrics(row: Object) -> list[str]:
    """Return the metrics that the line names. Lines of versions before 0.4.8 have them as columns."""
    named = row.get("metrics")
    if isinstance(named, list):
        return [name for name in named if isinstance(name, str)]
    return [name for name in row if name not in _NOT_METRICS and isinstance(row[name], bool | int | float)]


def _asked(row: Object) -> tuple[str, int]:
    given = text(row, "doc_hash")
    return ("doc_hash", hash(given)) if given else ("doc", fingerprint(row.get("doc")))


def _results(path: Path, date: str) -> Object:
    """Return the results file of the same moment; empty where there is none."""
    results = path.with_name(f"results_{date}.json")
    return document_of(results) if date and results.is_file() else {}


def _lower_is_better(results: Object, task: str) -> set[str]:
    """Return the metrics of a task of which the results file says that less is better."""
    of_task = at(at(results, "higher_is_better"), task)
    return {name for name, higher in of_task.items() if higher is False}
