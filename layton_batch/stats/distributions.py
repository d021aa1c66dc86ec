"""Distributions: laws of whole numbers and sets read off them, and quantiles. The distributions are those of scipy.

The pmfs of sums of counts are products of Fourier transforms, whose error is about 1e-16 a point. `SLACK` absorbs that
error wherever a cumulative probability is compared with a level, so that a tie (a cdf exactly at the level) counts as
reached, always. scipy is imported in the functions: commands that score nothing do not wait half a second for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from layton_batch.stats.counts import FloatArray, IntArray

# ---- whole numbers -------------------------------------------------------------------------------------------------


SLACK = 1e-12
MAX_LEVEL = 1 - 1e-9  # beyond it, transform error and SLACK would decide the set


def check_level(level: float) -> None:
    """Refuse levels no set on a lattice can honour; raises ValueError."""
    if not 0 < level <= MAX_LEVEL:
        raise ValueError(
            f"level must lie above 0 and at most at 1 - 1e-9, not {level!r}: certainty needs labels, not a level"
        )


def binomial_pmf(trials: IntArray, positives: FloatArray, negatives: FloatArray) -> FloatArray:
    """[K, max trials + 1] pmf of Binomial(trials, positives / (positives + negatives)); zero beyond each row's trials.

    A row without trials is a unit mass at 0, whatever its rate.
    """
    from scipy import stats

    rate = positives / np.maximum(positives + negatives, 1e-300)
    return np.asarray(stats.binom.pmf(_counts(trials), trials[:, None], rate[:, None]))


def beta_binomial_pmf(trials: IntArray, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """[..., K, max trials + 1] pmf of BetaBinomial(trials, alpha, beta); zero beyond each row's trials [K]. `alpha` and
    `beta` [..., K] are above 0."""
    from scipy import special  # scipy.stats has the same formula, and takes a second longer to load

    count, n, a, b = _counts(trials), trials[:, None], alpha[..., None], beta[..., None]
    rest = np.maximum(n - count, 0)
    logs = special.betaln(count + a, rest + b) - special.betaln(a, b) - special.betaln(rest + 1, count + 1)
    pmf = np.where(count <= n, np.exp(logs), 0.0)
    return np.asarray(pmf / pmf.sum(axis=-1, keepdims=True))


def _counts(trials: IntArray) -> IntArray:
    return np.arange(int(trials.max(initial=0)) + 1)


def sum_pmf(terms: Sequence[FloatArray], size: int) -> FloatArray:
    """[..., size + 1] pmf of the sum of independent counts, one [..., .] pmf a term; `size` bounds the sum."""
    from scipy import fft

    length = fft.next_fast_len(size + 1, real=True)
    product = np.ones((1, length // 2 + 1), dtype=np.complex128)
    for term in terms:
        product = product * np.fft.rfft(term, length)
    pmf = np.fft.irfft(product, length)[..., : size + 1]
    return np.maximum(pmf, 0.0)


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


def long_tailed_set(pmf: FloatArray, level: float) -> tuple[IntArray, IntArray]:
    """First and last count, [K] each, of the shortest set, stretched to where it leaves out as much on either side.

    The shortest set leaves a long tail out, and the set that leaves out as much on either side the likeliest end.
    """
    first, last = shortest_set(pmf, level)
    low, high = quantile(pmf, (1 - level) / 2), quantile(pmf, (1 + level) / 2)
    return np.minimum(first, low), np.maximum(last, high)


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
    included = inside | (pmf > least * (1 + 1e-9) + SLACK)
    return np.argmax(included, axis=1), pmf.shape[1] - 1 - np.argmax(included[:, ::-1], axis=1)


# ---- intervals -----------------------------------------------------------------------------------------------------


def exact_sign_test(first: int, second: int) -> float:
    """The two-sided p-value of so many changes one way and so many the other way, where each way is as likely.

    1 without any change.
    """
    if not first + second:
        return 1.0
    from scipy import special  # scipy.stats has this test, and takes a second longer to load

    return min(1.0, 2 * float(special.bdtr(min(first, second), first + second, 0.5)))


def two_sided_quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval, in standard errors: 1.96 for 0.95.

    Raises ValueError for a level not in (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}")
    return NormalDist().inv_cdf((1 + level) / 2)


def two_sided_t_quantile(level: float, freedom: int) -> float:
    """Return how many standard errors an estimated one reaches on both sides, with ``freedom`` degrees of freedom."""
    from scipy import special

    return float(special.stdtrit(freedom, (1 + level) / 2))


def beta_quantile(level: float, a: FloatArray, b: FloatArray) -> FloatArray:
    """The x at which the cumulative distribution of Beta(a, b) is `level`, elementwise, for a, b above 0."""
    from scipy import special

    return np.asarray(special.betaincinv(a, b, level), dtype=np.float64)


def beta_interval(level: float, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends of the equal-tailed intervals of Beta(a, b) that hold `level`, elementwise."""
    return beta_quantile((1 - level) / 2, a, b), beta_quantile((1 + level) / 2, a, b)


def jeffreys_interval(positives: int, labels: int, level: float = 0.95) -> tuple[float, float]:
    """Jeffreys' interval for a rate; its end is 0 or 1 where nothing or everything is positive."""
    lower, upper = beta_interval(level, np.array([positives + 0.5]), np.array([labels - positives + 0.5]))
    return 0.0 if positives == 0 else float(lower[0]), 1.0 if positives == labels else float(upper[0])


def beta_mixture_quantiles(
    levels: Sequence[float], chance: FloatArray, alpha: FloatArray, beta: FloatArray
) -> list[FloatArray]:
    """[K] the x at which the mixture of Beta distributions [K, N] with these chances reaches a level, for each level.

    The chances of a mixture add up to 1.
    """
    from scipy import special

    ends = []
    for level in levels:
        low, high = np.zeros(len(chance)), np.ones(len(chance))
        for _ in range(40):
            middle = (low + high) / 2
            is_below = (chance * special.betainc(alpha, beta, middle[:, None])).sum(axis=1) < level
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        ends.append((low + high) / 2)
    return ends
