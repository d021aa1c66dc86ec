"""Graded models: one submission graded through its benchmark's form, row by row; the models of other programs' files,
by one metric; and several on one board, ranked as every leaderboard of this package is: on the items all of them have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from layton_batch.errors import DataError
from layton_batch.grading.submissions import ModelPredictions
from layton_batch.records import Item, JsonValue
from layton_batch.scoring.board import rank_marks
from layton_batch.scoring.boards import RuleBoard
from layton_batch.scoring.evidence import MARKS
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


# ---- the board -----------------------------------------------------------------------------------------------------


def ranked(
    models: Sequence[GradedModel], metric: str, span: tuple[float, float] = (0.0, 1.0)
) -> tuple[pl.DataFrame, list[str]]:
    """Return the board of the models that have replies, best first, and what a reader has to know, such as items that
    some models lack.

    ``span``: the least and the greatest mark by the metric. Raises DataError where models have no item in common, and
    where items of one id are not the same question.
    """
    entered = [model for model in models if model.marks.height]
    left_out = [
        f"{model.name}: as published; without replies it has no interval and no rank"
        for model in models
        if model.marks.is_empty()
    ]
    if not entered:
        return leaderboard(), left_out
    marks, notes = shared_marks(entered)
    board = rank_marks(RuleBoard(marks, ScoringRules(metric=metric), span))
    return board, [*notes, *left_out]


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


def to_json(board: pl.DataFrame, model: GradedModel) -> dict[str, JsonValue]:
    """A model's place: score and interval in percent, as leaderboards have them; null for one that is not ranked."""
    mine = board.filter(model=model.name)
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
