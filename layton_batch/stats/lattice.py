"""Exact laws of whole numbers: pmfs of binomial and beta-binomial counts, of their sums, and sets read off them.

The pmfs come from the ratio of neighbouring terms, so no gamma function is needed; sums are products of Fourier
transforms, whose error is about 1e-16 a point. `SLACK` absorbs that error wherever a cumulative probability is
compared with a level, so that a tie (a cdf exactly at the level) counts as reached, always.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layton_batch.stats.strata import FloatArray, IntArray

SLACK = 1e-12
MAX_LEVEL = 1 - 1e-9  # beyond it, transform error and SLACK would decide the set
_CELLS = 1_000_000  # [models, counts] cells worked on at once: keeps 100,000 models within tens of megabytes
_BIG = 1e4  # log odds that stand for certainty: exp(-_BIG) is exactly 0


def check_level(level: float) -> None:
    """Refuse levels no set on a lattice can honour; raises ValueError."""
    if not 0 < level <= MAX_LEVEL:
        raise ValueError(
            f"level must lie above 0 and at most at 1 - 1e-9, not {level!r}: certainty needs labels, not a level"
        )


def binomial_pmf(trials: IntArray, positives: FloatArray, negatives: FloatArray) -> FloatArray:
    """[K, max trials + 1] pmf of Binomial(trials, positives / (positives + negatives)); zero beyond each row's trials.

    Rates 0 and 1 are exact. A row without trials is a unit mass at 0, whatever its rate.
    """
    y, left = _steps(trials)
    with np.errstate(divide="ignore"):
        odds = np.log(positives / np.where(negatives > 0, negatives, 1))
    odds = np.clip(np.where(negatives > 0, odds, _BIG), -_BIG, _BIG)
    return _from_ratios(np.log(np.maximum(left, 1) / (y + 1)) + odds[:, None], left)


def beta_binomial_pmf(trials: IntArray, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """[K, max trials + 1] pmf of BetaBinomial(trials, alpha, beta), both above 0; zero beyond each row's trials."""
    y, left = _steps(trials)
    room = np.maximum(left, 1)
    ratio = room * (y + alpha[:, None]) / ((y + 1) * (room - 1 + beta[:, None]))
    return _from_ratios(np.log(ratio), left)


def _steps(trials: IntArray) -> tuple[FloatArray, FloatArray]:
    y = np.arange(int(trials.max(initial=0)), dtype=np.float64)
    return y, trials[:, None] - y


def _from_ratios(log_ratio: FloatArray, left: FloatArray) -> FloatArray:
    """Normalised pmf from log p(y+1) - log p(y); steps with nothing left end the support."""
    steps = np.where(left > 0, log_ratio, -np.inf)
    logs = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True), dtype=np.float64)


def sum_pmf(terms: Sequence[FloatArray], size: int) -> FloatArray:
    """[K, size + 1] pmf of the sum of independent counts, one [K, .] pmf a term; `size` bounds the sum."""
    length = _fast_length(size + 1)
    product = np.ones((1, length // 2 + 1), dtype=np.complex128)
    for term in terms:
        product = product * np.fft.rfft(term, length, axis=1)
    pmf = np.fft.irfft(product, length, axis=1)[:, : size + 1]
    return np.maximum(pmf, 0.0)


def _fast_length(least: int) -> int:
    power = 1 << max(least - 1, 1).bit_length()
    return min(c for c in (power, power * 9 // 16, power * 5 // 8, power * 3 // 4, power * 15 // 16) if c >= least)


def quantile(pmf: FloatArray, level: float) -> IntArray:
    """[K] smallest count whose cumulative probability reaches `level`."""
    reached = np.cumsum(pmf, axis=1) >= level - SLACK
    reached[:, -1] = True
    return np.asarray(np.argmax(reached, axis=1))


def shortest_set(pmf: FloatArray, level: float) -> tuple[IntArray, IntArray]:
    """First and last count, [K] each, of the shortest run with mass >= `level`; ties: most mass, then the smallest
    start.

    The best mass of a run grows with its length, so the length is found by bisection, for all rows at once.
    """
    models, width = pmf.shape
    cdf = np.concatenate([np.zeros((models, 1)), np.cumsum(pmf, axis=1)], axis=1)
    starts = np.arange(width)

    def masses(length: IntArray) -> FloatArray:
        ends = np.minimum(starts + length[:, None], width)
        return np.asarray(np.take_along_axis(cdf, ends, axis=1) - cdf[:, :-1])

    low, high = np.ones(models, dtype=np.int64), np.full(models, width, dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        enough = masses(middle).max(axis=1) >= level - SLACK
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    mass = masses(low)
    mass[starts + low[:, None] > width] = -1.0  # a run must lie inside the support
    start = np.argmax(mass >= mass.max(axis=1, keepdims=True) - SLACK, axis=1)
    return start, start + low - 1


def chunks(sizes: IntArray) -> list[IntArray]:
    """Model indices in groups of like size, each small enough for one [models, counts] array."""
    order = np.argsort(sizes, kind="stable")
    parts: list[IntArray] = []
    at = len(order)
    while at > 0:  # from the largest down: its size sets the width of the chunk
        rows = max(1, _CELLS // (int(sizes[order[at - 1]]) + 1))
        parts.append(order[max(0, at - rows) : at])
        at -= rows
    return parts
