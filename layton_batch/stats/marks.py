"""Scores of tasks graded by rule: marks per model and item in, means, intervals for new items and joint draws out.

On the items at hand such a score is exact. For new items of the same kind the marks are an exchangeable sample: item
weights are Exp(1), shared by all models (the Bayesian bootstrap: Rubin, Ann. Stat. 9, 1981), and every model has two
items of its own besides, with the least and the greatest mark possible and weights Gamma(1/2). For marks of 0 and 1 a
model's draws are then exactly Beta(1/2 + right, 1/2 + wrong), Jeffreys' posterior: never certain, however right a
model is. Marks are any finite numbers; [K, I] with NaN where a model was not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.joint import DRAWS, JointDraws
from layton_batch.stats.special import betaincinv
from layton_batch.stats.strata import FloatArray

_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class MarkScores:
    """[K] each: `mean` mark on these items, and the equal-tailed interval for new ones."""

    mean: FloatArray
    new_lower: FloatArray
    new_upper: FloatArray


def mark_scores(marks: FloatArray, draws: JointDraws, *, level: float = 0.95) -> MarkScores:
    """Score every model; `draws` are `mark_draws` of the same marks. Raises ValueError for a level not in (0, 1).

    Models whose board has marks of 0 and 1 only get Jeffreys' interval in closed form, others the draws' quantiles.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}")
    asked = np.isfinite(marks)
    count = asked.sum(axis=1)
    total = np.where(asked, marks, 0.0).sum(axis=1)
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if np.isin(marks[asked], (0.0, 1.0)).all():
        low, high = (betaincinv(total + 0.5, count - total + 0.5, np.array(p)) for p in tails)
        low, high = np.where(total == 0, 0.0, low), np.where(total == count, 1.0, high)
    else:
        low, high = np.quantile(draws.theta, tails, axis=0)
    return MarkScores(total / np.maximum(count, 1), low, high)


def mark_draws(marks: FloatArray, *, seed: int, draws: int = DRAWS) -> JointDraws:
    """Draws [T, K] of the mean mark on new items, shared weights making comparisons paired.

    Raises ValueError for a model without a mark or a mark that is infinite.
    """
    asked = np.isfinite(marks)
    if np.isinf(marks).any() or not asked.any(axis=1).all():
        raise ValueError("every model needs a mark, and every mark must be finite")
    rng = np.random.default_rng(seed)
    models, items = marks.shape
    least, most = min(0.0, float(marks[asked].min())), max(1.0, float(marks[asked].max()))
    given, there = np.where(asked, marks, 0.0).T, asked.T.astype(np.float64)
    theta = np.empty((draws, models))
    block = max(1, _CELLS // max(1, items, models))
    for at in range(0, draws, block):
        rows = min(block, draws - at)
        weights = rng.standard_exponential((rows, items))
        low, high = rng.standard_gamma(0.5, (2, rows, models))
        mass = weights @ there + low + high
        theta[at : at + rows] = (weights @ given + least * low + most * high) / mass
    return JointDraws(theta, np.arange(models))
