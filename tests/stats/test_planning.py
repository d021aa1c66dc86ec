"""The order of labels: what each takes from the variance, and rows that can be handed to people."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from layton_batch.scoring.label_plan import label_order
from layton_batch.stats.counts import Counts, FloatArray

from .boards import make_counts

BINS = [(0, 1), (1, 3), (2, 3), (1, 1)]


def rates(counts: Counts) -> tuple[FloatArray, FloatArray]:
    """What the labels of a vote say of its rate, whoever wrote the answers."""
    labels, yes = counts.labels.sum(axis=0)[counts.bins], counts.positives.sum(axis=0)[counts.bins]
    shape = np.ones(counts.n.shape)
    return (yes + 0.5) * shape, (labels - yes + 0.5) * shape


def remaining_variance(counts: Counts, choice: tuple[int, ...]) -> float:
    """Expected variance of the score of the first model after so many labels by vote, over all that they may say."""
    total = 0.0
    for b, (alpha, beta) in enumerate(zip(*(shape[0] for shape in rates(counts)), strict=True)):
        for yes in range(choice[b] + 1):
            chance = stats.betabinom.pmf(yes, choice[b], alpha, beta)
            left = int(counts.n[0, b]) - choice[b]
            total += float(chance * stats.betabinom.var(left, alpha + yes, beta + choice[b] - yes))
    return total / int(counts.items[0]) ** 2


def test_no_other_choice_of_as_many_labels_leaves_less_variance() -> None:
    counts = make_counts(BINS, [[6, 3, 3, 7]], [(30, 1), (4, 1), (5, 4), (60, 59)])
    rows = label_order(counts, *rates(counts))
    choices = {choice: remaining_variance(counts, choice) for choice in np.ndindex(7, 4, 4, 8)}
    for size in (1, 5, 11):
        chosen = tuple(np.bincount(counts.row_bin[rows[:size]], minlength=4).tolist())
        assert choices[chosen] == pytest.approx(min(left for choice, left in choices.items() if sum(choice) == size))
