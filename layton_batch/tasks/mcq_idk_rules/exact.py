"""Exact (Clopper-Pearson) bounds of a share, from the binomial law itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEPS = 60


def share_bounds(count: int, n: int, level: float = 0.95) -> tuple[float, float] | None:
    """Bounds of the share behind ``count`` of ``n``, each wrong with half of 1 - level at most; None for n = 0."""
    if not n:
        return None
    tail = (1 - level) / 2
    lower = _reaching(count, n, tail) if count else 0.0
    upper = _reaching(count + 1, n, 1 - tail) if count < n else 1.0
    return lower, upper


def _reaching(count: int, n: int, chance: float) -> float:
    """The share at which ``count`` or more of ``n`` have this chance, by bisection: the chance grows with the share."""
    import numpy as np

    hits = np.arange(n + 1)
    log_ways = np.concatenate([np.zeros(1), np.cumsum(np.log((n - hits[:-1]) / hits[1:]))])
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_least(count, hits, log_ways, middle) < chance else (low, middle)
    return (low + high) / 2


def _at_least(count: int, hits: NDArray[np.int64], log_ways: NDArray[np.float64], share: float) -> float:
    import numpy as np

    logs = log_ways + hits * np.log(share) + hits[::-1] * np.log1p(-share)
    return float(np.exp(logs[count:]).sum())
