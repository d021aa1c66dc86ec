"""Labels sorted by another jury's votes mislead; the same labels beside this jury's votes do not.

Of every answer it is drawn how this run's jury votes (0 to 3 yes), then whether people say yes, by the rate of that
vote. Another jury of three then votes on the same labelled answers, each judge by itself: yes with one chance where
people say yes, with another where they say no.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from layton_batch.stats.counts import IntArray, LabelledAnswers, Predictions
from tests.support.tiers import tiered

from .boards import scored

SEATS, MODELS, ITEMS, LABELLED_MODELS, LABELS = 3, 6, 186, 6, 90
RATES = np.array([0.01, 0.24, 0.87, 0.972])  # of a person's yes at 0 to 3 votes
JURIES = {
    "alike": (0.88, 0.10),
    "stricter": (0.60, 0.02),
    "more lenient": (0.98, 0.45),
    "at random": (0.50, 0.50),
}
"""Chances of a yes of the other jury's judges: where people say yes, and where they say no."""
FEW, MANY = 2, 25
"""Boards, of six models each."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to use the labels: share of intervals (these items) that hold the truth, and their mean half width."""

    covered: float
    half_width: float


@cache
def measure(jury: str, boards: int) -> dict[str, Trial]:
    """``trusted`` and ``rejudged`` over so many boards, whose models have no labels of their own."""
    rng = np.random.default_rng([7, list(JURIES).index(jury)])
    intervals: dict[str, list[tuple[bool, float]]] = {"trusted": [], "rejudged": []}
    for _ in range(boards):
        votes, correct = answers(rng, MODELS, ITEMS)
        labelled_votes, labels = answers(rng, LABELLED_MODELS, LABELS)
        chances = np.where(labels == 1, *JURIES[jury])
        model, item = np.repeat(np.arange(MODELS), ITEMS), np.tile(np.arange(ITEMS), MODELS)
        target = Predictions(model, item, votes.ravel(), np.full(votes.size, SEATS), model < 0, np.arange(MODELS))
        maker, nowhere = np.repeat(np.arange(LABELLED_MODELS) + MODELS, LABELS), np.full(labels.size, -1)
        for name, yes in (("trusted", rng.binomial(SEATS, chances)), ("rejudged", labelled_votes)):
            total = np.full(labels.size, SEATS)
            gold = LabelledAnswers(nowhere, maker, yes.ravel(), total, labels.ravel(), nowhere)
            intervals[name] += [
                (row.lower - 1e-9 <= truth <= row.upper + 1e-9, (row.upper - row.lower) / 2)
                for row, truth in zip(scored(target, gold), correct.mean(axis=1), strict=True)
            ]
    return {name: Trial(*np.mean(rows, axis=0).tolist()) for name, rows in intervals.items()}


def answers(rng: np.random.Generator, models: int, items: int) -> tuple[IntArray, IntArray]:
    """[models, items] yes votes of this run's jury, and what people say of the same answers."""
    strength = rng.uniform(0.35, 0.85, size=(models, 1))
    votes = rng.binomial(SEATS, rng.beta(6 * strength, 6 * (1 - strength), size=(models, items)))
    return votes, (rng.random((models, items)) < RATES[votes]).astype(np.int64)


@pytest.mark.parametrize(("jury", "boards"), tiered(JURIES, (FEW, MANY), ci=[("stricter", FEW), ("at random", FEW)]))
def test_intervals_hold_where_the_labelled_answers_were_rejudged_whatever_the_other_jury_is(
    jury: str, boards: int
) -> None:
    assert measure(jury, boards)["rejudged"].covered >= 0.93


@pytest.mark.parametrize(("jury", "boards"), tiered(("stricter", "more lenient"), (FEW, MANY), ci=[("stricter", FEW)]))
def test_intervals_do_not_hold_with_the_votes_of_a_jury_that_is_not_alike(jury: str, boards: int) -> None:
    assert measure(jury, boards)["trusted"].covered < 0.8


@pytest.mark.parametrize("boards", tiered((FEW, MANY), ci=(FEW,)))
def test_intervals_hold_with_the_votes_of_a_jury_at_random_and_say_that_these_tell_nothing(boards: int) -> None:
    trials = measure("at random", boards)
    assert trials["trusted"].covered >= 0.93
    assert trials["trusted"].half_width > 3 * trials["rejudged"].half_width
