"""Choice of items and models to label next.

After x more own labels in a bin with u unlabelled items and a rate Beta(a, b), S = a + b, the expected posterior
variance of the count is exactly E[p(1-p)] (u - x) (S + u) / (S + x). It is convex in x, so taking the label of
greatest gain again and again is optimal (Neyman's allocation with the labels at hand as a sunk sample). In practice:
contested items first. Within a bin the rows are drawn at random: labels are taken to be missing at random inside a
bin. `alpha`, `beta` [K, B] are the posterior of each model's rates.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from layton_batch.stats.counts import Counts, FloatArray, IntArray


def expected_variance(counts: Counts, alpha: FloatArray, beta: FloatArray, extra: IntArray | int = 0) -> FloatArray:
    """[K] expected posterior variance of the score on these items after `extra` [K, B] more own labels."""
    variance = _variance(counts.n - counts.own_labels, extra, alpha, beta)
    return np.asarray(variance.sum(axis=1) / counts.items**2)


def _variance(unlabelled: IntArray | int, extra: IntArray | int, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    size = alpha + beta
    return np.asarray(alpha * beta / (size * (size + 1)) * (unlabelled - extra) * (size + unlabelled) / (size + extra))


def best_labels(
    counts: Counts, alpha: FloatArray, beta: FloatArray, model: int, *, seed: int = 0
) -> tuple[IntArray, FloatArray]:
    """All unlabelled rows [N] of a model, the best label first, and the expected variance [N + 1] of its score on these
    items after 0..N of them."""
    rng = np.random.default_rng([seed, model])  # models are drawn from apart, as if each by itself
    a, b = alpha[model], beta[model]
    is_open = (counts.predictions.model == model) & (counts.row_label < 0)
    rows, gains = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for at in np.argsort(-a * b / ((a + b) * (a + b + 1)), kind="stable"):
        of_bin = rng.permutation(np.flatnonzero(is_open & (counts.row_bin == at)))
        rows.append(of_bin)
        gains.append(-np.diff(_variance(len(of_bin), np.arange(len(of_bin) + 1), a[at], b[at])))
    gain = np.concatenate(gains)
    order = np.argsort(-gain, kind="stable")
    taken = np.concatenate([np.zeros(1), np.cumsum(gain[order])])
    return np.concatenate(rows)[order], np.maximum(taken[-1] - taken, 0.0) / int(counts.items[model]) ** 2


def share_labels(half_widths: Sequence[FloatArray], labels: int) -> list[int]:
    """Share `labels` among models: each next one goes to the model whose interval is the widest by then.

    `half_widths`: of each model [N + 1], after 0..N labels. Fewer labels are used where every item is labelled before.
    """
    counts = [0] * len(half_widths)
    heap = [(-float(widths[0]), at) for at, widths in enumerate(half_widths)]
    heapq.heapify(heap)
    for _ in range(labels):
        while heap and counts[heap[0][1]] + 1 >= len(half_widths[heap[0][1]]):
            heapq.heappop(heap)  # all of this model's items are labelled
        if not heap:
            break
        at = heap[0][1]
        counts[at] += 1
        heapq.heapreplace(heap, (-float(half_widths[at][counts[at]]), at))
    return counts


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
