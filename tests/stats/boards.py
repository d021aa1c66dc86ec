"""Boards for the statistics tests: the real text split of layton-eval where it is at hand, and small made ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from layton_batch.stats.counts import Counts, IntArray, LabelledAnswers, Predictions, count
from layton_batch.stats.hierarchical import fit
from layton_batch.stats.hierarchical_scores import FitScores, summarize
from layton_batch.stats.ranks import Ranks
from tests.support.paths import SHARED_DATA

LAYTON = SHARED_DATA / "layton"
JUDGES = ("mistral-large-2512", "claude-opus-4-5-20251101", "gpt-5.1-2025-11-13", "gemini-3-pro-preview")
FIELDS = ("both_correct", "is_answer_correct", "is_justification_correct")


def read_json(name: str) -> Any:
    return json.loads((LAYTON / name).read_text(encoding="utf-8"))


def read_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (LAYTON / name).read_text(encoding="utf-8").splitlines()]


class Board(NamedTuple):
    """The real predictions, counted; ``names`` in the file's order."""

    names: list[str]
    counts: Counts


def numbered(values: Iterable[str]) -> tuple[list[str], IntArray]:
    """Return the different values in their order, and the number of each value."""
    places: dict[str, int] = {}
    numbers = [places.setdefault(value, len(places)) for value in values]
    return list(places), np.array(numbers)


def real_board(rows: Sequence[dict[str, Any]], field: str) -> Board:
    (names, model), (_, item), (_, maker) = (
        numbered(row[column] for row in rows) for column in ("model", "riddle_id", "provider")
    )
    verdicts = [[row[f"{field}_{judge}"] for judge in JUDGES] for row in rows]
    yes, given = (np.array([sum(map(test, row)) for row in verdicts]) for test in (bool, lambda one: one is not None))
    human = [row["human_" + field.removeprefix("is_")] for row in rows]
    at = np.array([place for place, label in enumerate(human) if label is not None])
    right = np.array([int(human[place]) for place in at])
    makers = np.array([maker[np.flatnonzero(model == number)[0]] for number in range(len(names))])
    labels = LabelledAnswers(model[at], maker[at], yes[at], given[at], right, at)
    return Board(names, count(Predictions(model, item, yes, given, model < 0, makers), labels))


class ModelScore(NamedTuple):
    """One model's estimates, for these items and for new ones."""

    score: float
    lower: float
    upper: float
    new_score: float
    new_lower: float
    new_upper: float


def rows_of(found: FitScores) -> list[ModelScore]:
    """The estimates model by model."""
    here, new = found.here, found.new
    columns = here.score, here.lower, here.upper, new.score, new.lower, new.upper
    return [ModelScore(*row) for row in np.stack(columns, axis=1).tolist()]


def placed(ranks: Ranks) -> list[tuple[int, int, int] | None]:
    """Rank, best and worst rank model by model; None for one without a rank."""
    rows = zip(ranks.rank.tolist(), ranks.best.tolist(), ranks.worst.tolist(), strict=True)
    return [row if row[0] else None for row in rows]


def scored(predictions: Predictions, labels: LabelledAnswers, *, level: float = 0.95) -> list[ModelScore]:
    """The scores of all models of a board."""
    return rows_of(summarize(fit(count(predictions, labels)), level=level))


def make_counts(
    bins: list[tuple[int, int]],
    n: list[list[int]],
    pool: list[tuple[int, int]],
    *,
    own: list[list[tuple[int, int]]] | None = None,
    known_zeros: list[int] | None = None,
) -> Counts:
    """Count predictions and labels: `n` predictions by model and bin, `pool` (labels, positives) of another maker's
    model by bin, `own` labels by model and bin. Every model is of a maker of its own."""
    rows: list[tuple[int, ...]] = []
    labels: list[tuple[int, ...]] = []
    for k, of_model in enumerate(n):
        zeros = known_zeros[k] if known_zeros else 0
        for at, (vote, size) in enumerate(zip(bins, of_model, strict=True)):
            given, right = own[k][at] if own else (0, 0)
            labels += [(k, k, *vote, int(i < right), len(rows) + i) for i in range(given)]
            rows += [(k, len(rows) + i, *vote, 0) for i in range(size)]
        rows += [(k, len(rows) + i, 0, 0, 1) for i in range(zeros)]
    for vote, (given, right) in zip(bins, pool, strict=True):
        labels += [(-1, len(n), *vote, int(i < right), -1) for i in range(given)]
    model, item, yes, total, zero = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    predictions = Predictions(model, item, yes, total, zero == 1, np.arange(len(n)))
    return count(predictions, LabelledAnswers(*np.array(labels, dtype=np.int64).reshape(-1, 6).T))
