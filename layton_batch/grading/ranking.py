"""Graded models: one submission graded through its benchmark's form, row by row; the models of other programs' files,
by one metric; and several on one board, ranked as every leaderboard of this package is: on the items all of them have.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.grading.submissions import ModelPredictions
from layton_batch.interchange.score_file import ItemOutcome, ScoreFile
from layton_batch.records import Item, JsonValue
from layton_batch.scoring.board import rank_marks
from layton_batch.scoring.boards import RuleBoard
from layton_batch.scoring.evidence import MARKS, Entrant
from layton_batch.scoring.leaderboard import ScoringRules, leaderboard
from layton_batch.tasks.offline import FileRow, OfflineForm
from layton_batch.text import first_of, plural


@dataclass(slots=True)
class GradedModel:
    """A model's marks. ``frame``: its graded predictions, None for totals without replies. ``document``: its report,
    if a benchmark makes one.

    ``marks``: the frame of marks; empty for totals. ``questions``: by item, a value that differs if the questions do;
    empty where all models are graded by one file. ``twice``: an item with several predictions. ``unanswered``: ids in
    the file of items that have no prediction. ``notes``: how predictions were read.
    """

    name: str
    where: str
    provider: str
    frame: pl.DataFrame | None = None
    document: Mapping[str, JsonValue] | None = None
    marks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MARKS))
    questions: dict[str, object] = field(default_factory=dict)
    twice: str | None = None
    unanswered: Sequence[str] = ()
    notes: Sequence[str] = ()


# ---- one submission ------------------------------------------------------------------------------------------------


def grade(
    submission: ModelPredictions, items: Sequence[Item] | None, metric: str, updated: list[FileRow] | None = None
) -> GradedModel:
    """Grade a submission by its own items, else by ``items``, else by the gold its rows carry.

    ``metric``: by which a board will rank, item by item. Raises DataError naming the submission and the row that is
    wrong.
    """
    model = GradedModel(submission.name, submission.where, submission.provider, document=submission.published)
    if submission.published is not None:
        return model
    own = submission.items() if submission.items is not None else items
    try:
        model.frame = frame = submission.form.graded(submission.rows(), own, updated)
        model.document = submission.form.report(frame)
    except DataError as error:
        message = str(error)
        raise DataError(message if submission.where in message else f"{submission.where}: {message}") from error
    if frame.is_empty():
        raise DataError(f"{submission.where}: there are no predictions in it")
    answered = set(frame["item_id"])
    names = [f"{of_set}:{item}" if of_set else item for of_set, item in frame.select("set", "item_id").iter_rows()]
    model.unanswered = [item for item in dict.fromkeys(item.id for item in own or ()) if item not in answered]
    model.twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if submission.items is None:
        model.notes = submission.form.notes(frame)
    marks = {
        "model": model.name, "provider": model.provider, "n_hints": 0, "sample": 1, "item_id": names,
        "mark": frame[metric], "kind": frame["kind"],
        **{column: frame[name].fill_null("") for column, name in (("failure", "tag"), ("stratum", "stratum"))},
    }  # fmt: skip
    model.marks = pl.DataFrame(marks, schema=MARKS)
    if items is None or submission.items is not None:
        questions = zip(names, frame["asked"], strict=True)
        model.questions = {name: tuple(question.split(":", 1)) for name, question in questions if question is not None}
    return model


def items_of(form: OfflineForm, rows: Iterable[FileRow]) -> Sequence[Item]:
    """Return the items of a file. Raises DataError for rows that are no items."""
    try:
        return form.items(rows)
    except DataError as error:
        raise DataError(f"--items: {error}") from error


# ---- files of other programs ---------------------------------------------------------------------------------------


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
    whole = {file.evaluation for file in files if file.evaluation and not file.is_cut}
    repeated = [file for file in files if file.is_cut and file.evaluation in whole]
    notes = [f"{file.where}: is left out: it was cut short, and another file has the whole of it" for file in repeated]
    files = [file for file in files if file not in repeated]
    chosen = [(file, _chosen(file, metric, files)) for file in files]
    tasks = {(file.model, file.provider, file.n_hints, file.task) for file in files}
    has_several_tasks = len(tasks) > len({entrant[:3] for entrant in tasks})
    models: dict[tuple[Entrant, int], GradedModel] = {}
    outcomes: dict[tuple[Entrant, int], dict[str, ItemOutcome]] = defaultdict(dict)
    least = []
    for file, name in chosen:
        key = Entrant(file.model, file.provider, file.n_hints), file.sample
        model = models.setdefault(key, GradedModel(file.model, file.where, file.provider))
        scale = largest or file.largest.get(name) or 1.0
        least.append(file.least.get(name, 0.0) / scale)
        for file_item, outcome in file.metrics[name].items():
            item = f"{file.task}:{file_item}" if has_several_tasks else file_item
            if item in outcomes[key]:
                raise DataError(
                    f"{file.where}: item {item!r} of model {file.model!r} is in {model.where} as well; give each "
                    "model's marks once, or another name to one of the files (NAME=FILE)"
                )
            outcomes[key][item] = _scaled(outcome, scale, f"{file.where}, item {file_item!r}, metric {name!r}")
            if file_item in file.questions:
                model.questions[item] = file.questions[file_item]
    for (entrant, sample), model in models.items():
        rows = [
            (*astuple(entrant), sample, item, outcome.mark, outcome.kind, outcome.failure or "", "")
            for item, outcome in outcomes[entrant, sample].items()
        ]
        model.marks = pl.DataFrame(rows, schema=MARKS, orient="row")
    names = dict.fromkeys(name for _, name in chosen)
    common = next(iter(names)) if len(names) == 1 else "score"
    notes += dict.fromkeys(note for file in files for note in file.notes)
    if len(names) > 1:
        by_metric = "; ".join(f"{file.model} by {name}" for file, name in chosen)
        notes.append(f"The files have no metric of one name: {by_metric}.")
    more = dict.fromkeys(name for file in files for name in file.metrics if name not in names)
    if metric is None and more:
        notes.append(f"Ranked by {common}; --metric takes {', '.join(more)} as well.")
    return GradedFiles(list(models.values()), common, min(least), notes)


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


# ---- the board -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ranking:
    """``board``: the ranked models, best first. ``notes``: what a reader has to know, such as items that some models
    lack."""

    board: pl.DataFrame
    notes: Sequence[str]


def ranked(models: Sequence[GradedModel], metric: str, span: tuple[float, float] = (0.0, 1.0)) -> Ranking:
    """The board of the models that have replies; ``span``: the least and the greatest mark by the metric. Raises
    DataError where they have no item in common, and where items of one id are not the same question."""
    entered = [model for model in models if model.marks.height]
    left_out = [
        f"{model.name}: as published; without replies it has no interval and no rank"
        for model in models
        if model.marks.is_empty()
    ]
    if not entered:
        return Ranking(leaderboard(), left_out)
    marks, notes = shared_marks(entered)
    board = rank_marks(RuleBoard(marks, ScoringRules(metric=metric), span))
    return Ranking(board, [*notes, *left_out])


def shared_marks(models: Sequence[GradedModel]) -> tuple[pl.DataFrame, list[str]]:
    """The marks of the models on the items that all of them have, and what a reader has to know. Raises DataError as
    ``ranked``."""
    for model in models:
        if model.twice is not None:
            raise DataError(f"{model.where}: item {model.twice!r} is there twice; a board needs one prediction an item")
    _check_same(models)
    for model in models:
        if not model.marks["mark"].count():
            raise DataError(f"{model.where}: model {model.name!r} has no score on any item; leave the model out")
    scored = pl.concat(model.marks for model in models).drop_nulls("mark")
    shared = scored.group_by("item_id").len().filter(len=len(models))
    if shared.is_empty():
        names = first_of([model.name for model in models], 5)
        raise DataError(
            f"no item is in the predictions of all models ({names}): they cannot be ranked together. Give the same "
            "item the same id everywhere, or leave a model out"
        )
    return scored.join(shared, on="item_id", how="semi"), _notes(models, shared.height)


def to_json(board: Ranking, model: GradedModel) -> dict[str, JsonValue]:
    """A model's place: score and interval in percent, as leaderboards have them; null for one that is not ranked."""
    mine = board.board.filter(model=model.name)
    if mine.is_empty():
        return {"rank": None, "rank_box": None, "score": None, "interval": None, "n_items": 0, "failures": None}
    row = mine.row(0, named=True)
    return {
        "rank": row["rank"],
        "rank_box": [row["rank_best"], row["rank_worst"]],
        "score": row["score"],
        "interval": [row["lower"], row["upper"]],
        "n_items": row["n_items"],
        "failures": {failure["kind"]: failure["count"] for failure in row["failures"]},
    }


def _notes(models: Sequence[GradedModel], shared: int) -> list[str]:
    notes = []
    for model in models:
        scored = model.marks["mark"].count()
        if scored > shared:
            items = plural(shared, "item")
            notes.append(f"{model.name}: ranked on the {items} that all models have; it has {scored}.")
        if outside := model.marks.height - scored:
            notes.append(
                f"{model.name}: {plural(outside, 'item')} without a reply, through no fault of its own, left out."
            )
    return notes


def _check_same(models: Sequence[GradedModel]) -> None:
    """Ids are not enough: data sets of several versions number different questions alike."""
    first: dict[str, tuple[GradedModel, object]] = {}
    for model in models:
        for item, question in model.questions.items():
            first_model, other = first.setdefault(item, (model, question))
            if _kind(other) == _kind(question) and other != question:
                raise DataError(
                    f"item {item!r} is not the same in {first_model.where} and {model.where}: its question or its "
                    "right answer differs; models are only ranked on the same items"
                )


def _kind(question: object) -> object:
    return question[0] if isinstance(question, tuple) else None
