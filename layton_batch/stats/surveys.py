"""What labels say by themselves that a plan picked at random: no jury, no model, no assumption about either.

A plan draws the answers of one model with one vote at random. Several plans, one after the other, are together one
random draw from the answers that nobody labelled otherwise: at chances p and q it is one at p + (1 - p) q, for labels
of either round. So each label stands for as many answers as there are for one that was picked, in all rounds together.
Answers that were labelled otherwise stand for themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from layton_batch.stats.joint import detectable
from layton_batch.stats.strata import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class SampledLabels:
    """Labels of K models at B votes, [K, B] each: `open`, the answers that were not labelled otherwise than by a plan;
    `picked`, those of them that plans picked; `right`, those of these that are right. [K]: `settled`, the right ones
    among answers that were labelled otherwise; `items`, all answers, with those that are wrong without a jury."""

    open: IntArray
    picked: IntArray
    right: IntArray
    settled: IntArray
    items: IntArray

    @property
    def covered(self) -> BoolArray:
        """[K] whether labels stand for all open answers, at every vote, and there are such."""
        return np.asarray(((self.picked > 0) | (self.open == 0)).all(axis=1) & (self.open > self.picked).any(axis=1))

    @property
    def rates(self) -> FloatArray:
        """[B] share of right answers at a vote, over models; never certain, however much labels agree."""
        return np.asarray((self.right.sum(axis=0) + 0.5) / (self.picked.sum(axis=0) + 1))

    def shares(self) -> FloatArray:
        """[K] estimates of the share of right answers; of covered models only they mean anything."""
        stands_for = self.open / np.maximum(self.picked, 1)
        return np.asarray((self.settled + (stands_for * self.right).sum(axis=1)) / np.maximum(self.items, 1))

    def variance(self, rates: FloatArray) -> FloatArray:
        """[K] of the estimates, where the shares of right answers at the votes are `rates`, [B] or [K, B]."""
        unpicked = self.open * (self.open - self.picked) / np.maximum(self.picked, 1)
        return np.asarray((unpicked * rates * (1 - rates)).sum(axis=1) / np.maximum(self.items, 1) ** 2)


@dataclass(frozen=True, slots=True)
class Audit:
    """Labels alone less the corrected scores, a mean over `models`, each counting by its picked `labels`: the
    `difference` and its `standard_error` (fractions); `p_value`: of as much by chance; `detectable`: the error of the
    corrected scores that is found at the level with a chance of 80 %."""

    models: int
    labels: int
    difference: float
    standard_error: float
    p_value: float
    detectable: float


_LEAST_APART = 0.1
"""Of the variance of labels alone: less than that their difference from corrected scores cannot be relied on to vary,
for it is the difference of two variances that are estimates."""


def audit_scores(picks: SampledLabels, theta: FloatArray, rates: FloatArray, *, level: float = 0.95) -> Audit | None:
    """Hold the corrected scores, of which `theta` [T, K] are joint draws, against labels alone. None where no model is
    covered. `rates` [K, B]: the shares of right answers that the scores are made of.

    The scores rest on the same labels. If they are right, what labels alone say varies about them by its own variance
    less theirs, as the variance of an estimate is that of the best one and of the distance between the two (Hausman).
    """
    covered = picks.covered
    if not covered.any():
        return None
    weight = _weights(picks)
    score = theta[:, covered] @ weight
    alone = _variance_alone(picks, rates)
    error = max(alone - float(score.var()), _LEAST_APART * alone) ** 0.5
    difference = float(weight @ picks.shares()[covered] - score.mean())
    p_value = 2 * NormalDist().cdf(-abs(difference) / error)
    labels = int(picks.picked[covered].sum())
    return Audit(int(covered.sum()), labels, difference, error, p_value, min(detectable(error, level), 1.0))


def detectable_alone(picks: SampledLabels, rates: FloatArray, *, level: float = 0.95) -> float | None:
    """An error of corrected scores (fraction) that `picks`, also such as are only planned, show with a chance of at
    least 80 %; None where they cover no model. `rates` [K, B]: the shares of right answers that are expected."""
    if not picks.covered.any():
        return None
    return detectable(_variance_alone(picks, rates) ** 0.5, level)


def _weights(picks: SampledLabels) -> FloatArray:
    picked = picks.picked[picks.covered].sum(axis=1)
    return np.asarray(picked / picked.sum())


def _variance_alone(picks: SampledLabels, rates: FloatArray) -> float:
    return float((_weights(picks) ** 2 * picks.variance(rates)[picks.covered]).sum())
