"""Prediction-powered estimates of a mean for people who have arrays: classical, PPI, PPI++ and stratified PPI.

Names and order of arguments are those of ppi-python, whose results these equal for one-dimensional data. Sources:
PPI, Angelopoulos, Bates, Fannjiang, Jordan & Zrnic, Science 382 (2023); PPI++, Angelopoulos, Duchi & Zrnic,
arXiv:2311.01453; stratified PPI, Fisch et al., arXiv:2406.04291. All are for new items of the same kind and lean on
the central limit theorem: with few labels, or labels that all agree with the judge, their intervals are too short
(see `generalisation` instead). Any outcome will do here, not only 0 and 1. One-sided tuned intervals are one-sided
(ppi-python 0.2.3 forgets the side then).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from layton_batch.stats.strata import FloatArray

Alternative = Literal["two-sided", "larger", "smaller"]
Values = npt.ArrayLike


def classical_mean_ci(Y: Values, alpha: float = 0.1, alternative: Alternative = "two-sided") -> tuple[float, float]:
    """The interval from labels alone, at level 1 - alpha (standard error with ddof 0, as in ppi-python)."""
    y = _column("Y", Y)
    return _interval(float(y.mean()), float(y.std() / len(y) ** 0.5), alpha, alternative)


def ppi_mean_pointestimate(Y: Values, Yhat: Values, Yhat_unlabeled: Values, lam: float | None = None) -> float:
    """Labels `Y` [n], predictions `Yhat` [n] for the same items, `Yhat_unlabeled` [N] for others.

    `lam` None tunes it (PPI++), 1 is plain PPI, 0 the classical mean.
    """
    y, f, g = _check(Y, Yhat, Yhat_unlabeled)
    weight = _tuned(y, f, g) if lam is None else lam
    return float(weight * g.mean() + (y - weight * f).mean())


def ppi_mean_ci(
    Y: Values,
    Yhat: Values,
    Yhat_unlabeled: Values,
    alpha: float = 0.1,
    alternative: Alternative = "two-sided",
    lam: float | None = None,
) -> tuple[float, float]:
    """The PPI (`lam` 1) or PPI++ (`lam` None) interval at level 1 - alpha; arguments as in `ppi_mean_pointestimate`."""
    y, f, g = _check(Y, Yhat, Yhat_unlabeled)
    weight = _tuned(y, f, g) if lam is None else lam
    mean = float(weight * g.mean() + (y - weight * f).mean())
    variance = (weight * g).var() / len(g) + (y - weight * f).var() / len(y)
    return _interval(mean, float(variance**0.5), alpha, alternative)


def stratified_ppi_mean_ci(
    Y: Values,
    Yhat: Values,
    Yhat_unlabeled: Values,
    strata: npt.ArrayLike,
    strata_unlabeled: npt.ArrayLike,
    alpha: float = 0.1,
    alternative: Alternative = "two-sided",
    lam: float | None = None,
    known_shares: bool = False,
) -> tuple[float, float]:
    """Stratified PPI at level 1 - alpha: PPI within each stratum, weighted by its share of the unlabelled items.

    `strata` [n] and `strata_unlabeled` [N] name each item's stratum. Unless the shares are known (`known_shares`),
    their sampling adds the variance of the strata's means over N. Variances have ddof 1, since strata are small.
    Raises ValueError naming a stratum of the unlabelled items with fewer than two labels.
    """
    y, f, g = _check(Y, Yhat, Yhat_unlabeled)
    labelled, unlabelled = np.asarray(strata), np.asarray(strata_unlabeled)
    if len(labelled) != len(y) or len(unlabelled) != len(g):
        raise ValueError("strata must be as long as Y, strata_unlabeled as long as Yhat_unlabeled")
    shares, means, variances = [], [], []
    for stratum in np.unique(unlabelled):
        here, there = labelled == stratum, unlabelled == stratum
        if here.sum() < 2:
            raise ValueError(f"stratum {stratum}: {int(here.sum())} labels, but a variance takes two")
        mean, variance = _stratum(y[here], f[here], g[there], lam)
        shares.append(there.mean())
        means.append(mean)
        variances.append(variance)
    share, level = np.array(shares), np.array(means)
    estimate = float(share @ level)
    sampling = 0.0 if known_shares else float(share @ (level - estimate) ** 2) / len(g)
    variance = float(share**2 @ np.array(variances)) + sampling
    return _interval(estimate, variance**0.5, alpha, alternative)


def _stratum(y: FloatArray, f: FloatArray, g: FloatArray, lam: float | None) -> tuple[float, float]:
    weight = _tuned(y, f, g) if lam is None else lam
    spread = g.var(ddof=1) if len(g) > 1 else 0.0
    mean = float(weight * g.mean() + (y - weight * f).mean())
    return mean, float(weight**2 * spread / len(g) + (y - weight * f).var(ddof=1) / len(y))


def _tuned(y: FloatArray, f: FloatArray, g: FloatArray) -> float:
    """PPI++'s lambda, clipped to [0, 1]; 0 where predictions do not vary, for then they cannot help."""
    spread = np.concatenate([f, g]).var(ddof=1)
    if not spread > 0:
        return 0.0
    covariance = float(((y - y.mean()) * (f - f.mean())).mean())
    return min(max(covariance / float((1 + len(y) / len(g)) * spread), 0.0), 1.0)


def _interval(mean: float, error: float, alpha: float, alternative: Alternative) -> tuple[float, float]:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha!r}")
    if alternative == "two-sided":
        reach = NormalDist().inv_cdf(1 - alpha / 2) * error
        return mean - reach, mean + reach
    reach = NormalDist().inv_cdf(1 - alpha) * error
    if alternative == "larger":
        return mean - reach, float("inf")
    if alternative == "smaller":
        return float("-inf"), mean + reach
    raise ValueError(f"alternative must be two-sided, larger or smaller, not {alternative!r}")


def _check(Y: Values, Yhat: Values, Yhat_unlabeled: Values) -> tuple[FloatArray, FloatArray, FloatArray]:
    y, f, g = _column("Y", Y), _column("Yhat", Yhat), _column("Yhat_unlabeled", Yhat_unlabeled)
    if len(y) != len(f):
        raise ValueError(f"Y and Yhat must be of one length, not {len(y)} and {len(f)}")
    return y, f, g


def _column(name: str, values: Values) -> FloatArray:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or len(column) == 0 or not np.isfinite(column).all():
        raise ValueError(f"{name} must be a non-empty list of finite numbers")
    return column
