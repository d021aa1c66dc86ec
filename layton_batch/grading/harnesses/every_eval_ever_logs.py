"""Every Eval Ever, version 0.3: one line an item and metric, and beside them one document an evaluation.

The lines (``<id>_samples.jsonl``) are what is ranked. The document (``<id>.json``), where it is there, says what a
metric is called, how high it can be, and whether less is better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.grading.graded_models import ItemOutcome
from layton_batch.grading.harnesses.score_file import (
    Object,
    ScoreFile,
    fingerprint,
    json_lines,
    number_of,
    object_at,
    object_of,
    text_at,
)
from layton_batch.states import PredictionKind

SUFFIX = "_samples.jsonl"
METRIC_MARK = "#"
"""Our own exports end ``evaluation_result_id`` in this mark and the metric's name."""
HINTS_MARK = "layton_batch.n_hints"
SAMPLE_MARK = "layton_batch.sample"
"""Our own exports say so which answer of a model to an item a line is of, where it was asked several times."""
JUDGE_MARK = "judge."
"""Our own exports begin the metadata of a judge's verdict so; its name follows."""
_KINDS = frozenset(map(str, PredictionKind))


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    largest: float | None
    lower_is_better: bool


def is_line(row: Object) -> bool:
    """Return whether a file's first line is a line of Every Eval Ever."""
    return {"evaluation_id", "sample_id", "evaluation"} <= row.keys()


def is_document(row: Object) -> bool:
    """Return whether a JSON document describes a whole evaluation."""
    return {"evaluation_id", "evaluation_results"} <= row.keys()


def samples_beside(document: Path) -> Path:
    """The lines that belong to a document. Raises DataError where there are none: it holds totals alone."""
    lines = document.with_name(document.stem + SUFFIX)
    if not lines.is_file():
        raise DataError(
            f"{document}: holds totals, and models are ranked by item: give the file of its items ({lines.name})"
        )
    return lines


def read(path: Path) -> list[ScoreFile]:
    """The models of a file of lines. Raises DataError with file, line and reason."""
    metrics = _metrics_beside(path)
    files: dict[tuple[str, str, str, int, int], ScoreFile] = {}
    for place, row in json_lines(path):
        new = _file_of(path, text_at(row, "model_id", place), text_at(row, "evaluation_name", place), row)
        file = files.setdefault((new.model, new.provider, new.task, new.n_hints, new.sample), new)
        _add(file, row, place, metrics)
    return list(files.values())


def _file_of(path: Path, model: str, task: str, row: Object) -> ScoreFile:
    """Our own exports name the model as their board does; others by ``model_id``."""
    about = row.get("metadata")
    about = about if isinstance(about, Mapping) else {}
    name, provider = (about.get(f"layton_batch.{key}") for key in ("model", "provider"))
    return ScoreFile(
        where=str(path),
        model=name if isinstance(name, str) and name else model,
        task=task,
        provider=provider if isinstance(provider, str) else "",
        n_hints=whole_number(about.get(HINTS_MARK)) or 0,
        sample=whole_number(about.get(SAMPLE_MARK)) or 1,
    )


def whole_number(text: object) -> int | None:
    """The number that a metadata's text is; None where it is none."""
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 4 else None


def _add(file: ScoreFile, row: Object, place: str, metrics: Mapping[str, _Metric]) -> None:
    item, judged = text_at(row, "sample_id", place), object_at(row, "evaluation", place)
    mark = number_of(judged.get("score"))
    if mark is None or isinstance(judged.get("score"), bool):
        raise DataError(f"{place}: 'evaluation.score' must be a number")
    if not isinstance(judged.get("is_correct"), bool):
        raise DataError(f"{place}: 'evaluation.is_correct' must be true or false")
    metric = _metric(row, metrics)
    about = row.get("metadata")
    about = about if isinstance(about, Mapping) else {}
    kind, failure = about.get("kind"), about.get("failure")
    outcome = ItemOutcome(
        mark,
        str(kind) if kind in _KINDS else str(PredictionKind.ANSWERED),
        failure if isinstance(failure, str) else None,
    )
    file.add(metric.name, item, outcome, place)
    if metric.largest is not None:
        file.largest[metric.name] = metric.largest
    if not file.notes and any(name.startswith(JUDGE_MARK) for name in about):
        file.notes.append(
            "Marks that are shares of a jury's votes are ranked as they are, uncorrected by people's labels."
        )
    if metric.lower_is_better:
        file.lower_is_better.add(metric.name)
    file.asked[item] = _asked(row, place)


def _asked(row: Object, place: str) -> tuple[str, int]:
    given = object_at(row, "input", place)
    if "raw" not in given or "reference" not in given:
        raise DataError(f"{place}: 'input' must have 'raw' and 'reference'")
    return ("input", fingerprint(given["raw"], given["reference"]))


def _metric(row: Object, metrics: Mapping[str, _Metric]) -> _Metric:
    result = row.get("evaluation_result_id")
    if not isinstance(result, str):
        return next(iter(metrics.values())) if len(metrics) == 1 else _Metric("score", None, False)
    if result in metrics:
        return metrics[result]
    name = result.rpartition(METRIC_MARK)[2] if METRIC_MARK in result else "score"
    return _Metric(name or "score", None, False)


# ---- the document beside the lines ---------------------------------------------------------------------------------


def _metrics_beside(lines: Path) -> dict[str, _Metric]:
    """Return the metrics by the result's id; empty without a document."""
    document = lines.with_name(lines.name.removesuffix(SUFFIX) + ".json")
    if not lines.name.endswith(SUFFIX) or not document.is_file():
        return {}
    try:
        content = object_of(document.read_bytes(), str(document))
    except OSError as error:
        raise DataError(f"{document}: cannot be read ({error.strerror or error})") from error
    results = content.get("evaluation_results")
    metrics = {}
    for result in results if isinstance(results, list) else ():
        if isinstance(result, Mapping) and isinstance(result.get("metric_config"), Mapping):
            identity = result.get("evaluation_result_id")
            metrics[identity if isinstance(identity, str) else ""] = _metric_of(result)
    return metrics


def _metric_of(result: Object) -> _Metric:
    config = result["metric_config"]
    assert isinstance(config, Mapping)  # noqa: S101  the caller looked
    names = (config.get(key) for key in ("metric_id", "metric_name", "metric_kind"))
    name = next((candidate for candidate in names if isinstance(candidate, str) and candidate), "score")
    largest = number_of(config.get("max_score"))
    return _Metric(name, largest if largest and largest > 0 else None, config.get("lower_is_better") is True)
