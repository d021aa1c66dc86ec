"""The default score: a posterior predictive interval for the human-judged accuracy on exactly these items.

Per vote bin, the rate of positives has a Jeffreys prior, the model's own labels at full weight and borrowed labels
(other models' and other hints') discounted for the chance that providers differ inside a bin. Labelled items count as
they were judged; the rest of a bin is beta-binomial; the sum over bins is convolved exactly and the shortest set of
counts holding the level is reported. Where a model has own labels it covers 95 % in nearly every simulated setting
(docs/intervals.md), where the paper's covers 24-93 %; with labels in plenty it is shorter too. Where all labels are
borrowed it is wider, and right while providers are alike. Binary metrics only.

For new items of the same kind, what a reader takes a score to mean, the share of each vote bin is Dirichlet(n_b) and
the rate in it the same posterior Beta(alpha_b, beta_b); the score is theta = sum_b share_b rate_b. Half an item that is
wrong and half an item that is right are added: without them the items at hand would be taken for all there can be, and
five right answers of five for certainty. A perfect jury gives Jeffreys' interval for a rate that way. The first two
moments are closed forms and the quantiles those of the Beta distribution with these moments: no draws. The items at
hand are taken as an exchangeable sample of their kind.

No interval leaves its score out: where the shortest set of counts would, its end moves to the score.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.strata import Flag, FloatArray, IntArray, Strata

PRIOR = 0.5  # Jeffreys: as good a coverage as a uniform prior, 3-14 % shorter
KIN = 4.0  # labels; contested votes by pattern were best shrunk with a weight of 4 to 8
_MODELS = 10_000  # scored at once
PROVIDER_SHIFT = 0.25  # standard deviation of a provider's log odds within a bin; the fitted bound is 0.4


@dataclass(frozen=True, slots=True)
class CalibratedScore:
    """One model's row, fractions. `score` is the posterior mean, `lower`..`upper` the set for these items.

    `new_score`, `new_lower`, `new_upper`: for new items of the same kind. All six are None where `reason` says why.
    `own_labels`, `borrowed_labels`: behind the occupied bins; `smallest_gold_bin`: fewest borrowed labels behind one.
    """

    score: float | None
    lower: float | None
    upper: float | None
    new_score: float | None
    new_lower: float | None
    new_upper: float | None
    items: int
    own_labels: int
    borrowed_labels: int
    smallest_gold_bin: int | None
    flags: tuple[Flag, ...]
    reason: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Rates Beta(`alpha`, `beta`) [K, B] by model and bin, and the `unlabelled` items [K, B] they predict."""

    alpha: FloatArray
    beta: FloatArray
    unlabelled: IntArray


def posterior(strata: Strata, *, provider_shift: float = PROVIDER_SHIFT) -> Posterior:
    """What is known of every model's rate in every bin.

    If a provider's log odds deviate by N(0, shift^2), the mean of G providers has the extra variance shift^2 (1 +
    1/G) (pq)^2; a Beta of that variance has kappa = 1 / (shift^2 (1 + 1/G) pq) - 1 observations, and M borrowed
    labels get the weight kappa / (kappa + M), so that they never count for more. `provider_shift` 0 trusts them
    fully, 0.5 is cautious. Raises ValueError for a negative shift.
    """
    if not provider_shift >= 0:
        raise ValueError(f"provider shift must be 0 or more, not {provider_shift!r}")
    borrowed, positives = strata.borrowed_labels, strata.borrowed_positives
    rate = (positives + 0.5) / (borrowed + 1)
    spread = provider_shift**2 * (1 + 1 / np.maximum(strata.gold_providers, 1))[:, None] * rate * (1 - rate)
    kappa = np.maximum(1 / np.maximum(spread, 1e-300) - 1, 0)
    weight = kappa / (kappa + borrowed) if provider_shift > 0 else np.ones_like(rate)
    own, yes = strata.own_labels, strata.own_positives
    kin_yes, kin_no = kin_counts(strata)
    return Posterior(
        alpha=PRIOR + weight * positives + yes + kin_yes,
        beta=PRIOR + weight * (borrowed - positives) + own - yes + kin_no,
        unlabelled=strata.n - own,
    )


def kin_counts(strata: Strata) -> tuple[FloatArray, FloatArray]:
    """[B] positives and negatives, as many as `KIN` at most, that labels at the same share of other numbers of seats
    are worth: what three judges agree on says little of what one of them says."""
    if strata.kin is None:
        return np.zeros(len(strata.bin_yes)), np.zeros(len(strata.bin_yes))
    labels, positives = strata.kin.labels.astype(np.float64), strata.kin.positives.astype(np.float64)
    weight = KIN / (KIN + labels)
    return weight * positives, weight * (labels - positives)


def positives_pmf(post: Posterior, models: IntArray) -> FloatArray:
    """[len(models), most unlabelled items + 1] exact pmf of the positives among the unlabelled items of `models`."""
    left = post.unlabelled[models]
    terms = [
        distributions.beta_binomial_pmf(left[:, b], post.alpha[models, b], post.beta[models, b])
        for b in np.flatnonzero(left.any(axis=0))
    ]
    pmf = distributions.sum_pmf(terms, int(left.sum(axis=1).max(initial=0)))
    return np.broadcast_to(pmf, (len(models), pmf.shape[1]))


def positives_pmfs(strata: Strata, post: Posterior) -> Iterator[tuple[IntArray, FloatArray]]:
    """Models that have items, some at a time, and :func:`positives_pmf` of them: memory stays bounded."""
    scored = np.flatnonzero(strata.items > 0)
    for part in distributions.chunks(post.unlabelled[scored].sum(axis=1)):
        yield scored[part], positives_pmf(post, scored[part])


def calibrated_scores(
    strata: Strata, *, level: float = 0.95, provider_shift: float = PROVIDER_SHIFT
) -> tuple[CalibratedScore, ...]:
    """Score every model, in the strata's order. Raises ValueError for a level not in (0, 1 - 1e-9] or a negative shift.

    Without any label the posterior is the prior: the row says almost nothing, honestly, and carries `Flag.NO_GOLD`.
    """
    distributions.check_level(level)
    parts = [strata.of(slice(at, at + _MODELS)) for at in range(0, len(strata.items), _MODELS)]
    return tuple(itertools.chain.from_iterable(_scores(part, level, provider_shift) for part in parts))


def _scores(strata: Strata, level: float, provider_shift: float) -> tuple[CalibratedScore, ...]:
    post = posterior(strata, provider_shift=provider_shift)
    low, high = (np.zeros(len(strata.items), dtype=np.int64) for _ in range(2))
    for rows, pmf in positives_pmfs(strata, post):
        low[rows], high[rows] = distributions.shortest_set(pmf, level)
    known, scored = strata.own_positives.sum(axis=1), np.flatnonzero(strata.items > 0)
    new = np.zeros((3, len(strata.items)))
    new[:, scored] = new_items_interval(
        strata.n[scored], strata.known_zeros[scored], post.alpha[scored], post.beta[scored], level
    )
    items = np.maximum(strata.items, 1)
    return score_rows(strata, posterior_mean(strata, post), ((low + known) / items, (high + known) / items), new)


def posterior_mean(strata: Strata, post: Posterior) -> FloatArray:
    """[K] expected human-judged accuracy on these items (fraction); 0 for a model without items."""
    expected = (post.unlabelled * post.alpha / (post.alpha + post.beta)).sum(axis=1)
    return np.asarray((strata.own_positives.sum(axis=1) + expected) / np.maximum(strata.items, 1))


def score_rows(
    strata: Strata, mean: FloatArray, here: tuple[FloatArray, FloatArray], new: FloatArray
) -> tuple[CalibratedScore, ...]:
    """Rows from the score [K], the ends `here` [K] each, and `new` [3, K]: score and ends for new items."""
    low, high, new_low, new_high = holding(mean, here, new)
    occupied = strata.n > 0
    own: list[int] = strata.own_labels.sum(axis=1).tolist()
    borrowed: list[int] = np.where(occupied, strata.borrowed_labels, 0).sum(axis=1).tolist()
    least = strata.smallest_gold_bin(strata.borrowed_labels)
    flags = strata.flags(strata.borrowed_labels + strata.own_labels)
    rows = []
    for i in range(len(strata.items)):
        items = int(strata.items[i])
        there = items > 0
        rows.append(
            CalibratedScore(
                score=float(mean[i]) if there else None,
                lower=float(low[i]) if there else None,
                upper=float(high[i]) if there else None,
                new_score=float(new[0, i]) if there else None,
                new_lower=float(new_low[i]) if there else None,
                new_upper=float(new_high[i]) if there else None,
                items=items,
                own_labels=own[i],
                borrowed_labels=borrowed[i],
                smallest_gold_bin=least[i],
                flags=flags[i],
                reason=None if there else "no items",
            )
        )
    return tuple(rows)


def holding(mean: FloatArray, here: tuple[FloatArray, FloatArray], new: FloatArray) -> tuple[FloatArray, ...]:
    """The ends `here` and for new items (`new` [3, K]: score and ends), moved to where they hold the score [K]."""
    low, high = np.minimum(here[0], mean), np.maximum(here[1], mean)
    return low, high, np.minimum(new[1], np.minimum(new[0], mean)), np.maximum(new[2], np.maximum(new[0], mean))


# ---- for new items of the same kind --------------------------------------------------------------------------------


HALF_ITEM = 0.5  # the unseen right and the unseen wrong item, each


def new_items_moments(
    n: IntArray,
    known_zeros: IntArray,
    alpha: FloatArray,
    beta: FloatArray,
    unseen: float = HALF_ITEM,
    moved: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance, [K], of theta from item counts `n` and rates Beta(`alpha`, `beta`), [K, B], and [K] known
    zeros, with `unseen` items besides that are right and as many that are wrong.

    A known zero is a bin whose rate is 0. `moved` [K, B] stands for the rates where the votes' shares vary. K rows need
    an item each.
    """
    wrong = known_zeros + unseen
    items = n.sum(axis=1) + wrong + unseen
    rate = alpha / (alpha + beta)
    mean = ((n * rate).sum(axis=1) + unseen) / items
    rate_variance = rate * (1 - rate) / (alpha + beta + 1)
    spread = rate if moved is None else moved
    between = (n * (spread - mean[:, None]) ** 2).sum(axis=1) + wrong * mean**2 + unseen * (1 - mean) ** 2
    within = (n * (n + 1) * rate_variance).sum(axis=1)
    return mean, (between + within) / (items * (items + 1))


def new_items_interval(
    n: IntArray, known_zeros: IntArray, alpha: FloatArray, beta: FloatArray, level: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, lower and upper end (fractions, [K]) of the equal-tailed interval for theta; arguments as above.

    The mean is that of the items at hand; the ends allow for what none of them showed.
    """
    score, _ = new_items_moments(n, known_zeros, alpha, beta, unseen=0.0)
    return score, *beta_ends(*new_items_moments(n, known_zeros, alpha, beta), level)


def beta_ends(mean: FloatArray, variance: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Equal-tailed ends of the Beta distributions with these moments."""
    size = mean * (1 - mean) / variance - 1
    return distributions.beta_interval(level, mean * size, (1 - mean) * size)
