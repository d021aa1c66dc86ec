"""Models against models: differences of two, ranks of printed scores, as the layton-eval reference has them, and rank
ranges that hold for all at once.

The reference's rank is the floor of the *average* descending rank of the rounded score, so two models tied at the top
are both 1 and three are all 2. Its intervals are closed, and their ends come from float64 subtraction and addition of
the printed numbers: the reference decides intervals that touch by the last bit, and so does ``paper_ranks``.

The rank ranges follow from intervals of all pairs' differences that hold at once in 95 % of joint draws, and step down:
pairs that are told apart need no longer be held. A rank there is 1 + the number of models that are better. Ranges from
the drawn ranks themselves are shorter, and too short: of seven equal models they missed a rank on two boards of three,
for no draw shows them equal. Source: Mogstad, Romano, Shaikh and Wilhelm, Inference for ranks, Review of Economic
Studies 91 (2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from layton_batch.stats.counts import FloatArray, IntArray
from layton_batch.stats.distributions import check_level, two_sided_quantile

DRAWS = 3_000


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """All models on one target: [K] `score` and ends of its interval in fractions, [T, K] joint `draws` of the scores.

    The marks of a rule have the rule's unit.
    """

    score: FloatArray
    lower: FloatArray
    upper: FloatArray
    draws: FloatArray

    @property
    def half_width(self) -> FloatArray:
        """[K]"""
        return np.asarray((self.upper - self.lower) / 2)


# ---- two models ----------------------------------------------------------------------------------------------------


POWER = 0.8  # the chance with which a true difference shall be found


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second model, in fractions: standard `deviation`, central interval, P(first better).

    A tie counts half. With nearly equal models a flat prior is over-confident about new items: near-certainty there
    is none.
    """

    deviation: float
    lower: float
    upper: float
    better: float


def difference(draws: FloatArray, first: int, second: int, *, level: float = 0.95) -> Difference:
    """Compare two models, by their columns in `draws` [T, K]."""
    delta = draws[:, first] - draws[:, second]
    lower, upper = np.quantile(delta, [(1 - level) / 2, (1 + level) / 2])
    better = float((delta > 0).mean() + 0.5 * (delta == 0).mean())
    return Difference(float(delta.std()), float(lower), float(upper), better)


def detectable(sd: float, level: float) -> float:
    """The true difference that an estimate with this standard deviation separates at `level` with chance `POWER`."""
    return (two_sided_quantile(level) + NormalDist().inv_cdf(POWER)) * sd


# ---- the ranks of printed scores -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """`rank`, `best`, `worst` [K] from 1 up, 0 without a score."""

    rank: IntArray
    best: IntArray
    worst: IntArray


def paper_ranks(scores: Sequence[float | None] | FloatArray, half_widths: Sequence[float | None] | FloatArray) -> Ranks:
    """Rank K models by printed score and half width (percent); None or NaN in either: not ranked and not in the way."""
    score, width = (np.asarray(values, dtype=np.float64) for values in (scores, half_widths))
    ranked = np.isfinite(score) & np.isfinite(width)
    s, w = score[ranked], width[ranked]
    not_above, below = (np.searchsorted(np.sort(s), s, side=side) for side in ("right", "left"))
    rank, best, worst = np.zeros((3, len(score)), dtype=np.int64)
    rank[ranked] = len(s) - not_above + (not_above - below + 1) // 2  # above + (ties + 1) / 2, floored
    best[ranked] = 1 + len(s) - np.searchsorted(np.sort(s - w), s + w, side="right")
    worst[ranked] = len(s) - np.searchsorted(np.sort(s + w), s - w, side="left")
    return Ranks(rank, best, worst)


def score_ranks(scores: Sequence[float | None] | FloatArray) -> IntArray:
    """[K] 1 + the number of models with a higher score, 0 for a model without one: the rank of an unrounded
    estimate."""
    score = np.asarray(scores, dtype=np.float64)
    has_score = np.isfinite(score)
    above = np.count_nonzero(has_score) - np.searchsorted(np.sort(score[has_score]), score, side="right")
    return np.where(has_score, 1 + above, 0)


# ---- ranks that hold for all models at once ------------------------------------------------------------------------


_Floats = npt.NDArray[np.float32]
_SAME = 1e-7
"""Differences of scores up to this are rounding."""
_CELLS_OF_A_REACH, _LEAST_DRAWS = 60_000_000, 400
"""Differences, of pairs in draws, that are looked at for one reach: of many models fewer draws do, but as many."""
_CELLS = 1 << 17  # ranked at once: what a processor has at hand


def rank_ranges(draws: FloatArray, *, level: float = 0.95, rank: IntArray | None = None) -> Ranks:
    """The rank range of every model of `draws` [T, K], jointly at `level`.

    The intervals behind it hold for all differences at once. A range begins behind the models that are surely better,
    and ends behind those that may be better. So it holds for equal models too, whom every draw puts in some order.
    `rank` [K], a leaderboard's own ranks, widens a range that would leave its rank out; without it a model's rank is
    the best of its range.
    """
    check_level(level)
    models = draws.shape[1]
    mean = draws.mean(axis=0)
    centred = draws - mean
    first, second = np.triu_indices(models, 1)
    covariance = centred.T @ centred / max(len(centred), 1)
    variance = np.diag(covariance)
    deviation = np.sqrt(np.maximum(variance[:, None] + variance - 2 * covariance, 0.0))
    apart, between = np.abs(mean[first] - mean[second]), deviation[first, second]
    is_open, was_open = between > _SAME, 0
    step = min(math.ceil(len(centred) * len(first) / _CELLS_OF_A_REACH), len(centred) // _LEAST_DRAWS)
    # from all of them: draws that stand together are alike; half the digits do for a reach, and are twice as fast
    some_draws = centred[:: max(step, 1)].astype(np.float32)
    while is_open.any() and is_open.sum() != was_open:
        was_open = is_open.sum()
        reach = _joint_reach(some_draws, first[is_open], second[is_open], between[is_open], level)
        is_open[is_open] = apart[is_open] <= reach * between[is_open] + _SAME
    may_be_better = np.zeros((models, models), dtype=bool)
    may_be_better[first, second] = may_be_better[second, first] = is_open
    is_better = (mean - mean[:, None] > _SAME) & ~may_be_better
    best = 1 + is_better.sum(axis=1)
    worst = best + may_be_better.sum(axis=1)
    rank = best if rank is None else rank
    return Ranks(rank, np.minimum(best, rank), np.maximum(worst, rank))


def _joint_reach(centred: _Floats, first: IntArray, second: IntArray, deviation: FloatArray, level: float) -> float:
    """Return how many standard deviations hold the differences of all these pairs at once in a share `level` of draws.

    It is the ceil((n + 1) level)-th smallest of the n draws' largest, so that a new draw is held with that chance.
    """
    largest = np.zeros(len(centred), dtype=np.float32)
    block = max(1, _CELLS // max(len(centred), 1))
    for at in range(0, len(first), block):
        some = slice(at, at + block)
        differences = np.abs(centred[:, first[some]] - centred[:, second[some]]) / deviation[some].astype(np.float32)
        np.maximum(largest, differences.max(axis=1), out=largest)
    place = math.ceil((len(largest) + 1) * level - _SAME) - 1
    return float(np.sort(largest)[place]) if place < len(largest) else math.inf
