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

from dataclasses import dataclass

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.counts import BoolArray, Counts, Flag, FloatArray, IntArray, fewest_labels, label_flags

LOW, HIGH = 0.025, 0.975
FALLBACK_DRAWS = 200_000
_MAX_WORK = 30_000_000


@dataclass(frozen=True, slots=True)
class PaperScore:
    """One model's row. `score` and `half_width` are percent as the paper prints them; `lower`, `upper`, `mean`
    fractions.

    `score` is the middle of the two percentiles, not the mean. All five are None where `reason` says why.
    `borrowed_labels`: labels of other makers behind the model's votes; `smallest_gold_bin`: the fewest behind one.
    """

    score: float | None
    half_width: float | None
    lower: float | None
    upper: float | None
    mean: float | None
    items: int
    borrowed_labels: int
    smallest_gold_bin: int | None
    flags: tuple[Flag, ...]
    reason: str | None


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Counts by share of yes, as the paper has them: 1 of 1 and 3 of 3 are one bin.

    `yes`, `total` [B] in lowest terms; `n` [K, B] predictions; `labels`, `positives` [K, B] of other makers' models;
    `known_zeros` and `items` [K].
    """

    yes: IntArray
    total: IntArray
    n: IntArray
    labels: IntArray
    positives: IntArray
    known_zeros: IntArray
    items: IntArray

    @classmethod
    def of(cls, counts: Counts) -> _Pool:
        _, first, bin_of = np.unique(counts.share, return_index=True, return_inverse=True)
        is_in = (bin_of[:, None] == np.arange(len(first))).astype(np.int64)
        of_maker = (np.arange(int(counts.maker.max(initial=0)) + 1)[:, None] == counts.maker).astype(np.int64)
        maker = counts.maker[: counts.models]
        labels, positives = (
            (table.sum(axis=0) - (of_maker @ table)[maker]) @ is_in for table in (counts.labels, counts.positives)
        )
        divisor = np.maximum(np.gcd(counts.yes[first], counts.total[first]), 1)
        yes, total = counts.yes[first] // divisor, counts.total[first] // divisor
        n = counts.votes[: counts.models] @ is_in
        return cls(yes, total, n, labels, positives, counts.known_zeros, counts.items)


def paper_scores(counts: Counts, *, seed: int = 0, draws: int = FALLBACK_DRAWS) -> tuple[PaperScore, ...]:
    """Score every model.

    `seed` and `draws` matter only to a model with an empty gold bin and thousands of items, whose law is too large to
    enumerate; its row carries `Flag.MONTE_CARLO`.
    """
    pool = _Pool.of(counts)
    flags = label_flags(pool.n, pool.labels, counts.unjudged)
    least = fewest_labels(pool.n, pool.labels)
    behind = np.where(pool.n > 0, pool.labels, 0).sum(axis=1).tolist()
    gaps = _gaps(pool)
    effective, dropped = _effective_items(pool)
    whole = np.array([g is None for g in gaps], dtype=np.bool_) & ~dropped
    low, high, mean = _exact(pool, effective, np.flatnonzero(whole))
    rows: list[PaperScore] = []
    printed_score, printed_width = printed(low, high, np.maximum(effective, 1))
    for i, gap in enumerate(gaps):
        tail = (int(pool.items[i]), behind[i], least[i])
        if gap is not None:
            rows.append(PaperScore(None, None, None, None, None, *tail, flags[i], gap))
        elif whole[i]:
            n = int(effective[i])
            numbers = (
                float(printed_score[i]),
                float(printed_width[i]),
                int(low[i]) / n,
                int(high[i]) / n,
                float(mean[i]),
            )
            rows.append(PaperScore(*numbers, *tail, flags[i], None))
        else:
            rows.append(_short_gold_score(pool, i, tail, flags[i], seed, draws))
    return tuple(rows)


def printed(low: IntArray, high: IntArray, items: IntArray) -> tuple[FloatArray, FloatArray]:
    """The paper's printed score and half width (percent) from the percentiles as counts of `items`, all [K].

    The reference computes np.round((U+L)/2*100, 1) and (np.floor((U-L)/2*100*10)+1)/10. From integers the results are
    the same, except where they are exact ties, which the reference leaves to the last bit of a float; here a tie
    rounds to even.
    """
    whole, rest = np.divmod((low + high) * 500, items)
    up = (2 * rest > items) | ((2 * rest == items) & (whole % 2 == 1))
    return (whole + up) / 10, ((high - low) * 500 // items + 1) / 10


def printed_from_fractions(lower: float, upper: float) -> tuple[float, float]:
    """The reference's own two lines, in float64 and in its order, for percentiles that are no fractions of n."""
    score = float(np.round((upper + lower) / 2 * 100, 1))
    return score, float((np.floor((upper - lower) / 2 * 100 * 10) + 1) / 10)


def paper_draws(counts: Counts, model: int, *, seed: int, draws: int) -> FloatArray:
    """[draws] bootstrap estimates (fractions) of one model by the reference's law, empty gold bins included.

    The Monte Carlo twin of `paper_scores`. Raises ValueError for a model without a usable label.
    """
    pool = _Pool.of(counts)
    if (gap := _gaps(pool)[model]) is not None:
        raise ValueError(f"model {model}: {gap}")
    return _draws(pool, model, seed, draws)


def _draws(pool: _Pool, model: int, seed: int, draws: int) -> FloatArray:
    use = _usable(pool)[model]
    rng = np.random.default_rng(seed)
    rate = pool.positives[model, use] / pool.labels[model, use]
    counts = rng.binomial(pool.n[model, use], rate, size=(draws, int(use.sum())))
    weight, unit = _vote_weights(pool, use)
    return _Ppi.of(pool, model).estimate(counts.sum(axis=1), counts @ weight, unit)


def _gaps(pool: _Pool) -> list[str | None]:
    unknown = np.asarray(pool.n.any(axis=1))
    helped = np.asarray(_usable(pool).any(axis=1))
    unlabelled = "no human label of another provider has a vote that any of this model's items has"
    return [unlabelled if u and not ok else None for u, ok in zip(unknown.tolist(), helped.tolist(), strict=True)]


def _usable(pool: _Pool) -> BoolArray:
    return np.asarray((pool.n > 0) & (pool.labels > 0))


def _effective_items(pool: _Pool) -> tuple[IntArray, BoolArray]:
    """Items the estimate is a mean over, and whether a *judged* bin was dropped.

    Unjudged items without a label leave both votes and labels, so lambda still cancels: only the divisor shrinks.
    """
    empty = (pool.n > 0) & (pool.labels == 0)
    judged = pool.total > 0
    lost = np.where(empty & ~judged, pool.n, 0).sum(axis=1)
    return pool.items - lost, (empty & judged).any(axis=1)


def _exact(pool: _Pool, effective: IntArray, models: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Percentiles as counts and means as fractions, [K]; zero for models not asked for."""
    low, high = (np.zeros(len(pool.items), dtype=np.int64) for _ in range(2))
    mean = np.zeros(len(pool.items))
    use = _usable(pool)
    n = np.where(use, pool.n, 0)
    terms = []
    for b in np.flatnonzero(n[models].any(axis=0)):
        positives, labels = pool.positives[models, b], pool.labels[models, b]
        terms.append(
            distributions.binomial_pmf(n[models, b], positives.astype(float), (labels - positives).astype(float))
        )
    pmf = distributions.sum_pmf(terms, int(n[models].sum(axis=1).max(initial=0)))
    low[models], high[models] = distributions.quantile(pmf, LOW), distributions.quantile(pmf, HIGH)
    total = (n * pool.positives / np.maximum(pool.labels, 1)).sum(axis=1)
    mean[models] = total[models] / effective[models]
    return low, high, mean


@dataclass(frozen=True, slots=True)
class _Ppi:
    """PPI++ of one model as a function of the drawn positives; all else is fixed by the bins.

    `gold`: length of the gold sample; `mean_gold`, `mean_target`: mean votes; `scale`: (1 + gold/target) times the
    variance of both vote vectors laid end to end (ddof 1), the denominator of lambda.
    """

    gold: int
    mean_gold: float
    mean_target: float
    scale: float

    @classmethod
    def of(cls, pool: _Pool, model: int) -> _Ppi:
        # unjudged items that have labels vote 0 in both samples
        vote = pool.yes / np.maximum(pool.total, 1)
        in_gold = np.where(_usable(pool)[model], pool.n[model], 0)
        in_target = np.where((pool.total > 0) | (in_gold > 0), pool.n[model], 0)
        zeros = int(pool.known_zeros[model])  # a vote of 0 and an outcome of 0, in both samples
        gold, target = int(in_gold.sum()) + zeros, int(in_target.sum()) + zeros
        both = in_gold + in_target
        mean = float((both * vote).sum()) / (gold + target)
        spread = float((both * (vote - mean) ** 2).sum()) + 2 * zeros * mean**2
        return cls(
            gold=gold,
            mean_gold=float((in_gold * vote).sum()) / gold,
            mean_target=float((in_target * vote).sum()) / target,
            scale=(1 + gold / target) * spread / (gold + target - 1),
        )

    def estimate(self, positives: IntArray, votes: IntArray, unit: int) -> FloatArray:
        """Point estimates for drawn `positives` whose votes add up to `votes` / `unit`; equal shapes in and out."""
        rate = positives / self.gold
        if abs(self.mean_gold - self.mean_target) < distributions.SLACK or self.scale <= 0:
            return np.asarray(rate)
        covariance = votes / (unit * self.gold) - rate * self.mean_gold
        return np.asarray(rate + np.clip(covariance / self.scale, 0, 1) * (self.mean_target - self.mean_gold))


def _vote_weights(pool: _Pool, use: BoolArray) -> tuple[IntArray, int]:
    """Votes of the used bins as integers over one common unit."""
    total = np.maximum(pool.total[use], 1)
    unit = int(np.lcm.reduce(total, initial=1))
    return np.asarray(pool.yes[use] * (unit // total)), unit


def _short_gold_score(
    pool: _Pool, model: int, tail: tuple[int, int, int | None], flags: tuple[Flag, ...], seed: int, draws: int
) -> PaperScore:
    law = _enumerate(pool, model)
    if law is None:
        values = np.sort(_draws(pool, model, seed + model, draws))
        weights = np.full(draws, 1 / draws)
        flags = (*flags, Flag.MONTE_CARLO)
    else:
        order = np.argsort(law[0], kind="stable")
        values, weights = law[0][order], law[1][order]
    cdf = np.cumsum(weights)
    last = len(cdf) - 1
    ends = [float(values[min(int(np.searchsorted(cdf, q - distributions.SLACK)), last)]) for q in (LOW, HIGH)]
    score, width = printed_from_fractions(ends[0], ends[1])
    return PaperScore(score, width, ends[0], ends[1], float(values @ weights), *tail, flags, None)


def _enumerate(pool: _Pool, model: int) -> tuple[FloatArray, FloatArray] | None:
    """Values and probabilities of the estimate, from the joint law of (positives, their votes); None when too large."""
    use = np.flatnonzero(_usable(pool)[model])
    weight, unit = _vote_weights(pool, _usable(pool)[model])
    law, first, work = np.ones((1, 1)), np.zeros(2, dtype=np.int64), 0
    for b, w in zip(use.tolist(), weight.tolist(), strict=True):
        positives, labels = int(pool.positives[model, b]), int(pool.labels[model, b])
        rate = np.array([[float(positives)], [float(labels - positives)]])
        pmf = distributions.binomial_pmf(pool.n[model, b : b + 1], rate[0], rate[1])
        support = np.flatnonzero(pmf[0] > 1e-18)
        start, span = int(support[0]), int(support[-1] - support[0])
        first = first + np.array([start, start * w])
        work += (span + 1) * (law.shape[0] + span) * (law.shape[1] + span * w)
        if work > _MAX_WORK:
            return None
        wider = np.zeros((law.shape[0] + span, law.shape[1] + span * w))
        for x in range(span + 1):
            wider[x : x + law.shape[0], x * w : x * w + law.shape[1]] += pmf[0, start + x] * law
        law = wider
    positives_at, votes_at = np.nonzero(law)
    values = _Ppi.of(pool, model).estimate(positives_at + first[0], votes_at + first[1], unit)
    return values, law[positives_at, votes_at]
