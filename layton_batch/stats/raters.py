"""Agreement of several raters (judges or people) beyond chance: kappas, with intervals, and Krippendorff's alpha.

A coefficient is None where it is undefined: no row has two ratings, or all ratings are the same, so that chance alone
explains the agreement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.counts import FloatArray, Ints
from layton_batch.stats.distributions import two_sided_quantile

_Counts = Ints | FloatArray


@dataclass(frozen=True, slots=True)
class Kappa:
    """Agreement over ``rated`` rows of two ratings or more. ``value``: None where it is undefined; ``lower``,
    ``upper``: None where the ratings show no variance to compute an interval from."""

    name: str
    rated: int
    raters: int
    agreement: float
    value: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """`items` with two verdicts or more, `unanimous` share of them, kappa and alpha in [-1, 1]."""

    items: int
    unanimous: float | None
    fleiss_kappa: float | None
    krippendorff_alpha: float | None


def kappa(ratings: Ints, *, level: float = 0.95) -> Kappa | None:
    """Cohen's kappa of two raters, Fleiss' kappa of more, with its interval; None where no row has two ratings.

    `ratings` [R, raters]: 1, 0, or -1 where a rater gave no rating.
    """
    ratings = ratings[(ratings >= 0).sum(axis=1) >= 2]
    ratings = ratings[:, (ratings >= 0).any(axis=0)]
    if not len(ratings):
        return None
    count, raters = ratings.shape
    yes, total = (ratings == 1).sum(axis=1), (ratings >= 0).sum(axis=1)
    observed = float(_pairwise(yes, total).mean())
    if raters == 2:
        name, value = "Cohen", cohen_kappa(ratings[:, 0], ratings[:, 1])
    else:
        name, value = "Fleiss", fleiss_kappa(yes, total)
    ends: tuple[float | None, float | None] = None, None
    if value is not None:
        variance = _cohen_variance(ratings, value) if raters == 2 else _fleiss_variance(yes, total)
        if variance > 1e-12:  # no perfect agreement
            half = two_sided_quantile(level) * variance**0.5
            ends = max(value - half, -1.0), min(value + half, 1.0)
    return Kappa(name, count, raters, observed, value, *ends)


def cohen_kappa(first: Ints, second: Ints) -> float | None:
    """Cohen's kappa of two raters' 0/1 ratings of the same rows, both [R]."""
    if len(first) == 0:
        return None
    a, b = float(np.mean(first)), float(np.mean(second))
    return _beyond_chance(float(np.mean(first == second)), a * b + (1 - a) * (1 - b))


def fleiss_kappa(yes: _Counts, total: _Counts) -> float | None:
    """Fleiss' kappa from [R] yes ratings and [R] ratings, two or more a row (Psychol. Bull. 76, 1971).

    It supposes equally many ratings a row; with unequal ones every row's pairwise agreement counts once, and the chance
    rate is that of all ratings.
    """
    rate = float(yes.sum() / total.sum())
    return _beyond_chance(float(_pairwise(yes, total).mean()), rate**2 + (1 - rate) ** 2)


def agreement(yes: _Counts, total: _Counts) -> Agreement:
    """Agreement among the raters of each item, from [R] yes votes and [R] verdicts; who voted does not matter.

    Krippendorff's nominal alpha weighs items by verdicts.
    """
    pairable = total >= 2
    y, t = yes[pairable].astype(np.float64), total[pairable].astype(np.float64)
    if len(t) == 0:
        return Agreement(0, None, None, None)
    yeses, noes, split = float(y.sum()), float((t - y).sum()), y * (t - y)
    disagreement = float((split / (t - 1)).sum())
    return Agreement(
        items=len(t),
        unanimous=float((split == 0).mean()),
        fleiss_kappa=fleiss_kappa(y, t),
        krippendorff_alpha=None if 0 in (yeses, noes) else 1 - (yeses + noes - 1) * disagreement / (yeses * noes),
    )


def _pairwise(yes: _Counts, total: _Counts) -> FloatArray:
    """[R] share of the pairs of ratings of a row that agree."""
    return np.asarray(1 - 2 * yes * (total - yes) / (total * (total - 1)), dtype=np.float64)


def _beyond_chance(observed: float, chance: float) -> float | None:
    return None if chance >= 1 else (observed - chance) / (1 - chance)


def _cohen_variance(ratings: Ints, value: float) -> float:
    """The asymptotic variance of Fleiss, Cohen and Everitt (1969)."""
    count = len(ratings)
    table = np.bincount(2 * ratings[:, 0] + ratings[:, 1], minlength=4).reshape(2, 2) / count
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    chance, margins = float(rows @ columns), np.add.outer(columns, rows)
    diagonal = np.diag(table) * (1 - margins.diagonal() * (1 - value)) ** 2
    weighted = table * margins**2
    crossed = (1 - value) ** 2 * float(weighted.sum() - np.trace(weighted))
    return float((diagonal.sum() + crossed - (value - chance * (1 - value)) ** 2) / (count * (1 - chance) ** 2))


def _fleiss_variance(yes: _Counts, total: _Counts) -> float:
    """The jackknife's variance over rows; 0 for one row."""
    pairs, count = _pairwise(yes, total), len(total)
    if count < 2:
        return 0.0
    share = (yes.sum() - yes) / (total.sum() - total)
    chance = share**2 + (1 - share) ** 2
    mean = (pairs.sum() - pairs) / (count - 1)
    is_open = chance < 1  # without some row all ratings may be the same: perfect agreement
    without = np.where(is_open, (mean - chance) / np.where(is_open, 1 - chance, 1.0), 1.0)
    return (count - 1) / count * float(((without - without.mean()) ** 2).sum())
