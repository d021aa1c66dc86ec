"""The order of labels: what each takes from the variance, and rows that can be handed to people."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from layton_batch.scoring.label_plan import balanced_rows, label_order
from layton_batch.stats.counts import Counts, FloatArray

from .boards import Board, make_counts

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


@pytest.mark.shared_data
def test_contested_items_come_first_and_labelled_ones_never(boards: dict[str, Board]) -> None:
    board = boards["both_correct"]
    model = board.names.index("moonshotai-kimi-k2-thinking")
    rows = label_order(board.counts, *rates(board.counts), seed=4)
    assert len(set(rows.tolist())) == len(rows)
    assert (board.counts.row_label[rows] < 0).all()
    first = rows[board.model[rows] == model][:12]
    assert ((board.yes[first] > 0) & (board.yes[first] < board.total[first])).all()
    again, other = (label_order(board.counts, *rates(board.counts), seed=seed) for seed in (4, 5))
    assert again.tolist() == rows.tolist() != other.tolist()


@pytest.mark.shared_data
def test_the_balanced_design_is_even_over_providers_models_and_items(boards: dict[str, Board]) -> None:
    board = boards["both_correct"]
    free = np.flatnonzero(board.counts.row_label < 0)
    rows = balanced_rows(board.counts, free, 90, seed=2)
    assert len(set(rows.tolist())) == 90
    models = np.bincount(board.model[rows], minlength=9)
    providers = np.bincount(board.provider[board.model[rows]])
    assert providers.max() - providers.min() <= 1
    for p in range(len(board.providers)):
        of = models[board.provider == p]
        assert of.max() - of.min() <= 1
    assert np.bincount(board.item[rows]).max() <= 1
    assert set(rows.tolist()) <= set(free.tolist())
    assert len(balanced_rows(board.counts, free, 10**6)) == len(free)
