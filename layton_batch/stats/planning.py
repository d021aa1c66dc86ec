"""The order in which answers are best labelled.

After x own labels at a vote with u unlabelled answers and a rate Beta(a, b), S = a + b, one more label takes exactly
ab (S + u)^2 / (S (S + 1) (S + x) (S + x + 1)) from the expected variance of the number of right answers. This falls
with x, so taking the label of the greatest gain again and again is optimal (Neyman's allocation with the labels at hand
as a sunk sample). In practice: contested answers first. At one vote the answers are drawn at random: labels are taken
to be missing at random there. `alpha`, `beta` [K, B] are the posterior of each model's rates.
"""

from __future__ import annotations

import numpy as np

from layton_batch.stats.counts import Counts, FloatArray, IntArray, Ints


def label_order(counts: Counts, alpha: FloatArray, beta: FloatArray, *, seed: int = 0) -> IntArray:
    """Return all rows [N] that may have a label and have none, the best one first: the one that takes most from the
    expected variance of its model's score on these items."""
    is_free = (counts.row_bin >= 0) & (counts.row_label < 0)
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(is_free))
    at = counts.predictions.model[rows], counts.row_bin[rows]
    a, b, free = alpha[at], beta[at], (counts.n - counts.own_labels)[at]
    size, before = a + b, place_within(at[0] * len(counts.bins) + at[1])
    gain = a * b * (size + free) ** 2 / (size * (size + 1) * (size + before) * (size + before + 1))
    return rows[np.argsort(-gain / counts.items[at[0]] ** 2, kind="stable")]


def place_within(groups: Ints) -> IntArray:
    """Return [N] how many earlier entries are of the same group."""
    order = np.argsort(groups, kind="stable")
    place = np.empty(len(groups), dtype=np.int64)
    place[order] = np.arange(len(groups)) - np.searchsorted(groups[order], groups[order])
    return place


def balanced_rows(counts: Counts, rows: IntArray, size: int, *, seed: int = 0) -> IntArray:
    """The alternative without regard to votes: `size` of the `rows` spread evenly over makers, models and items.

    Each next row is of the maker least drawn so far, of its model least drawn, on the item least drawn; ties at random.
    """
    rows = np.random.default_rng(seed).permutation(rows)
    predictions = counts.predictions
    keys = [
        np.unique(key, return_inverse=True)[1]
        for key in (predictions.maker[predictions.model[rows]], predictions.model[rows], predictions.item[rows])
    ]
    drawn = [np.zeros(int(key.max(initial=0)) + 1) for key in keys]
    is_free = np.ones(len(rows), dtype=np.bool_)
    picked = []
    for _ in range(min(size, len(rows))):
        best = np.flatnonzero(is_free)
        for times, key in zip(drawn, keys, strict=True):
            load = times[key[best]]
            best = best[load == load.min()]
        chosen = best[0]
        is_free[chosen] = False
        picked.append(rows[chosen])
        for times, key in zip(drawn, keys, strict=True):
            times[key[chosen]] += 1
    return np.array(picked, dtype=np.int64)
