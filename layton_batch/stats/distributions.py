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


def shortest_set(pmf: FloatArray, level: float) -> tuple[int, int]:
    """First and last count of the shortest run with mass >= `level`; ties: most mass, then the smallest start.

    The run is stretched over every count outside that is likelier than the least likely count inside. Of a law with one
    peak there is none. The law of a bin without labels has two, at its ends, and a run over all but one of them would
    leave out what is as likely as anything.
    """
    cdf = np.concatenate([[0.0], np.cumsum(pmf)])
    starts = np.arange(len(pmf))
    length = np.searchsorted(cdf, cdf[:-1] + level - SLACK) - starts
    starts = starts[length + starts <= len(pmf)]  # the run that begins later would not reach the level
    shortest = int(length[starts].min())
    starts = starts[starts + shortest <= len(pmf)]
    mass = cdf[starts + shortest] - cdf[starts]
    first = int(starts[mass >= mass.max() - SLACK][0])
    is_in = pmf > pmf[first : first + shortest].min() * (1 + 1e-9) + SLACK
    is_in[first : first + shortest] = True
    counts = np.flatnonzero(is_in)
    return int(counts[0]), int(counts[-1])


def long_tailed_set(pmf: FloatArray, level: float) -> tuple[int, int]:
    """First and last count of the shortest set, stretched to where it leaves out as much on either side.

    The shortest set leaves a long tail out, and the set that leaves out as much on either side the likeliest end.
    """
    first, last = shortest_set(pmf, level)
    low, high = np.searchsorted(np.cumsum(pmf), [(1 - level) / 2 - SLACK, (1 + level) / 2 - SLACK])
    return min(first, int(low)), min(max(last, int(high)), len(pmf) - 1)


# ---- intervals -----------------------------------------------------------------------------------------------------


def hypergeometric_test(number: IntArray, drawn: IntArray, marked: IntArray, total: IntArray) -> FloatArray:
    """Chance that a number as unlikely as this ``number`` of the ``marked`` among all is ``drawn`` at random: the exact
    two-sided test. The arrays are broadcast against each other."""
    from scipy import special

    def log_choose(n: IntArray, k: IntArray) -> FloatArray:
        is_there = (k >= 0) & (k <= n)
        among = np.where(is_there, k, 0)
        return np.where(is_there, -np.log1p(n) - special.betaln(n - among + 1, among + 1), -np.inf)

    number, drawn, marked, total = (array[..., None] for array in np.broadcast_arrays(number, drawn, marked, total))
    every = np.arange(int(drawn.max(initial=0)) + 1)
    law = np.exp(log_choose(marked, every) + log_choose(total - marked, drawn - every) - log_choose(total, drawn))
    same = np.take_along_axis(law, number, axis=-1)
    return np.asarray((law * (law <= same * (1 + 1e-9))).sum(axis=-1))


def exact_sign_test(first: int, second: int) -> float:
    """The two-sided p-value of so many changes one way and so many the other way, where each way is as likely.

    1 without any change.
    """
    if not first + second:
        return 1.0
    from scipy import special  # scipy.stats has this test, and takes a second longer to load

    return min(1.0, 2 * float(special.bdtr(min(first, second), first + second, 0.5)))


def two_sided_quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval, in standard errors: 1.96 for 0.95."""
    check_level(level)
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
