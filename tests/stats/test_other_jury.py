"""Labels sorted by another jury's votes mislead; the same labels beside this jury's votes do not.

Of every answer it is drawn how this run's jury votes (0 to 3 yes), then whether people say yes, by the rate of that
vote. Another jury of three then votes on the same labelled answers, each judge by itself: yes with one chance where
people say yes, with another where they say no.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from layton_batch.stats.counts import FloatArray, IntArray, LabelledAnswers, Predictions
from tests.support.tiers import tiered

from .boards import scored

SEATS, MODELS, ITEMS, LABELS = 3, 6, 186, 90
RATES = np.array([0.01, 0.24, 0.87, 0.972])  # of a person's yes at 0 to 3 votes
JURIES = {"alike": (0.88, 0.10), "stricter": (0.60, 0.02), "more lenient": (0.98, 0.45), "at random": (0.50, 0.50)}
"""Chances of a yes of the other jury's judges: where people say yes, and where they say no."""
FEW, MANY = 2, 25
"""Boards, of six models each."""


@cache
def measure(jury: str, boards: int) -> FloatArray:
    """[2, 2] of labels trusted beside the other jury's votes, and of labels rejudged: the share of intervals (these
    items) that hold the truth, and their mean half width. The models have no labels of their own."""
    rng = np.random.default_rng([7, list(JURIES).index(jury)])
    results = []
    for _ in range(boards):
        votes, correct = answers(rng, ITEMS)
        labelled_votes, labels = answers(rng, LABELS)
        model, item = np.repeat(np.arange(MODELS), ITEMS), np.tile(np.arange(ITEMS), MODELS)
        target = Predictions(model, item, votes.ravel(), np.full(votes.size, SEATS), model < 0, np.arange(MODELS))
        maker, nowhere = np.repeat(np.arange(MODELS) + MODELS, LABELS), np.full(labels.size, -1)
        for yes in (rng.binomial(SEATS, np.where(labels == 1, *JURIES[jury])), labelled_votes):
            seats = np.full(labels.size, SEATS)
            rows = scored(target, LabelledAnswers(nowhere, maker, yes.ravel(), seats, labels.ravel(), nowhere))
            results += [
                (row.lower - 1e-9 <= truth <= row.upper + 1e-9, (row.upper - row.lower) / 2)
                for row, truth in zip(rows, correct.mean(axis=1), strict=True)
            ]
    return np.array(results).reshape(boards, 2, MODELS, 2).mean(axis=(0, 2))


def answers(rng: np.random.Generator, items: int) -> tuple[IntArray, IntArray]:
    """[models, items] yes votes of this run's jury, and what people say of the same answers."""
    strength = rng.uniform(0.35, 0.85, size=(MODELS, 1))
    votes = rng.binomial(SEATS, rng.beta(6 * strength, 6 * (1 - strength), size=(MODELS, items)))
    return votes, (rng.random((MODELS, items)) < RATES[votes]).astype(np.int64)


@pytest.mark.parametrize(("jury", "boards"), tiered(JURIES, (FEW, MANY), ci=[("stricter", FEW), ("at random", FEW)]))
def test_intervals_hold_where_the_labelled_answers_were_rejudged_and_not_beside_a_jury_that_is_not_alike(
    jury: str, boards: int
) -> None:
    (trusted, trusted_width), (rejudged, width) = measure(jury, boards)
    assert rejudged >= 0.93
    if jury in ("stricter", "more lenient"):
        assert trusted < 0.8
    if jury == "at random":  # votes at random tell nothing, and the intervals say so
        assert trusted >= 0.93
        assert trusted_width > 3 * width
