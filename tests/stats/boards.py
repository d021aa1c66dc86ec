"""Boards for the statistics tests: the real text split of layton-eval where it is at hand, and small made ones."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from layton_batch.stats.counts import Counts, LabelledAnswers, Predictions, count
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


class Board:
    """The real predictions as arrays; `names` in the file's order."""

    def __init__(self, rows: list[dict[str, Any]], field: str) -> None:
        human = "human_" + field.removeprefix("is_")
        self.names = list(dict.fromkeys(r["model"] for r in rows))
        self.providers = list(dict.fromkeys(r["provider"] for r in rows))
        self.items = list(dict.fromkeys(r["riddle_id"] for r in rows))
        provider_of = {r["model"]: r["provider"] for r in rows}
        codes = {True: 1, False: 0, None: -1}
        self.verdicts = np.array([[codes[r[f"{field}_{j}"]] for j in JUDGES] for r in rows])
        self.human = np.array([codes[r[human]] for r in rows])
        self.model = np.array([self.names.index(r["model"]) for r in rows])
        self.item = np.array([self.items.index(r["riddle_id"]) for r in rows])
        self.provider = np.array([self.providers.index(provider_of[n]) for n in self.names])
        self.yes = (self.verdicts == 1).sum(axis=1)
        self.total = (self.verdicts >= 0).sum(axis=1)
        self.target = Predictions(
            self.model, self.item, self.yes, self.total, np.zeros(len(rows), dtype=bool), self.provider
        )
        at = np.flatnonzero(self.human >= 0)
        self.gold = LabelledAnswers(
            self.model[at], self.provider[self.model[at]], self.yes[at], self.total[at], self.human[at], at
        )
        self.counts = count(self.target, self.gold)


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
