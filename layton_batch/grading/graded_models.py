"""Graded models, as boards rank them: the results of a model by item, wherever its marks are from; and the models of
other programs' files, by one metric."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.interchange.score_file import ItemOutcome, ScoreFile
from layton_batch.records import JsonValue
from layton_batch.scoring.evidence import MARKS, Entrant


@dataclass(slots=True)
class GradedModel:
    """A model's marks. ``frame``: its graded predictions, None for totals without replies and the mean of several
    rounds. ``document``: its report, if a benchmark makes one.

    ``marks``: the frame of marks, only where there will be a board. ``questions``: by item, a value that differs if the
    questions do; empty where all models are graded by one file. ``twice``: an item with several predictions.
    ``unanswered``: ids in the file of items that have no prediction. ``notes``: how predictions were read.
    """

    name: str
    where: str
    provider: str
    frame: pl.DataFrame | None = None
    document: Mapping[str, JsonValue] | None = None
    marks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MARKS))
    questions: dict[str, object] = field(default_factory=dict)
    twice: str | None = None
    n_rows: int = 0
    is_published: bool = False
    unanswered: Sequence[str] = ()
    notes: Sequence[str] = ()


def marks_of(entrant: Entrant, sample: int, outcomes: Mapping[str, ItemOutcome]) -> pl.DataFrame:
    """Return the frame of marks of a model's sample, from outcomes by item."""
    rows = [
        (*astuple(entrant), sample, item, outcome.mark, outcome.kind, outcome.failure or "", outcome.stratum)
        for item, outcome in outcomes.items()
    ]
    return pl.DataFrame(rows, schema=MARKS, orient="row")


# ---- files of other programs --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GradedFiles:
    """The models of several files, each sample of them, with their marks by ``metric`` (``score`` where the files have
    different metrics); marks are from ``least`` to 1."""

    models: Sequence[GradedModel]
    metric: str
    least: float
    notes: Sequence[str]


ROUNDING = 1e-9
"""The most by which a mark may exceed the best mark: sums of floats do."""


def marked(files: Sequence[ScoreFile], metric: str | None, largest: float | None = None) -> GradedFiles:
    """The models of these files, by the metric asked for, else the first one that all have, else each file's first.

    ``largest``: the highest mark there can be, where it is not 1. Files of several evaluations of one model are taken
    together: an item is then known by its evaluation too. Raises ManifestError for a metric that a file lacks, and
    DataError for marks that are no fractions and for an item that is there twice.
    """
    files, left_out = _without_repeated(files)
    chosen = [_chosen(file, metric, files) for file in files]
    several = len({(file.model, file.provider, file.n_hints, file.task) for file in files}) > len(
        {(file.model, file.provider, file.n_hints) for file in files}
    )
    models: dict[tuple[Entrant, int], GradedModel] = {}
    outcomes: dict[tuple[Entrant, int], dict[str, ItemOutcome]] = defaultdict(dict)
    for file, name in zip(files, chosen, strict=True):
        key = Entrant(file.model, file.provider, file.n_hints), file.sample
        model = models.setdefault(key, GradedModel(file.model, file.where, file.provider))
        prefix = f"{file.task}:" if several else ""
        for item, outcome in _outcomes(file, name, prefix, largest):
            if item in outcomes[key]:
                raise DataError(
                    f"{file.where}: item {item!r} of model {file.model!r} is in {model.where} as well; give each "
                    "model's marks once, or another name to one of the files (NAME=FILE)"
                )
            outcomes[key][item] = outcome
        model.questions |= {
            prefix + item: file.questions[item] for item in file.metrics[name] if item in file.questions
        }
    for key, model in models.items():
        model.marks = marks_of(*key, outcomes[key])
    read = zip(files, chosen, strict=True)
    least = min(file.least.get(name, 0.0) / _scale(file, name, largest) for file, name in read)
    notes = [*left_out, *_notes(files, chosen), *_others(files, chosen, metric)]
    return GradedFiles(list(models.values()), _common(chosen), least, notes)


def _without_repeated(files: Sequence[ScoreFile]) -> tuple[Sequence[ScoreFile], Sequence[str]]:
    """Return the files without those that were cut short and done again, and a note on each of these."""
    whole = {file.evaluation for file in files if file.evaluation and not file.is_cut}
    repeated = [file for file in files if file.is_cut and file.evaluation in whole]
    notes = [f"{file.where}: is left out: it was cut short, and another file has the whole of it" for file in repeated]
    return [file for file in files if file not in repeated], notes


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


def _outcomes(file: ScoreFile, metric: str, prefix: str, largest: float | None) -> Iterator[tuple[str, ItemOutcome]]:
    scale = _scale(file, metric, largest)
    for item, outcome in file.metrics[metric].items():
        yield prefix + item, _scaled(outcome, scale, f"{file.where}, item {item!r}, metric {metric!r}")


def _scale(file: ScoreFile, metric: str, largest: float | None) -> float:
    return largest or file.largest.get(metric) or 1.0


def _scaled(outcome: ItemOutcome, scale: float, place: str) -> ItemOutcome:
    if outcome.mark is None:
        return outcome
    mark = outcome.mark / scale
    if 1 < abs(mark) <= 1 + ROUNDING:
        mark = math.copysign(1.0, mark)
    if not -1 <= mark <= 1:
        raise DataError(
            f"{place}: the mark is {outcome.mark:g}, and marks go up to {scale:g}; choose another metric with "
            "--metric, or say with --max-score what the best mark is"
        )
    return replace(outcome, mark=mark)


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
