"""How far several people agree beyond chance: Cohen's kappa for two, Fleiss' for any number, with intervals.

Rows are what was rated, columns the raters: 1, 0, or -1 where one gave no rating.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from layton_batch.stats.strata import FloatArray, Ints


@dataclass(frozen=True, slots=True)
class Kappa:
    """Agreement over ``rated`` rows of two ratings or more; ``value`` is None where chance alone explains everything
    (all ratings are the same), the interval where there is no spread to tell it by."""

    name: str
    rated: int
    raters: int
    agreement: float
    value: float | None
    lower: float | None
    upper: float | None


def kappa(ratings: Ints, *, level: float = 0.95) -> Kappa | None:
    """Cohen's where two people rated, Fleiss' where more did; None where nothing has two ratings."""
    ratings = ratings[(ratings >= 0).sum(axis=1) >= 2]
    ratings = ratings[:, (ratings >= 0).any(axis=0)]
    if not len(ratings):
        return None
    return _cohen(ratings, level) if ratings.shape[1] == 2 else _fleiss(ratings, level)


def _cohen(ratings: Ints, level: float) -> Kappa:
    """With the asymptotic variance of Fleiss, Cohen and Everitt (1969)."""
    count = len(ratings)
    table = np.bincount(2 * ratings[:, 0] + ratings[:, 1], minlength=4).reshape(2, 2) / count
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    seen, chance = float(np.trace(table)), float(rows @ columns)
    if chance >= 1:
        return Kappa("Cohen", count, 2, seen, None, None, None)
    value = (seen - chance) / (1 - chance)
    own = np.diag(table) * (1 - np.add.outer(columns, rows).diagonal() * (1 - value)) ** 2
    apart = table * np.add.outer(columns, rows) ** 2
    crossed = (1 - value) ** 2 * float(apart.sum() - np.trace(apart))
    variance = (float(own.sum()) + crossed - (value - chance * (1 - value)) ** 2) / (count * (1 - chance) ** 2)
    return Kappa("Cohen", count, 2, seen, value, *_interval(value, variance, level))


def _fleiss(ratings: Ints, level: float) -> Kappa:
    """Rows may have different numbers of ratings; the variance is the jackknife's over rows."""
    yes, total = (ratings == 1).sum(axis=1).astype(np.float64), (ratings >= 0).sum(axis=1).astype(np.float64)
    pairs = (yes * (yes - 1) + (total - yes) * (total - yes - 1)) / (total * (total - 1))
    count, raters = len(ratings), ratings.shape[1]
    value = _beyond_chance(pairs.mean(), yes.sum() / total.sum())
    if value is None:
        return Kappa("Fleiss", count, raters, float(pairs.mean()), None, None, None)
    without = _jackknifed(pairs, yes, total)
    variance = (count - 1) / count * float(((without - without.mean()) ** 2).sum()) if count > 1 else float("nan")
    return Kappa("Fleiss", count, raters, float(pairs.mean()), value, *_interval(value, variance, level))


def _jackknifed(pairs: FloatArray, yes: FloatArray, total: FloatArray) -> FloatArray:
    """Kappa without each row in turn; where nothing is left to disagree about, perfect agreement."""
    share = (yes.sum() - yes) / np.maximum(total.sum() - total, 1)
    chance = share**2 + (1 - share) ** 2
    mean = (pairs.sum() - pairs) / max(len(pairs) - 1, 1)
    return np.where(chance < 1, (mean - chance) / np.where(chance < 1, 1 - chance, 1.0), 1.0)


def _beyond_chance(seen: float, share: float) -> float | None:
    chance = share**2 + (1 - share) ** 2
    return None if chance >= 1 else float((seen - chance) / (1 - chance))


def _interval(value: float, variance: float, level: float) -> tuple[float | None, float | None]:
    if not variance > 1e-12:  # also where it is not a number: perfect agreement or one row
        return None, None
    half = NormalDist().inv_cdf((1 + level) / 2) * variance**0.5
    return max(value - half, -1.0), min(value + half, 1.0)
