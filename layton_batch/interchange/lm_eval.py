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
    fingerprint,
    json_lines,
    number_of,
    object_of,
)
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
    file = ScoreFile(str(path), _model(path, named["date"] if named else ""), named["task"] if named else path.stem)
    rows = list(json_lines(path))
    filters = {row.get("filter", "none") for _, row in rows}
    for place, row in rows:
        _add(file, row, place, several=len(filters) > 1)
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
        mark = number_of(row.get(name))
        outcome = ItemOutcome(mark, str(PredictionKind.ANSWERED), None)
        file.add(f"{name},{row.get('filter', 'none')}" if several else name, str(number), outcome, place)
    file.questions[str(number)] = _asked(row)


def _metrics(row: Object) -> list[str]:
    """Return the metrics that the line names. Lines of versions before 0.4.8 have them as columns."""
    named = row.get("metrics")
    names = named if isinstance(named, list) else [name for name in row if name not in _NOT_METRICS]
    return [name for name in names if isinstance(name, str) and number_of(row.get(name)) is not None]


def _asked(row: Object) -> tuple[str, int]:
    given = row.get("doc_hash")
    return ("doc_hash", hash(given)) if isinstance(given, str) and given else ("doc", fingerprint(row.get("doc")))


def _model(path: Path, date: str) -> str:
    """Return the model's name from the results file of the same moment, else the folder's name."""
    results = path.with_name(f"results_{date}.json")
    if date and results.is_file():
        try:
            name = object_of(results.read_bytes(), str(results)).get("model_name")
        except OSError as error:
            raise DataError(f"{results}: cannot be read ({error.strerror or error})") from error
        if isinstance(name, str) and name:
            return name
    folder = path.absolute().parent.name
    return folder.replace("__", "/", 1) or path.stem
