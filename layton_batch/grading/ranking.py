"""Graded models: one submission graded through its benchmark's form, row by row; the mean of several rounds of one
model; and several models on one board, ranked as every leaderboard of this package is: on the items all of them have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from layton_batch.errors import DataError
from layton_batch.grading.submissions import ModelPredictions
from layton_batch.records import Item, JsonValue
from layton_batch.scoring.board import rank_marks
from layton_batch.scoring.evidence import Entrant, ItemScores
from layton_batch.scoring.leaderboard import leaderboard
from layton_batch.scoring.rules import ScoringRules
from layton_batch.tasks.offline import FileRow, GradedModel, GradedReply, ItemOutcome, OfflineForm, RowsFile
from layton_batch.text import first_of, plural

# ---- one submission ------------------------------------------------------------------------------------------------


_ASKED = ("prompt_sha1", "asked", "query", "question", "puzzle")
"""Columns that say what was asked: items of one id that differ in them are not the same."""


def grade(
    submission: ModelPredictions,
    items: Sequence[Item] | None,
    metric: str | None = None,
    updated: RowsFile | None = None,
) -> GradedModel:
    """Grade a submission by its own items, else by ``items``, else by the gold its rows carry.

    ``metric``: by which a board will rank, item by item; without one, memory does not grow with the predictions. Raises
    DataError naming the submission and the row that is wrong.
    """
    model = GradedModel(
        submission.name, submission.where, submission.provider, is_published=submission.published is not None
    )
    report = model.report = submission.published
    try:
        if report is None:
            own = submission.items() if submission.items is not None else items
            report = model.report = submission.form.report(own, updated)
            unanswered = dict.fromkeys(item.id for item in own or ())
            for reply in submission.form.graded(own, submission.rows(), submission.name):
                report.add(reply)
                _note(model, submission.form, reply, metric)
                unanswered.pop(reply.item.id, None)
            model.unanswered = tuple(unanswered)
        model.document = report.document()
    except DataError as error:
        message = str(error)
        raise DataError(message if submission.where in message else f"{submission.where}: {message}") from error
    if items is not None and submission.items is None:
        model.asked = {}
    return model


def items_of(form: OfflineForm, rows: Sequence[FileRow]) -> Sequence[Item]:
    """A file of items. Raises DataError for what are no items."""
    try:
        return form.items(rows)
    except DataError as error:
        raise DataError(f"--items: {error}") from error


def _note(model: GradedModel, form: OfflineForm, reply: GradedReply, metric: str | None) -> None:
    """Note what a board needs of a prediction beside its grade."""
    model.n_rows += 1
    if metric is None:
        return
    of_set = reply.row.get("set")
    name = f"{of_set}:{reply.item.id}" if isinstance(of_set, str) and of_set else reply.item.id
    if name in model.outcomes:
        model.twice = model.twice or name
    model.outcomes[name] = form.outcome(reply, metric)
    question = _asked(reply.row, form.gold_columns)
    if question is not None:
        model.asked[name] = question


def _asked(row: FileRow, gold_columns: Iterable[str]) -> object:
    name = next((name for name in _ASKED if isinstance(row.get(name), str)), None)
    if name is not None:
        return name, hash(row[name])
    gold = [repr(row[name]) for name in gold_columns if row.get(name) is not None]
    return ("gold", hash(tuple(gold))) if gold else None


# ---- rounds --------------------------------------------------------------------------------------------------------


def by_model(graded: Sequence[GradedModel]) -> dict[str, list[GradedModel]]:
    """The rounds of each model, in the order of their first."""
    models: dict[str, list[GradedModel]] = {}
    for model in graded:
        models.setdefault(model.name, []).append(model)
    return models


def averaged(rounds: Sequence[GradedModel]) -> GradedModel:
    """A model over its rounds: the mean mark of every item that all of them have; it failed as in the first round that
    it did not get right. Raises DataError for rounds without a common item, and for an item twice in one of them."""
    if len(rounds) == 1:
        return rounds[0]
    for round_ in rounds:
        check_once(round_)
    first = rounds[0]
    shared = list(_shared(rounds))
    if not shared:
        raise DataError(f"model {first.name!r}: its rounds have no item in common: {_ids_apart(rounds)}")
    outcomes = {item: _mean([round_.outcomes[item] for round_ in rounds]) for item in shared}
    where, n_rows = ", ".join(round_.where for round_ in rounds), sum(round_.n_rows for round_ in rounds)
    return GradedModel(first.name, where, first.provider, outcomes=outcomes, asked=first.asked, n_rows=n_rows)


def _shared(rounds: Sequence[GradedModel]) -> Iterator[str]:
    return (item for item in rounds[0].outcomes if all(item in round_.outcomes for round_ in rounds[1:]))


def _mean(outcomes: Sequence[ItemOutcome]) -> ItemOutcome:
    worst = next((outcome for outcome in outcomes if outcome.failure is not None), outcomes[0])
    marks = [outcome.mark for outcome in outcomes if outcome.mark is not None]
    return ItemOutcome(sum(marks) / len(marks) if marks else None, worst.kind, worst.failure, worst.stratum)


def check_once(model: GradedModel) -> None:
    """Raises DataError for a model with several predictions of one item: which of them to rank by?"""
    if model.twice is not None:
        raise DataError(f"{model.where}: item {model.twice!r} is there twice; a board needs one prediction an item")


# ---- the board -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ranking:
    """``board``: the ranked models, best first. ``notes``: what a reader has to know, such as items that some models
    lack. ``n_items``: those ranked on."""

    board: pl.DataFrame
    notes: Sequence[str]
    n_items: int


def ranked(models: Sequence[GradedModel], metric: str, span: tuple[float, float] = (0.0, 1.0)) -> Ranking:
    """The board of the models that have replies; ``span``: the least and the greatest mark by the metric. Raises
    DataError where they have no item in common, and where items of one id are not the same question."""
    entered = [model for model in models if not model.is_published]
    left_out = [
        f"{model.name}: as published; without replies it has no interval and no rank"
        for model in models
        if model.is_published
    ]
    if not entered:
        return Ranking(leaderboard(()), left_out, 0)
    sheets, notes = shared_sheets(entered, span)
    return Ranking(rank_marks(sheets, ScoringRules(metric=metric)), [*notes, *left_out], len(sheets[0].item_ids))


def shared_sheets(
    models: Sequence[GradedModel], span: tuple[float, float] = (0.0, 1.0)
) -> tuple[list[ItemScores], list[str]]:
    """The marks of the models on the items that all of them have, and what a reader has to know. Raises DataError as
    ``ranked``."""
    for model in models:
        check_once(model)
    _check_same(models)
    for model in models:
        if not any(_is_scored(model, item) for item in model.outcomes):
            raise DataError(f"{model.where}: model {model.name!r} has no score on any item; leave the model out")
    shared = [item for item in models[0].outcomes if all(_is_scored(model, item) for model in models)]
    if not shared:
        names = first_of([model.name for model in models], 5)
        raise DataError(
            f"no item is in the predictions of all models ({names}): they cannot be ranked together; "
            f"{_ids_apart(models)}"
        )
    return [_sheet(model, shared, span) for model in models], _notes(models, len(shared))


def _ids_apart(models: Sequence[GradedModel]) -> str:
    """Show ids of the first model, and of the first that leaves no item in common with those before it."""
    shared = set(models[0].outcomes)
    for other in models[1:]:
        shared &= {item for item in other.outcomes if _is_scored(other, item)}
        if not shared:
            break
    sides = " but ".join(
        f"{model.name} ({model.where}) has {first_of([*map(repr, model.outcomes)])}" for model in (models[0], other)
    )
    return (
        f"{sides}. Give the same item the same id everywhere, or leave a model out; parts of one model's predictions "
        "belong in one file"
    )


def of_sheet(sheet: ItemScores) -> GradedModel:
    """A model whose marks are known already, such as one of a run."""
    failures = sheet.failures or [None] * len(sheet.item_ids)
    strata = sheet.strata or [""] * len(sheet.item_ids)
    outcomes = {
        item: ItemOutcome(mark, kind, failure, stratum)
        for item, mark, kind, failure, stratum in zip(
            sheet.item_ids, sheet.marks, sheet.kinds, failures, strata, strict=True
        )
    }
    entrant = sheet.entrant
    return GradedModel(entrant.model, "the run", entrant.provider, outcomes=outcomes, n_hints=entrant.n_hints)


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


def _is_scored(model: GradedModel, item: str) -> bool:
    outcome = model.outcomes.get(item)
    return outcome is not None and outcome.mark is not None


def _sheet(model: GradedModel, shared: Sequence[str], span: tuple[float, float]) -> ItemScores:
    outcomes = [model.outcomes[item] for item in shared]
    marks = [outcome.mark for outcome in outcomes if outcome.mark is not None]
    kinds, failures = [outcome.kind for outcome in outcomes], [outcome.failure for outcome in outcomes]
    strata = [outcome.stratum for outcome in outcomes]
    return ItemScores(Entrant(model.name, model.provider, model.n_hints), shared, marks, kinds, failures, span, strata)


def _notes(models: Sequence[GradedModel], shared: int) -> list[str]:
    notes = []
    for model in models:
        scored = sum(outcome.mark is not None for outcome in model.outcomes.values())
        if scored > shared:
            items = plural(shared, "item")
            notes.append(f"{model.name}: ranked on the {items} that all models have; it has {scored}.")
        if outside := len(model.outcomes) - scored:
            notes.append(
                f"{model.name}: {plural(outside, 'item')} without a reply, through no fault of its own, left out."
            )
    return notes


def _check_same(models: Sequence[GradedModel]) -> None:
    """Ids are not enough: data sets of several versions number different questions alike."""
    first: dict[str, tuple[GradedModel, object]] = {}
    for model in models:
        for item, question in model.asked.items():
            first_model, other = first.setdefault(item, (model, question))
            if _kind(other) == _kind(question) and other != question:
                raise DataError(
                    f"item {item!r} is not the same in {first_model.where} and {model.where}: its question or its "
                    "right answer differs; models are only ranked on the same items"
                )


def _kind(question: object) -> object:
    return question[0] if isinstance(question, tuple) else None
