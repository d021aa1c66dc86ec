"""Which form a file has, and what several files give a board: models, one metric, and what a reader has to know."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from layton_batch.errors import DataError, ManifestError
from layton_batch.files import limits
from layton_batch.files.workbooks import WORKBOOK
from layton_batch.grading.graded_models import GradedModel, ItemOutcome
from layton_batch.grading.harnesses import every_eval_ever_logs, inspect_logs, lm_eval, score_table
from layton_batch.grading.harnesses.score_file import LARGEST_JSON, Object, ScoreFile, object_of

NAMES = (
    "tables of model, item_id and score, Every Eval Ever lines, inspect_ai logs (.eval, .json), "
    "lm-evaluation-harness samples"
)


@dataclass(frozen=True, slots=True)
class GradedFiles:
    """The models of several files, each sample of them, with their marks by ``metric`` (``score`` where the files have
    no common one)."""

    models: Sequence[GradedModel]
    metric: str
    notes: Sequence[str]


def read(path: Path) -> list[ScoreFile] | None:
    """A file in one of the forms; None for one in another. Raises DataError for what is broken in a known form."""
    limits.check_is_file(path, str(path))
    if score_table.is_table(path):
        return score_table.read(path)
    if path.suffix == ".eval" or (path.suffix.lower() != WORKBOOK and zipfile.is_zipfile(path)):
        return inspect_logs.read_zip(path)
    first = _first_line(path)
    if first is not None and every_eval_ever_logs.is_line(first):
        return every_eval_ever_logs.read(path)
    if first is not None and lm_eval.is_line(first):
        return lm_eval.read(path)
    if first is not None and score_table.is_row(first):
        return score_table.read(path)
    document = _document(path)
    if document is not None and every_eval_ever_logs.is_document(document):
        return every_eval_ever_logs.read(every_eval_ever_logs.samples_beside(path))
    if document is not None and inspect_logs.is_log(document):
        return inspect_logs.read_document(path, document)
    if document is not None:
        lm_eval.refuse_totals(path, document)
    return None


def marked(files: Sequence[ScoreFile], metric: str | None, largest: float | None = None) -> GradedFiles:
    """The models of these files, by the metric asked for, else the first one that all have, else each file's first.

    ``largest``: the highest mark there can be, where it is not 1. Files of several evaluations of one model are taken
    together: an item is then known by its evaluation too. Raises ManifestError for a metric that a file lacks, and
    DataError for marks that are no fractions and for an item that is there twice.
    """
    chosen = [_chosen(file, metric, files) for file in files]
    several = len({(file.model, file.provider, file.n_hints, file.task) for file in files}) > len(
        {(file.model, file.provider, file.n_hints) for file in files}
    )
    models: dict[tuple[str, str, int, int], GradedModel] = {}
    for file, name in zip(files, chosen, strict=True):
        key = (file.model, file.provider, file.n_hints, file.sample)
        model = models.setdefault(key, GradedModel(file.model, file.where, file.provider, n_hints=file.n_hints))
        _take(model, file, name, prefix=f"{file.task}:" if several else "", largest=largest)
    return GradedFiles(
        list(models.values()), _common(chosen), [*_notes(files, chosen), *_others(files, chosen, metric)]
    )


def named(files: Sequence[ScoreFile], name: str) -> list[ScoreFile]:
    """The files of one model under another name. Raises ManifestError where they are of several."""
    if len({file.model for file in files}) > 1:
        raise ManifestError(f"{name}={files[0].where}: the file holds several models; it cannot be called by one name")
    return [replace(file, model=name) for file in files]


def _chosen(file: ScoreFile, metric: str | None, files: Sequence[ScoreFile]) -> str:
    names = [name for name in file.metrics if name not in file.lower_is_better]
    if not names:
        raise DataError(f"{file.where}: has no metric of which more is better")
    if metric is not None:
        if metric not in file.metrics:
            raise ManifestError(f"--metric {metric!r}: must be a metric of {file.where}: {', '.join(file.metrics)}")
        if metric in file.lower_is_better:
            raise ManifestError(f"--metric {metric!r}: less is better by it, says {file.where}; boards rank by more")
        return metric
    return next((name for name in names if all(name in other.metrics for other in files)), names[0])


def _take(model: GradedModel, file: ScoreFile, metric: str, *, prefix: str, largest: float | None) -> None:
    scale = largest or file.largest.get(metric) or 1.0
    for item, outcome in file.metrics[metric].items():
        name = prefix + item
        if name in model.outcomes:
            raise DataError(
                f"{file.where}: item {name!r} of model {file.model!r} is in {model.where} as well; give each model's "
                "marks once, or another name to one of the files (NAME=FILE)"
            )
        model.outcomes[name] = _scaled(outcome, scale, f"{file.where}, item {item!r}, metric {metric!r}")
        if item in file.asked:
            model.asked[name] = file.asked[item]


def _scaled(outcome: ItemOutcome, scale: float, place: str) -> ItemOutcome:
    if outcome.mark is None:
        return outcome
    mark = outcome.mark / scale
    if not -1 <= mark <= 1:
        raise DataError(
            f"{place}: the mark is {outcome.mark:g}, and marks go up to {scale:g}; choose another metric with "
            "--metric, or say with --max-score what the best mark is"
        )
    return outcome if scale == 1 else replace(outcome, mark=mark)


def _common(chosen: Sequence[str]) -> str:
    return chosen[0] if len(set(chosen)) == 1 else "score"


def _notes(files: Sequence[ScoreFile], chosen: Sequence[str]) -> list[str]:
    notes = list(dict.fromkeys(note for file in files for note in file.notes))
    if len(set(chosen)) > 1:
        by_metric = "; ".join(f"{file.model} by {name}" for file, name in zip(files, chosen, strict=True))
        notes.append(f"The files have no metric of one name: {by_metric}.")
    return notes


def _others(files: Sequence[ScoreFile], chosen: Sequence[str], metric_asked: str | None) -> list[str]:
    other_metrics = dict.fromkeys(name for file in files for name in file.metrics if name not in chosen)
    if metric_asked is not None or not other_metrics:
        return []
    return [f"Ranked by {_common(chosen)}; --metric takes {', '.join(other_metrics)} as well."]


# ---- which form ----------------------------------------------------------------------------------------------------


def _first_line(path: Path) -> Object | None:
    """The first line that is not empty, where it is a JSON object by itself."""
    try:
        with path.open("rb") as handle:
            line = next((line for _, line in limits.lines(handle, str(path)) if line.strip()), b"")
    except DataError:
        return None  # too long for a line: it may be a document
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return _object(line)


def _document(path: Path) -> Object | None:
    if path.suffix != ".json":
        return None
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise DataError(f"{path}: is larger than {LARGEST_JSON >> 20} MiB")
        return _object(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _object(content: bytes) -> Object | None:
    try:
        return object_of(content, "")
    except DataError:
        return None
