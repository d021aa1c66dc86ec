"""Several graded models on one board, ranked as every leaderboard of this package is: on the items all of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layton_batch.errors import DataError
from layton_batch.grading.graded import check_once
from layton_batch.records import JsonValue
from layton_batch.scoring.board import BoardRow, Rules, rank_marks
from layton_batch.scoring.evidence import Entrant, ItemScores
from layton_batch.tasks.offline import GradedModel


@dataclass(frozen=True, slots=True)
class Board:
    """``rows``: the ranked models, best first. ``notes``: what a reader has to know, such as items that some models
    lack. ``n_items``: those ranked on."""

    rows: Sequence[BoardRow]
    notes: Sequence[str]
    n_items: int

    def of(self, name: str) -> BoardRow | None:
        """A model's row; None for one that is not ranked."""
        return next((row for row in self.rows if row.model == name), None)


def ranked(models: Sequence[GradedModel], metric: str) -> Board:
    """The board of the models that have replies. Raises DataError where they have no item in common, and where items
    of one id are not the same question."""
    entered = [one for one in models if not one.is_published]
    left_out = [
        f"{one.name}: as published; without replies it has no interval and no rank"
        for one in models
        if one.is_published
    ]
    if not entered:
        return Board((), left_out, 0)
    for one in entered:
        check_once(one)
    _check_same(entered)
    shared = [item for item in entered[0].outcomes if all(_is_scored(one, item) for one in entered)]
    if not shared:
        names = ", ".join(one.name for one in entered[:5])
        raise DataError(f"grade: no item is in the predictions of all models ({names}): they cannot be ranked together")
    rows = rank_marks([_sheet(one, shared) for one in entered], Rules(metric=metric))
    return Board(rows, [*_notes(entered, len(shared)), *left_out], len(shared))


def to_json(board: Board, model: GradedModel) -> dict[str, JsonValue]:
    """A model's place: score and interval in percent, as leaderboards have them; null for one that is not ranked."""
    row = board.of(model.name)
    if row is None:
        return {"rank": None, "rank_box": None, "score": None, "interval": None, "n_items": 0, "failures": None}
    return {
        "rank": row.rank,
        "rank_box": [row.rank_best, row.rank_worst],
        "score": row.score,
        "interval": [row.new_lower, row.new_upper],
        "n_items": row.n_items,
        "failures": dict(row.failures),
    }


def _is_scored(one: GradedModel, item: str) -> bool:
    outcome = one.outcomes.get(item)
    return outcome is not None and outcome.mark is not None


def _sheet(one: GradedModel, shared: Sequence[str]) -> ItemScores:
    outcomes = [one.outcomes[item] for item in shared]
    marks = [outcome.mark for outcome in outcomes if outcome.mark is not None]
    kinds, failures = [outcome.kind for outcome in outcomes], [outcome.failure for outcome in outcomes]
    return ItemScores(Entrant(one.name, one.provider, 0), shared, marks, kinds, failures)


def _notes(models: Sequence[GradedModel], shared: int) -> list[str]:
    notes = []
    for one in models:
        scored = sum(outcome.mark is not None for outcome in one.outcomes.values())
        if scored > shared:
            notes.append(f"{one.name}: ranked on the {shared} items that all models have; it has {scored}.")
        if outside := len(one.outcomes) - scored:
            notes.append(f"{one.name}: {outside} items without a reply, through no fault of its own, do not count.")
    return notes


def _check_same(models: Sequence[GradedModel]) -> None:
    """Ids are not enough: data sets of several versions number different questions alike."""
    first: dict[str, tuple[GradedModel, object]] = {}
    for one in models:
        for item, asked in one.asked.items():
            known, other = first.setdefault(item, (one, asked))
            if _kind(other) == _kind(asked) and other != asked:
                raise DataError(
                    f"item {item!r} is not the same in {known.where} and {one.where}: its question or its right answer "
                    "differs; models are only ranked on the same items"
                )


def _kind(asked: object) -> object:
    return asked[0] if isinstance(asked, tuple) else None
