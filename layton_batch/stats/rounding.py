"""From fractions to printed percent: the only place where a score is rounded."""

from __future__ import annotations

import math

_NOISE = 1e-9  # a fraction such as 157/200 must not fall a tenth short because it is not exact in binary


def floor_tenth(fraction: float) -> float:
    """Percent rounded down to one decimal: for lower ends, which may only move outwards."""
    return math.floor(fraction * 1000 + _NOISE) / 10


def ceil_tenth(fraction: float) -> float:
    """Percent rounded up to one decimal: for upper ends."""
    return math.ceil(fraction * 1000 - _NOISE) / 10


def round_tenth(fraction: float) -> float:
    """Percent rounded to one decimal, half to even, as numpy and Python do: for point estimates."""
    return round(fraction * 100, 1)
