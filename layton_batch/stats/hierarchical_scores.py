"""Scores, intervals and joint draws from the hierarchical posterior: these items, new items and ranks from one law."""

from __future__ import annotations

import math
from statistics import NormalDist

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
from layton_batch.stats.hierarchical import Fit
from layton_batch.stats.strata import FloatArray, IntArray, Strata


def hierarchical_scores(strata: Strata, fit: Fit, *, level: float = 0.95) -> tuple[CalibratedScore, ...]:
    """Score every model, in the strata's order. Raises ValueError for a level not in (0, 1 - 1e-9]."""
    distributions.check_level(level)
    scored = np.flatnonzero(strata.items > 0)
    left = strata.n - strata.own_labels
    known = strata.own_positives.sum(axis=1)
    low, high = (np.zeros(len(strata.items), dtype=np.int64) for _ in range(2))
    for part in distributions.chunks(left[scored].sum(axis=1)):
        rows = scored[part]
        pmf = np.zeros((1, 1))
        for i, side in np.ndindex(fit.parts.shape[:2]):
            law = positives_pmf(Posterior(fit.alpha[i, side], fit.beta[i, side], left), rows)
            pmf = pmf + fit.parts[i, side, rows, None] * law
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
    n, zeros = strata.n[scored], strata.known_zeros[scored]
    sway = fit.table.sway[scored][:, fit.table.place]
    for i, side in np.ndindex(fit.parts.shape[:2]):
        weight, alpha, beta = (part[i, side, scored] for part in (fit.parts, fit.alpha, fit.beta))
        rate = alpha / (alpha + beta)
        moved = (
            rate
            + fit.slopes[i] * sway * (n * rate * (1 - rate)).sum(axis=1, keepdims=True) / n.sum(axis=1).clip(1)[:, None]
        )
        mean, variance = new_items_moments(n, zeros, alpha, beta, moved=moved)
        plain, _ = new_items_moments(n, zeros, alpha, beta, unseen=0.0)
        first += weight * mean
        second += weight * (variance + mean**2)
        score += weight * plain
    return np.stack([score, *beta_ends(first, np.maximum(second - first**2, 1e-12), level)])


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
    z = NormalDist().inv_cdf((1 + level) / 2)
    return mean, mean - z * sd, mean + z * sd
