"""Model against model: how likely one is better, by how much, and what difference this benchmark can tell at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from layton_batch.stats.joint import JointDraws

POWER = 0.8  # the chance with which a true difference shall be found
_Z = NormalDist()


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second model, in fractions: mean, central interval, P(first better).

    A tie counts half. With nearly equal models a flat prior is over-confident about new items: near-certainty there
    is none.
    """

    mean: float
    lower: float
    upper: float
    better: float


def differences(draws: JointDraws, pairs: Sequence[tuple[int, int]], *, level: float = 0.95) -> tuple[Difference, ...]:
    """Compare `pairs` of model indices. Raises KeyError for a model without items."""
    column = {int(m): i for i, m in enumerate(draws.models)}
    rows = []
    for first, second in pairs:
        delta = draws.theta[:, column[first]] - draws.theta[:, column[second]]
        lower, upper = np.quantile(delta, [(1 - level) / 2, (1 + level) / 2])
        better = float((delta > 0).mean() + 0.5 * (delta == 0).mean())
        rows.append(Difference(float(delta.mean()), float(lower), float(upper), better))
    return tuple(rows)


def resolvable_difference(draws: JointDraws, *, level: float = 0.95) -> float | None:
    """The smallest true difference (fraction) that separates typical neighbours at `level` with chance `POWER`.

    (z_level + z_power) times the median, over neighbours by mean score, of the standard deviation of their
    difference. None for fewer than two models.
    """
    theta = draws.theta[:, np.argsort(-draws.theta.mean(axis=0), kind="stable")]
    if theta.shape[1] < 2:
        return None
    sd = float(np.median(np.diff(theta, axis=1).std(axis=0)))
    return (_Z.inv_cdf((1 + level) / 2) + _Z.inv_cdf(POWER)) * sd


def items_to_resolve(draws: JointDraws, items: int, difference: float, *, level: float = 0.95) -> int:
    """How many items of this kind would resolve `difference` (fraction), from draws for *new* items out of `items`.

    The variance of a paired difference falls with the number of items. Raises ValueError for a difference not above 0.
    """
    if not difference > 0:
        raise ValueError(f"the difference to resolve must be above 0, not {difference!r}")
    now = resolvable_difference(draws, level=level)
    return items if now is None else math.ceil(items * (now / difference) ** 2 - 1e-9)
