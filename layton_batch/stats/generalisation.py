"""The interval for new items of the same kind: what a reader takes a score to mean.

The share of each vote bin among new items is Dirichlet(n_b), the rate in a bin the posterior Beta(alpha_b, beta_b) of
`calibrated`; the score is theta = sum_b share_b rate_b. Its first two moments are closed forms and its quantiles
those of the Beta distribution with these moments: no draws. The items at hand are taken as an exchangeable sample of
their kind.
"""

from __future__ import annotations

import numpy as np

from layton_batch.stats.special import betaincinv
from layton_batch.stats.strata import FloatArray, IntArray


def new_items_moments(
    n: IntArray, known_zeros: IntArray, alpha: FloatArray, beta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance, [K], of theta from item counts `n` and rates Beta(`alpha`, `beta`), [K, B], and [K] known
    zeros.

    A known zero is a bin whose rate is 0. The variance is 0 only where all items are known zeros. K rows need an item
    each.
    """
    items = n.sum(axis=1) + known_zeros
    rate = alpha / (alpha + beta)
    mean = (n * rate).sum(axis=1) / items
    rate_variance = rate * (1 - rate) / (alpha + beta + 1)
    between = (n * (rate - mean[:, None]) ** 2).sum(axis=1) + known_zeros * mean**2
    within = (n * (n + 1) * rate_variance).sum(axis=1)
    return mean, (between + within) / (items * (items + 1))


def new_items_interval(
    n: IntArray, known_zeros: IntArray, alpha: FloatArray, beta: FloatArray, level: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, lower and upper end (fractions, [K]) of the equal-tailed interval for theta; arguments as above.

    Where every item is a known zero the moments say nothing about other outcomes; Jeffreys' Beta(1/2, items + 1/2)
    does.
    """
    mean, variance = new_items_moments(n, known_zeros, alpha, beta)
    sure = variance <= 0
    items = n.sum(axis=1) + known_zeros
    size = mean * (1 - mean) / np.where(sure, 1.0, variance) - 1
    a, b = np.where(sure, 0.5, mean * size), np.where(sure, items + 0.5, (1 - mean) * size)
    lower, upper = betaincinv(a, b, np.array((1 - level) / 2)), betaincinv(a, b, np.array((1 + level) / 2))
    return mean, np.where(sure, 0.0, lower), upper
