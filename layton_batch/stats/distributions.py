"""Distributions: exact laws of whole numbers and sets read off them, and the quantile of the beta distribution.

The pmfs of binomial and beta-binomial counts come from the ratio of neighbouring terms, so no gamma function is needed;
those of their sums are products of Fourier transforms, whose error is about 1e-16 a point. `SLACK` absorbs that error
wherever a cumulative probability is compared with a level, so that a tie (a cdf exactly at the level) counts as
reached, always.

The beta quantile is the inverse of the regularised incomplete beta function. Importing scipy.special would cost a third
of a second at every start for it. Sources: the log gamma function by Stirling's series after a shift (NIST DLMF 5.11.1
and 5.5.1); the incomplete beta function by its continued fraction (DLMF 8.17.22) with modified Lentz evaluation
(Thompson & Barnett, J. Comput. Phys. 64, 1986); the inverse by Halley steps inside a shrinking bracket from the normal
approximation 26.5.22 of Abramowitz & Stegun.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from layton_batch.stats.strata import FloatArray, IntArray

# ---- whole numbers -------------------------------------------------------------------------------------------------


SLACK = 1e-12
MAX_LEVEL = 1 - 1e-9  # beyond it, transform error and SLACK would decide the set
_CELLS = 250_000  # [models, counts] cells worked on at once: what a processor has at hand
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

    No run holds more than the likeliest counts, as many. Where these lie side by side, as those of a law with one peak
    do, their number is the length; else it is found by bisection, since the best mass of a run grows with its length.
    """
    models, width = pmf.shape
    cdf = np.concatenate([np.zeros((models, 1)), np.cumsum(pmf, axis=1)], axis=1)
    likeliest = np.cumsum(np.sort(pmf, axis=1)[:, ::-1], axis=1)
    low = 1 + np.minimum(np.count_nonzero(likeliest < level - 2 * SLACK, axis=1), width - 1)
    mass = _run_masses(cdf, low)
    open_ = np.flatnonzero(mass.max(axis=1) < level - SLACK)
    if len(open_):
        low[open_] = _shortest_length(cdf[open_], low[open_], level)
        mass[open_] = _run_masses(cdf[open_], low[open_])
    mass[np.arange(width) + low[:, None] > width] = -1.0  # a run must lie inside the support
    start = np.argmax(mass >= mass.max(axis=1, keepdims=True) - SLACK, axis=1)
    return _with_likelier_ends(pmf, start, start + low - 1)


def _run_masses(cdf: FloatArray, length: IntArray) -> FloatArray:
    """[K, starts] mass of the run of each row's `length` from every start; `cdf` [K, counts + 1] begins with 0."""
    width = cdf.shape[1] - 1
    ends = np.minimum(np.arange(width) + length[:, None], width)
    return np.asarray(np.take_along_axis(cdf, ends, axis=1) - cdf[:, :-1])


def _shortest_length(cdf: FloatArray, least: IntArray, level: float) -> IntArray:
    """[K] length of the shortest run with mass >= `level`; each is at least `least`."""
    low, high = least, np.full(len(cdf), cdf.shape[1] - 1, dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        enough = _run_masses(cdf, middle).max(axis=1) >= level - SLACK
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return low


def _with_likelier_ends(pmf: FloatArray, first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
    """The run, stretched over every count outside that is likelier than the least likely one inside.

    Of a law with one peak nothing is. The law of a bin without labels has two, at its ends, and a run over all but
    one of them would leave out what is as likely as anything.
    """
    at = np.arange(pmf.shape[1])
    inside = (at >= first[:, None]) & (at <= last[:, None])
    least = np.where(inside, pmf, np.inf).min(axis=1, keepdims=True)
    kept = inside | (pmf > least * (1 + 1e-9) + SLACK)
    return np.argmax(kept, axis=1), pmf.shape[1] - 1 - np.argmax(kept[:, ::-1], axis=1)


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


# ---- the quantile of the beta distribution -------------------------------------------------------------------------


_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
)  # DLMF 5.11.1: B_2k / (2k (2k - 1))
_SHIFT = 10
_TINY = 1e-300
_LAST = float(np.nextafter(1.0, 0.0))
_MAX_FRACTION_TERMS = 20_000
_MAX_STEPS = 200


def gammaln(x: FloatArray) -> FloatArray:
    """log Gamma(x) for x > 0, elementwise, to about 15 digits."""
    x = np.asarray(x, dtype=np.float64)
    small = x < _SHIFT
    z = np.where(small, x + _SHIFT, x)
    ladder = np.ones_like(x)
    for i in range(_SHIFT):
        ladder = ladder * np.where(small, x + i, 1.0)
    series = np.zeros_like(z)
    for coefficient in reversed(_STIRLING):
        series = series / (z * z) + coefficient
    return np.asarray((z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + series / z - np.log(ladder))


def betaincinv(a: FloatArray, b: FloatArray, p: FloatArray) -> FloatArray:
    """The x with I_x(a, b) = p, the quantile of Beta(a, b), for a, b > 0 and 0 <= p <= 1; arguments broadcast."""
    shape = np.broadcast_shapes(*(np.shape(v) for v in (a, b, p)))
    a, b, p = (np.broadcast_to(np.asarray(v, dtype=np.float64), shape).ravel() for v in (a, b, p))
    log_beta = _log_beta(a, b)
    x = _first_guess(a, b, p)
    low, high = np.zeros_like(x), np.ones_like(x)
    live = np.flatnonzero((p > 0) & (p < 1))
    for _ in range(_MAX_STEPS):
        if len(live) == 0:
            break
        step, below = _halley(a[live], b[live], p[live], x[live], log_beta[live])
        low[live] = np.where(below, x[live], low[live])
        high[live] = np.where(below, high[live], x[live])
        new = x[live] - step
        inside = (new >= low[live]) & (new <= high[live])
        x[live] = np.clip(np.where(inside, new, (low[live] + high[live]) / 2), _TINY, _LAST)
        settled = np.abs(step) <= 1e-12 * np.minimum(new, 1 - new) + 1e-300  # third order: the next step is noise
        closed = high[live] - low[live] <= 4e-16 * x[live]
        live = live[~(inside & settled | closed)]
    x = np.where(p <= 0, 0.0, np.where(p >= 1, 1.0, x))
    return x.reshape(shape)


def _log_beta(a: FloatArray, b: FloatArray) -> FloatArray:
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def _betainc(a: FloatArray, b: FloatArray, x: FloatArray, log_beta: FloatArray) -> FloatArray:
    """I_x(a, b), the cdf of Beta(a, b) at x, for a, b > 0 and 0 <= x <= 1."""
    swap = x > (a + 1) / (a + b + 2)
    u, v, y = np.where(swap, b, a), np.where(swap, a, b), np.where(swap, 1 - x, x)
    with np.errstate(divide="ignore"):
        front = np.exp(u * np.log(y) + v * np.log1p(-y) - log_beta) / u
    part = front * _fraction(u, v, y)
    part = np.where(y <= 0, 0.0, part)
    return np.clip(np.where(swap, 1 - part, part), 0.0, 1.0)


def _fraction(a: FloatArray, b: FloatArray, x: FloatArray) -> FloatArray:
    """Continued fraction of DLMF 8.17.22; converges in O(sqrt(max(a, b))) terms on the side `_betainc` picks."""
    shape = x.shape
    a, b, x = (np.ravel(v) for v in (a, b, x))
    out: FloatArray = np.ones_like(x)
    live: IntArray = np.arange(len(x))
    c: FloatArray = np.ones_like(x)
    d: FloatArray = 1 / _away(1 - (a + b) * x / (a + 1))
    value: FloatArray = d.copy()
    for m in range(1, _MAX_FRACTION_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _away(1 + even * d), _away(1 + even / c)
        value = value * d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _away(1 + odd * d), _away(1 + odd / c)
        value = value * d * c
        going = np.abs(d * c - 1) >= 4e-15
        if 2 * np.count_nonzero(going) <= len(live):  # a few slow elements must not cost a pass over all of them
            out[live] = value
            if not going.any():
                return out.reshape(shape)
            live = live[going]
            a, b, x, c, d, value = (v[going] for v in (a, b, x, c, d, value))
    raise ArithmeticError("incomplete beta function: the continued fraction did not settle")  # a, b beyond 1e8


def _away(x: FloatArray) -> FloatArray:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _halley(
    a: FloatArray, b: FloatArray, p: FloatArray, x: FloatArray, log_beta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Step towards the root and whether x lies below it."""
    miss = _betainc(a, b, x, log_beta) - p
    with np.errstate(over="ignore", under="ignore"):
        slope = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - log_beta)
    newton = miss / np.maximum(slope, _TINY)
    curve = (a - 1) / x - (b - 1) / (1 - x)
    return newton / np.maximum(1 - 0.5 * np.clip(newton * curve, -1, 1), 0.5), np.asarray(miss < 0)


def _first_guess(a: FloatArray, b: FloatArray, p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        t = np.sqrt(-2 * np.log(np.where(p < 0.5, p, 1 - p)))
        z = (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)) - t  # A&S 26.2.22
        z = np.where(p < 0.5, -z, z)
        k = (z * z - 3) / 6
        h = 2 / (1 / (2 * a - 1) + 1 / (2 * b - 1))
        w = z * np.sqrt(k + h) / h - (1 / (2 * b - 1) - 1 / (2 * a - 1)) * (k + 5 / 6 - 2 / (3 * h))
        normal = a / (a + b * np.exp(2 * w))
    usable = (a >= 1) & (b >= 1) & np.isfinite(normal)
    return np.clip(np.where(usable, normal, a / (a + b)), 1e-12, 1 - 1e-12)
