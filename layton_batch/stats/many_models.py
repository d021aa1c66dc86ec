"""Scores and rank ranges of many thousands of models, from counts alone.

Scores and intervals are those of `calibrated`. Rank ranges come from intervals that hold all at once: each at the level
1 - (1 - level) / K (Bonferroni), so that all K hold together whatever models have in common. A model's best rank is
then 1 + the number of models that are surely above it, its worst one that of those that are not surely below. Such
ranges are wider than those of joint draws, whose number and size no machine has for so many models.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.calibrated import (
    beta_ends,
    holding,
    new_items_interval,
    new_items_moments,
    positives_pmfs,
    posterior,
    posterior_mean,
)
from layton_batch.stats.distributions import MAX_LEVEL, quantile, shortest_set
from layton_batch.stats.ranks import RankSets
from layton_batch.stats.strata import FloatArray, IntArray, Strata


@dataclass(frozen=True, slots=True, eq=False)
class ManyScores:
    """Fractions. `here`, `new` [3, K]: score, lower and upper end on these items and on new ones of the kind;
    `far_here`, `far_new` [2, K]: the ends that hold for all models at once."""

    here: FloatArray
    new: FloatArray
    far_here: FloatArray
    far_new: FloatArray


def level_of_each(level: float, models: int) -> float:
    """At which level each of so many intervals holds where all of them shall hold together at `level`. The number is
    rounded up to a power of two: a board that grows by a model keeps its intervals."""
    return min(1 - (1 - level) / (1 << max(models - 1, 0).bit_length()), MAX_LEVEL)


def many_scores(strata: Strata, *, level: float, far_level: float, provider_shift: float) -> ManyScores:
    """Of models that have an item each, at least. Raises ValueError as `calibrated_scores`."""
    distributions.check_level(level)
    post = posterior(strata, provider_shift=provider_shift)
    ends = np.zeros((4, len(strata.items)), dtype=np.int64)
    for rows, pmf in positives_pmfs(strata, post):
        ends[:2, rows] = shortest_set(pmf, level)
        ends[2, rows] = quantile(pmf, (1 - far_level) / 2)
        ends[3, rows] = quantile(pmf, (1 + far_level) / 2)
    low, high, far_low, far_high = (ends + strata.own_positives.sum(axis=1)) / strata.items
    given = strata.n, strata.known_zeros, post.alpha, post.beta
    new = np.stack(new_items_interval(*given, level))
    mean = posterior_mean(strata, post)
    low, high, new_low, new_high = holding(mean, (low, high), new)
    far_new = beta_ends(*new_items_moments(*given), far_level)
    return ManyScores(
        here=np.stack([mean, low, high]),
        new=np.stack([new[0], new_low, new_high]),
        far_here=np.stack([np.minimum(far_low, low), np.maximum(far_high, high)]),
        far_new=np.stack([np.minimum(far_new[0], new_low), np.maximum(far_new[1], new_high)]),
    )


def ranges_left_open(ends: FloatArray) -> RankSets:
    """The ranks that intervals with these `ends` [2, K] leave to each model."""
    low, high = ends
    best: IntArray = 1 + len(low) - np.searchsorted(np.sort(low), high, side="right")
    worst: IntArray = len(low) - np.searchsorted(np.sort(high), low, side="left")
    return RankSets(best, worst)
