"""Label plans: the recorded numbers, the exact expected variance, and rows that can be handed to people."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from layton_batch.stats.counts import Counts, FloatArray
from layton_batch.stats.planning import balanced_rows, best_labels, expected_variance, share_labels

from .boards import Board, make_counts

BINS = [(0, 1), (1, 3), (2, 3), (1, 1)]


def rates(counts: Counts) -> tuple[FloatArray, FloatArray]:
    """What the labels of a vote say of its rate, whoever wrote the answers."""
    labels, yes = counts.labels.sum(axis=0)[counts.bins], counts.positives.sum(axis=0)[counts.bins]
    shape = np.ones(counts.n.shape)
    return (yes + 0.5) * shape, (labels - yes + 0.5) * shape


def bins_of(counts: Counts, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    return list(np.bincount(counts.row_bin[rows], minlength=len(counts.bins)))


def test_the_expected_variance_is_exact() -> None:
    counts = make_counts(BINS, [[30, 5, 6, 40]], [(60, 1), (9, 3), (12, 8), (150, 149)])
    alpha, beta = rates(counts)
    now = expected_variance(counts, alpha, beta)[0] * 81**2
    assert now == pytest.approx(sum(stats.betabinom.var(counts.n[0], alpha[0], beta[0])))
    for b in range(4):
        a, c, u = alpha[0, b], beta[0, b], int(counts.n[0, b])
        x = min(3, u)
        expected = 0.0
        for k in range(x + 1):  # enumerate what the x labels may say
            chance = float(stats.betabinom.pmf(k, x, a, c))
            expected += chance * float(stats.betabinom.var(u - x, a + k, c + x - k))
        extra = np.zeros((1, 4), dtype=np.int64)
        extra[0, b] = x
        change = now - expected_variance(counts, alpha, beta, extra)[0] * 81**2
        assert float(stats.betabinom.var(u, a, c)) - change == pytest.approx(expected)


def test_no_other_choice_of_as_many_labels_does_better() -> None:
    counts = make_counts(BINS, [[8, 3, 4, 9]], [(30, 1), (4, 1), (5, 4), (60, 59)])
    alpha, beta = rates(counts)
    rows, variance = best_labels(counts, alpha, beta, 0)
    assert bins_of(counts, rows) == [8, 3, 4, 9]
    assert variance[-1] == 0.0
    for size in (1, 5, 11):
        best = min(
            float(expected_variance(counts, alpha, beta, np.array([choice]))[0])
            for choice in np.ndindex(9, 4, 5, 10)
            if sum(choice) == size
        )
        assert variance[size] == pytest.approx(best)
        chosen = np.array([bins_of(counts, rows[:size])])
        assert expected_variance(counts, alpha, beta, chosen)[0] == pytest.approx(best)


@pytest.mark.shared_data
def test_contested_items_come_first_and_labelled_ones_never(boards: dict[str, Board]) -> None:
    board = boards["both_correct"]
    model = board.names.index("moonshotai-kimi-k2-thinking")
    rows, variance = best_labels(board.counts, *rates(board.counts), model, seed=4)
    assert len(set(rows.tolist())) == len(rows) == len(variance) - 1
    assert (board.model[rows] == model).all()
    assert (board.counts.row_label[rows] < 0).all()
    enough = int(np.argmax(1.96 * np.sqrt(variance) <= 0.01))
    first = rows[:enough]
    assert enough == 12
    assert ((board.yes[first] > 0) & (board.yes[first] < board.total[first])).all()
    again, other = (best_labels(board.counts, *rates(board.counts), model, seed=seed)[0] for seed in (4, 5))
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


def test_each_next_label_goes_to_the_widest_interval() -> None:
    widths = [np.array([5.0, 4.0, 3.0, 2.0]), np.array([4.5, 1.0]), np.array([1.0, 0.5])]
    assert share_labels(widths, 0) == [0, 0, 0]
    assert share_labels(widths, 2) == [1, 1, 0]
    assert share_labels(widths, 4) == [3, 1, 0]
    assert share_labels(widths, 100) == [3, 1, 1]
