"""The layton-eval paper's score, interval and printed form: exact, the limit of its bootstrap for infinitely many
draws.

The reference draws, for each vote bin, as many labels of other providers as the model has items there, and feeds them
to PPI++ (`ppi_mean_pointestimate` of ppi-python, tuned lambda). With a label in every bin, both mean votes are equal,
lambda drops out, and one draw is exactly sum_b Binomial(n_b, h_b / m_b) / n: its law is a convolution of binomials. A
bin without labels is silently dropped by the reference; the gold sample is then shorter and lambda matters. That law
is enumerated here too, and the row is flagged. Items no judge saw are NaN there; here they are a bin like any other.

The interval treats h_b / m_b as known and is no interval for a model's ability. Binary metrics only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.counts import Counts, FloatArray, IntArray, fewest_labels, label_flags
from layton_batch.stats.distributions import SLACK

LOW, HIGH = 0.025, 0.975
NO_LABEL = "no human label of another provider has a vote that any of this model's items has"
_LEAST_CHANCE = 1e-15  # of a number of positives in a bin that is enumerated


@dataclass(frozen=True, slots=True)
class PaperScore:
    """One model's row. `score` and `half_width` are percent as the paper prints them; `lower`, `upper`, `mean`
    fractions.

    `score` is the middle of the two percentiles, not the mean. All five are None where the last of `flags` says why.
    `borrowed_labels`: labels of other makers behind the model's votes; `fewest_labels_per_vote`: the fewest behind one.
    """

    borrowed_labels: int
    fewest_labels_per_vote: int | None
    flags: tuple[str, ...]
    score: float | None = None
    half_width: float | None = None
    lower: float | None = None
    upper: float | None = None
    mean: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GoldBins:
    """One model's answers and the labels behind them by share of yes, as the paper has them: 1 of 1 and 3 of 3 are one
    bin.

    `yes`, `total` [B] in lowest terms; `n` [B] answers; `labels`, `positives` [B] of other makers' models;
    `known_zeros`: answers that are wrong without a jury.
    """

    yes: IntArray
    total: IntArray
    n: IntArray
    labels: IntArray
    positives: IntArray
    known_zeros: int


def gold_bins(counts: Counts) -> list[GoldBins]:
    """Return the bins of each model, of which the model has answers."""
    _, first, bin_of = np.unique(counts.share, return_index=True, return_inverse=True)
    is_in = (bin_of[:, None] == np.arange(len(first))).astype(np.int64)
    divisor = np.maximum(np.gcd(counts.yes[first], counts.total[first]), 1)
    yes, total = counts.yes[first] // divisor, counts.total[first] // divisor
    bins = []
    for model in range(counts.models):
        is_other = counts.maker != counts.maker[model]
        labels, positives = (table[is_other].sum(axis=0) @ is_in for table in (counts.labels, counts.positives))
        n = counts.votes[model] @ is_in
        at, zeros = np.flatnonzero(n), int(counts.known_zeros[model])
        bins.append(GoldBins(yes[at], total[at], n[at], labels[at], positives[at].astype(np.int64), zeros))
    return bins


def paper_scores(counts: Counts) -> tuple[PaperScore, ...]:
    """Score every model."""
    return tuple(
        _scored(bins, unjudged) for bins, unjudged in zip(gold_bins(counts), counts.unjudged.tolist(), strict=True)
    )


def _scored(bins: GoldBins, unjudged: int) -> PaperScore:
    n, labels = bins.n[None], bins.labels[None]
    row = PaperScore(
        borrowed_labels=int(bins.labels.sum()),
        fewest_labels_per_vote=fewest_labels(n, labels)[0],
        flags=label_flags(n, labels, np.array([unjudged]))[0],
    )
    if len(bins.n) and not bins.labels.any():
        return replace(row, flags=(*row.flags, NO_LABEL))
    usable = np.flatnonzero(bins.labels)
    size = int(bins.n[usable].sum())
    items = size + bins.known_zeros
    # answers without a verdict and a label leave votes and labels alike: lambda cancels, and only the divisor shrinks
    lambda_matters = bool((bins.total[bins.labels == 0] > 0).any())
    if lambda_matters:
        values, chances = _law_of_ppi(bins, usable)
    else:
        chances = distributions.sum_pmf([_binomial(bins, b) for b in usable.tolist()], size)[0]
        values = np.arange(len(chances)) / items
    reached = np.cumsum(chances)
    low, high = (min(int(np.searchsorted(reached, share - SLACK)), len(reached) - 1) for share in (LOW, HIGH))
    lower, upper = float(values[low]), float(values[high])
    score, half_width = printed_from_fractions(lower, upper) if lambda_matters else printed(low, high, items)
    return replace(row, score=score, half_width=half_width, lower=lower, upper=upper, mean=float(values @ chances))


def printed(low: int, high: int, items: int) -> tuple[float, float]:
    """The paper's printed score and half width (percent) from the percentiles as counts of `items`.

    The reference computes np.round((U+L)/2*100, 1) and (np.floor((U-L)/2*100*10)+1)/10. From integers the results are
    the same, except where they are exact ties, which the reference leaves to the last bit of a float; here a tie
    rounds to even.
    """
    return round(Fraction((low + high) * 500, items)) / 10, ((high - low) * 500 // items + 1) / 10


def printed_from_fractions(lower: float, upper: float) -> tuple[float, float]:
    """The reference's own two lines, in float64 and in its order, for percentiles that are no fractions of n."""
    score = float(np.round((upper + lower) / 2 * 100, 1))
    return score, float((np.floor((upper - lower) / 2 * 100 * 10) + 1) / 10)


# ---- a bin without labels ------------------------------------------------------------------------------------------


def ppi_estimate(bins: GoldBins, positives: IntArray, votes: FloatArray) -> FloatArray:
    """Return the estimates of PPI++ of one model for drawn `positives`, whose shares of yes add up to `votes`.

    Equal shapes in and out. Answers without a verdict that have labels vote 0 in both samples, and so do known zeros.
    """
    share, zeros = bins.yes / np.maximum(bins.total, 1), bins.known_zeros
    in_gold = np.where(bins.labels > 0, bins.n, 0)
    in_target = np.where((bins.total > 0) | (in_gold > 0), bins.n, 0)
    gold, target = int(in_gold.sum()) + zeros, int(in_target.sum()) + zeros
    mean_gold, mean_target = float(in_gold @ share) / gold, float(in_target @ share) / target
    both = in_gold + in_target
    mean = float(both @ share) / (gold + target)
    spread = float(both @ (share - mean) ** 2) + 2 * zeros * mean**2
    rate = positives / gold
    if abs(mean_gold - mean_target) < SLACK or spread <= 0:
        return np.asarray(rate)
    scale = (1 + gold / target) * spread / (gold + target - 1)
    tuned = np.clip((votes / gold - rate * mean_gold) / scale, 0, 1)
    return np.asarray(rate + tuned * (mean_target - mean_gold))


def _law_of_ppi(bins: GoldBins, usable: IntArray) -> tuple[FloatArray, FloatArray]:
    """Values of the estimate, rising, and their chances, from the joint law of positives and their votes.

    `usable`: the bins with labels.
    """
    total = np.maximum(bins.total[usable], 1)
    unit = int(np.lcm.reduce(total))
    law, first = np.ones((1, 1)), np.zeros(2, dtype=np.int64)
    for b, weight in zip(usable.tolist(), (bins.yes[usable] * (unit // total)).tolist(), strict=True):
        pmf = _binomial(bins, b)
        support = np.flatnonzero(pmf > _LEAST_CHANCE)
        start, span = int(support[0]), int(support[-1] - support[0])
        first += start * np.array([1, weight])
        wider = np.zeros((law.shape[0] + span, law.shape[1] + span * weight))
        for more in range(span + 1):
            wider[more : more + law.shape[0], more * weight : more * weight + law.shape[1]] += pmf[start + more] * law
        law = wider
    positives, votes = np.nonzero(law)
    values = ppi_estimate(bins, positives + first[0], (votes + first[1]) / unit)
    order = np.argsort(values, kind="stable")
    return values[order], law[positives, votes][order]


def _binomial(bins: GoldBins, b: int) -> FloatArray:
    """[n + 1] law of the positives in one bin."""
    from scipy import stats

    n = int(bins.n[b])
    return np.asarray(stats.binom.pmf(np.arange(n + 1), n, bins.positives[b] / bins.labels[b]))
