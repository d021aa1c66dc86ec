"""Readings of a posterior of rates for a model: counts of right answers on these items, moments and ends for new ones.

For new items of the same kind, what a reader takes a score to mean, half an item that is wrong and half an item that is
right are added: without them the items at hand would be taken for all there can be, and five right answers of five for
certainty. A perfect jury gives Jeffreys' interval for a rate that way. The first two moments are closed forms and the
quantiles those of the Beta distribution with these moments: no draws. The items at hand are taken as an exchangeable
sample of their kind. No interval leaves its score out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.strata import Flag, FloatArray, IntArray, Strata

PRIOR = 0.5  # Jeffreys: as good a coverage as a uniform prior, 3-14 % shorter


@dataclass(frozen=True, slots=True)
class ModelScore:
    """One model's row, fractions. `score` is the posterior mean, `lower`..`upper` the set for these items.

    `new_score`, `new_lower`, `new_upper`: for new items of the same kind. All six are None where `reason` says why.
    `own_labels`, `borrowed_labels`: behind the occupied bins; `smallest_gold_bin`: fewest borrowed labels behind one.
    """

    score: float | None
    lower: float | None
    upper: float | None
    new_score: float | None
    new_lower: float | None
    new_upper: float | None
    items: int
    own_labels: int
    borrowed_labels: int
    smallest_gold_bin: int | None
    flags: tuple[Flag, ...]
    reason: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Rates Beta(`alpha`, `beta`) [K, B] by model and bin, and the `unlabelled` items [K, B] they predict."""

    alpha: FloatArray
    beta: FloatArray
    unlabelled: IntArray


def positives_pmf(post: Posterior, models: IntArray) -> FloatArray:
    """[len(models), most unlabelled items + 1] exact pmf of the positives among the unlabelled items of `models`."""
    unlabelled = post.unlabelled[models]
    terms = [
        distributions.beta_binomial_pmf(unlabelled[:, b], post.alpha[models, b], post.beta[models, b])
        for b in np.flatnonzero(unlabelled.any(axis=0))
    ]
    pmf = distributions.sum_pmf(terms, int(unlabelled.sum(axis=1).max(initial=0)))
    return np.broadcast_to(pmf, (len(models), pmf.shape[1]))


def score_rows(
    strata: Strata, mean: FloatArray, here: tuple[FloatArray, FloatArray], new: FloatArray
) -> tuple[ModelScore, ...]:
    """Rows from the score [K], the ends `here` [K] each, and `new` [3, K]: score and ends for new items."""
    low, high, new_low, new_high = holding(mean, here, new)
    occupied = strata.n > 0
    own: list[int] = strata.own_labels.sum(axis=1).tolist()
    borrowed: list[int] = np.where(occupied, strata.borrowed_labels, 0).sum(axis=1).tolist()
    least = strata.smallest_gold_bin(strata.borrowed_labels)
    flags = strata.flags(strata.borrowed_labels + strata.own_labels)
    rows = []
    for i in range(len(strata.items)):
        items = int(strata.items[i])
        has_items = items > 0
        rows.append(
            ModelScore(
                score=float(mean[i]) if has_items else None,
                lower=float(low[i]) if has_items else None,
                upper=float(high[i]) if has_items else None,
                new_score=float(new[0, i]) if has_items else None,
                new_lower=float(new_low[i]) if has_items else None,
                new_upper=float(new_high[i]) if has_items else None,
                items=items,
                own_labels=own[i],
                borrowed_labels=borrowed[i],
                smallest_gold_bin=least[i],
                flags=flags[i],
                reason=None if has_items else "no items",
            )
        )
    return tuple(rows)


def holding(mean: FloatArray, here: tuple[FloatArray, FloatArray], new: FloatArray) -> tuple[FloatArray, ...]:
    """The ends `here` and for new items (`new` [3, K]: score and ends), moved to where they hold the score [K]."""
    low, high = np.minimum(here[0], mean), np.maximum(here[1], mean)
    return low, high, np.minimum(new[1], np.minimum(new[0], mean)), np.maximum(new[2], np.maximum(new[0], mean))


# ---- for new items of the same kind --------------------------------------------------------------------------------


HALF_ITEM = 0.5  # the unseen right and the unseen wrong item, each


def new_items_moments(
    n: IntArray, known_zeros: IntArray, alpha: FloatArray, beta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance, [K], of the accuracy on new items: the shares of the votes are Dirichlet, by the counts `n`
    [K, B] and `known_zeros` [K], the rates Beta(`alpha`, `beta`) [K, B].

    A known zero is a bin whose rate is 0. K rows need an item each.
    """
    items = n.sum(axis=1) + known_zeros
    rate = alpha / (alpha + beta)
    mean = (n * rate).sum(axis=1) / items
    rate_variance = rate * (1 - rate) / (alpha + beta + 1)
    between = (n * (rate - mean[:, None]) ** 2).sum(axis=1) + known_zeros * mean**2
    within = (n * (n + 1) * rate_variance).sum(axis=1)
    return mean, (between + within) / (items * (items + 1))


def beta_ends(mean: FloatArray, variance: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Equal-tailed ends of the Beta distributions with these moments."""
    size = mean * (1 - mean) / variance - 1
    return distributions.beta_interval(level, mean * size, (1 - mean) * size)
