"""Exact (Clopper-Pearson) bounds of a share, without a statistics library: the rules stand by themselves."""

from __future__ import annotations

from math import exp, lgamma, log, log1p

_STEPS, _TERMS, _TINY = 60, 10_000, 1e-300


def share_bounds(count: int, n: int, level: float = 0.95) -> tuple[float, float] | None:
    """Bounds of the share behind ``count`` of ``n``, each wrong with half of 1 - level at most; None for n = 0."""
    if not n:
        return None
    tail = (1 - level) / 2
    lower = _quantile(tail, count, n - count + 1) if count else 0.0
    upper = _quantile(1 - tail, count + 1, n - count) if count < n else 1.0
    return lower, upper


def _quantile(p: float, a: float, b: float) -> float:
    """Of the Beta(a, b) law, by bisection: its distribution function grows."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _cumulative(middle, a, b) < p else (low, middle)
    return (low + high) / 2


def _cumulative(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function; the continued fraction converges fast on this side of the mean."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _cumulative(1 - x, b, a)
    if x <= 0:
        return 0.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    return front / a / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + …)) by Lentz' method (Abramowitz and Stegun 26.5.8)."""
    value = c = 1.0
    d = 0.0
    for term in range(1, _TERMS):
        m = term // 2
        if term % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + step * d or _TINY)
        c = 1 + step / c or _TINY
        value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value
