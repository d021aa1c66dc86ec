"""Scores, intervals and joint draws from the hierarchical posterior: these items, new items and ranks from one law."""

from __future__ import annotations

import math

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.calibrated import (
    CalibratedScore,
    Posterior,
    beta_ends,
    new_items_moments,
    positives_pmf,
    score_rows,
)
from layton_batch.stats.distributions import two_sided_quantile
from layton_batch.stats.hierarchical import Fit
from layton_batch.stats.strata import FloatArray, IntArray, Strata


def hierarchical_scores(strata: Strata, fit: Fit, *, level: float = 0.95) -> tuple[CalibratedScore, ...]:
    """Score every model, in the strata's order. Raises ValueError for a level not in (0, 1 - 1e-9]."""
    distributions.check_level(level)
    scored = np.flatnonzero(strata.items > 0)
    left = strata.n - strata.own_labels
    known = strata.own_positives.sum(axis=1)
    low, high = (np.zeros(len(strata.items), dtype=np.int64) for _ in range(2))
    sides = fit.parts.shape[1]
    for part in distributions.chunks(sides * left[scored].sum(axis=1)):
        rows, pmf = scored[part], np.zeros((1, 1))
        every, unlabelled = np.arange(sides * len(rows)), np.tile(left[rows], (sides, 1))
        for parts, alpha, beta in zip(fit.parts, fit.alpha, fit.beta, strict=True):
            law = positives_pmf(Posterior(_flat(alpha[:, rows]), _flat(beta[:, rows]), unlabelled), every)
            pmf = pmf + (parts[:, rows, None] * law.reshape(sides, len(rows), -1)).sum(axis=0)
        low[rows], high[rows] = distributions.shortest_set(pmf, level)
    items = np.maximum(strata.items, 1)
    new = np.zeros((3, len(items)))
    new[:, scored] = _new_items(strata, fit, scored, level)
    here = (low + known) / items, (high + known) / items
    return score_rows(strata, mean_score(strata, fit), here, new)


def mean_score(strata: Strata, fit: Fit) -> FloatArray:
    """[K] expected human-judged accuracy on these items; 0 for a model without items."""
    rate = fit.mean(fit.alpha / (fit.alpha + fit.beta))
    expected = ((strata.n - strata.own_labels) * rate).sum(axis=1)
    return np.asarray((strata.own_positives.sum(axis=1) + expected) / np.maximum(strata.items, 1))


def _new_items(strata: Strata, fit: Fit, scored: IntArray, level: float) -> FloatArray:
    """[3, models]: score and ends; the moments are those of the mixture over slopes.

    What other items were to show of a model's ability would move its rates too: in each vote's stead stands its rate
    and what one more such vote sways all rates by.
    """
    first, second, score = (np.zeros(len(scored)) for _ in range(3))
    sides = fit.parts.shape[1]
    n, zeros = np.tile(strata.n[scored], (sides, 1)), np.tile(strata.known_zeros[scored], sides)
    sway = np.tile(fit.table.sway[scored][:, fit.table.place], (sides, 1)) / n.sum(axis=1).clip(1)[:, None]
    for i, slope in enumerate(fit.slopes):
        weight, alpha, beta = fit.parts[i][:, scored], _flat(fit.alpha[i][:, scored]), _flat(fit.beta[i][:, scored])
        rate = alpha / (alpha + beta)
        moved = rate + slope * sway * (n * rate * (1 - rate)).sum(axis=1, keepdims=True)
        mean, variance = new_items_moments(n, zeros, alpha, beta, moved=moved)
        plain, _ = new_items_moments(n, zeros, alpha, beta, unseen=0.0)
        first += (weight * mean.reshape(weight.shape)).sum(axis=0)
        second += (weight * (variance + mean**2).reshape(weight.shape)).sum(axis=0)
        score += (weight * plain.reshape(weight.shape)).sum(axis=0)
    return np.stack([score, *beta_ends(first, np.maximum(second - first**2, 1e-12), level)])


def _flat(values: FloatArray) -> FloatArray:
    """[N * K, B] of [N, K, B]."""
    return values.reshape(-1, values.shape[-1])


def collapsed(strata: Strata, fit: Fit) -> Posterior:
    """One Beta distribution a rate, with its mean and variance over all slopes: for plans, which need no more."""
    rate = fit.alpha / (fit.alpha + fit.beta)
    square = rate * (fit.alpha + 1) / (fit.alpha + fit.beta + 1)
    mean, second = fit.mean(rate), fit.mean(square)
    size = np.maximum(mean * (1 - mean) / np.maximum(second - mean**2, 1e-15) - 1, 1e-3)
    return Posterior(mean * size, (1 - mean) * size, strata.n - strata.own_labels)


def slope_interval(fit: Fit, level: float = 0.95) -> tuple[float, float, float]:
    """Mean and ends of the ability slope: log odds of a person's yes at one vote per log odds of accuracy.

    By the normal approximation, from the chances of the slopes that were tried.
    """
    mean = float(fit.weights @ fit.slopes)
    sd = math.sqrt(max(float(fit.weights @ fit.slopes**2) - mean**2, 0.0))
    z = two_sided_quantile(level)
    return mean, mean - z * sd, mean + z * sd
