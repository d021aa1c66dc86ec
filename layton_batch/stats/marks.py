"""Models graded by rule: scores, and joint draws of all scores, off which every comparison is read.

A score on the items at hand is exact. For new items of the same kind the marks are an exchangeable sample: item weights
are Exp(1), shared by all models (the Bayesian bootstrap: Rubin, Ann. Stat. 9, 1981), and every model has two items of
its own besides, with the least and the greatest mark possible and weights Gamma(1/2). For marks of 0 and 1 a model's
draws are then exactly Beta(1/2 + right, 1/2 + wrong), Jeffreys' posterior: never certain, however right a model is.
Marks are any finite numbers; [K, I] with NaN where a model was not asked.

Two models are compared by the items on which their marks differ. There the two items of its own move a model against
the others by their whole weight, whatever its score. So of two models, one of which is alone right on a items and the
other on b, the first is the better one with the chance that Beta(a + 1, b + 1) exceeds 1/2: the mid-p value of the sign
test where b is 0. By Jeffreys' posteriors alone a lead of 3 to 0 would be sure, which equal models have once in four.

Where a benchmark is put together of strata (so many puzzles of each size), new items are too: items are weighed within
their stratum, and each stratum counts as it does at hand. A stratum of n items has weights Gamma((n - 2) / n), so that
the variance of its mean is the unbiased estimate's, also where n is small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layton_batch.stats.counts import FloatArray, IntArray
from layton_batch.stats.distributions import beta_interval, check_level
from layton_batch.stats.hierarchical_scores import HALF_ITEM
from layton_batch.stats.ranks import DRAWS, Estimates

_CELLS = 4_000_000


def mark_estimates(
    marks: FloatArray,
    *,
    seed: int,
    level: float = 0.95,
    draws: int = DRAWS,
    span: tuple[float, float] = (0.0, 1.0),
    strata: IntArray | None = None,
) -> Estimates:
    """Return the mean marks, which are exact on these items, with intervals for new ones, and draws [T, K] of mean
    marks on new items, whose shared weights make comparisons paired.

    Models whose board has marks of 0 and 1 only, of a rule that gives no others than from 0 to 1, and no strata, get
    Jeffreys' interval in closed form, others the quantiles of draws of every model by itself. `span`: the least and the
    greatest mark that the rule can give; marks beyond it stretch it. `strata`: as `large_strata` makes them; None: new
    items may be of any kind. Raises ValueError for a model without a mark or a mark that is infinite.
    """
    check_level(level)
    has_mark = np.isfinite(marks)
    answered = has_mark.sum(axis=1)
    if np.isinf(marks).any() or not answered.all():
        raise ValueError("every model needs a mark, and every mark must be finite")
    rng = np.random.default_rng(seed)
    models, items = marks.shape
    least, most = min(span[0], float(marks[has_mark].min())), max(span[1], float(marks[has_mark].max()))
    filled, weight_of = np.where(has_mark, marks, 0.0), has_mark.T.astype(np.float64)
    single, paired = (np.empty((draws, models)) for _ in range(2))
    parts = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)] if strata is not None else []
    block = max(1, _CELLS // max(1, items, models))
    for at in range(0, draws, block):
        rows = slice(at, min(at + block, draws))
        count = rows.stop - rows.start
        if parts:
            mass = weight_of.sum(axis=0)
            total = sum(_weighed(filled.T[part], weight_of[part], count, rng) for part in parts)
        else:
            weights = rng.standard_exponential((count, items))
            mass, total = weights @ weight_of, weights @ filled.T
        low, high = rng.standard_gamma(HALF_ITEM, (2, count, models))
        single[rows] = (total + least * low + most * high) / (mass + low + high)
        paired[rows] = np.clip((total + (most - least) * (high - low)) / mass, least, most)

    right = filled.sum(axis=1)
    is_binary = span == (0.0, 1.0) and bool(np.isin(marks[has_mark], (0.0, 1.0)).all())
    if is_binary and strata is None:
        lower, upper = beta_interval(level, right + 0.5, answered - right + 0.5)
    else:
        lower, upper = np.quantile(single, [(1 - level) / 2, (1 + level) / 2], axis=0)
    if is_binary:
        lower, upper = np.where(right == 0, 0.0, lower), np.where(right == answered, 1.0, upper)
    return Estimates(right / answered, lower, upper, paired)


LEAST_ITEMS = 10
"""Fewest items of a stratum, for each model: fewer say little of their spread."""


def large_strata(names: Sequence[str], marks: FloatArray) -> IntArray | None:
    """Return [I] the stratum of every item, from 0; None for a single stratum.

    Strata in which a model has fewer than `LEAST_ITEMS` marks are merged.
    """
    kinds, code = np.unique(np.array(names), return_inverse=True)
    least = np.array([np.isfinite(marks[:, code == kind]).sum(axis=1).min() for kind in range(len(kinds))])
    large = least >= LEAST_ITEMS
    if not large.all() and np.isfinite(marks[:, ~large[code]]).sum(axis=1).min() < LEAST_ITEMS and large.any():
        large[np.argmin(np.where(large, least, least.max() + 1))] = False
    merged = np.where(large, np.cumsum(large), 0)
    strata = np.unique(merged[code], return_inverse=True)[1].astype(np.int64)
    return strata if strata.any() else None


def _weighed(marks: FloatArray, has_mark: FloatArray, draws: int, rng: np.random.Generator) -> FloatArray:
    """Return [T, K] sums of the marks of one stratum, its items weighed: [I', K] `marks`, `has_mark` (0 or 1)."""
    items = len(marks)
    weights = rng.standard_gamma((items - 2) / items, (draws, items))
    sums: FloatArray = has_mark.sum(axis=0) * (weights @ marks) / (weights @ has_mark)
    return sums
