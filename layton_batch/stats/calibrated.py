"""The default score: a posterior predictive interval for the human-judged accuracy on exactly these items.

Per vote bin, the rate of positives has a Jeffreys prior, the model's own labels at full weight and borrowed labels
(other models' and other hints') discounted for the chance that providers differ inside a bin. Labelled items count as
they were judged; the rest of a bin is beta-binomial; the sum over bins is convolved exactly and the shortest set of
counts holding the level is reported. Where a model has own labels it covers 95 % in nearly every simulated setting
(docs/intervals.md), where the paper's covers 24-93 %; with labels in plenty it is shorter too. Where all labels are
borrowed it is wider, and right while providers are alike. Binary metrics only.

For new items of the same kind, what a reader takes a score to mean, the share of each vote bin is Dirichlet(n_b) and
the rate in it the same posterior Beta(alpha_b, beta_b); the score is theta = sum_b share_b rate_b. Its first two
moments are closed forms and its quantiles those of the Beta distribution with these moments: no draws. The items at
hand are taken as an exchangeable sample of their kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.distributions import betaincinv
from layton_batch.stats.strata import Flag, FloatArray, IntArray, Strata

PRIOR = 0.5  # Jeffreys: as good a coverage as a uniform prior, 3-14 % shorter
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
    return Posterior(
        alpha=PRIOR + weight * positives + yes,
        beta=PRIOR + weight * (borrowed - positives) + own - yes,
        unlabelled=strata.n - own,
    )


def positives_pmf(post: Posterior, models: IntArray) -> FloatArray:
    """[len(models), most unlabelled items + 1] exact pmf of the positives among the unlabelled items of `models`."""
    left = post.unlabelled[models]
    terms = [
        distributions.beta_binomial_pmf(left[:, b], post.alpha[models, b], post.beta[models, b])
        for b in np.flatnonzero(left.any(axis=0))
    ]
    pmf = distributions.sum_pmf(terms, int(left.sum(axis=1).max(initial=0)))
    return np.broadcast_to(pmf, (len(models), pmf.shape[1]))


def calibrated_scores(
    strata: Strata, *, level: float = 0.95, provider_shift: float = PROVIDER_SHIFT
) -> tuple[CalibratedScore, ...]:
    """Score every model, in the strata's order. Raises ValueError for a level not in (0, 1 - 1e-9] or a negative shift.

    Without any label the posterior is the prior: the row says almost nothing, honestly, and carries `Flag.NO_GOLD`.
    """
    distributions.check_level(level)
    post = posterior(strata, provider_shift=provider_shift)
    scored = np.flatnonzero(strata.items > 0)
    low, high = (np.zeros(len(strata.items), dtype=np.int64) for _ in range(2))
    for part in distributions.chunks(post.unlabelled[scored].sum(axis=1)):
        rows = scored[part]
        low[rows], high[rows] = distributions.shortest_set(positives_pmf(post, rows), level)
    known = strata.own_positives.sum(axis=1)
    mean = posterior_mean(strata, post)
    new = np.zeros((3, len(strata.items)))
    new[:, scored] = new_items_interval(
        strata.n[scored], strata.known_zeros[scored], post.alpha[scored], post.beta[scored], level
    )
    return _rows(strata, mean, low + known, high + known, new)


def posterior_mean(strata: Strata, post: Posterior) -> FloatArray:
    """[K] expected human-judged accuracy on these items (fraction); 0 for a model without items."""
    expected = (post.unlabelled * post.alpha / (post.alpha + post.beta)).sum(axis=1)
    return np.asarray((strata.own_positives.sum(axis=1) + expected) / np.maximum(strata.items, 1))


def _rows(
    strata: Strata, mean: FloatArray, low: IntArray, high: IntArray, new: FloatArray
) -> tuple[CalibratedScore, ...]:
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
                lower=int(low[i]) / items if there else None,
                upper=int(high[i]) / items if there else None,
                new_score=float(new[0, i]) if there else None,
                new_lower=float(new[1, i]) if there else None,
                new_upper=float(new[2, i]) if there else None,
                items=items,
                own_labels=own[i],
                borrowed_labels=borrowed[i],
                smallest_gold_bin=least[i],
                flags=flags[i],
                reason=None if there else "no items",
            )
        )
    return tuple(rows)


# ---- for new items of the same kind --------------------------------------------------------------------------------


def new_items_moments(
    n: IntArray, known_zeros: IntArray, alpha: FloatArray, beta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance, [K], of theta from item counts `n` and rates Beta(`alpha`, `beta`), [K, B], and [K] known
    zeros.

    A known zero is a bin whose rate is 0. The variance is 0 only where all items are known zeros. K rows need an item
    each.
    """
    items = n.sum(axis=1) + known_zeros
    rate = alpha / (alpha + beta)
    mean = (n * rate).sum(axis=1) / items
    rate_variance = rate * (1 - rate) / (alpha + beta + 1)
    between = (n * (rate - mean[:, None]) ** 2).sum(axis=1) + known_zeros * mean**2
    within = (n * (n + 1) * rate_variance).sum(axis=1)
    return mean, (between + within) / (items * (items + 1))


def new_items_interval(
    n: IntArray, known_zeros: IntArray, alpha: FloatArray, beta: FloatArray, level: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, lower and upper end (fractions, [K]) of the equal-tailed interval for theta; arguments as above.

    Where every item is a known zero the moments say nothing about other outcomes; Jeffreys' Beta(1/2, items + 1/2)
    does.
    """
    mean, variance = new_items_moments(n, known_zeros, alpha, beta)
    sure = variance <= 0
    items = n.sum(axis=1) + known_zeros
    size = mean * (1 - mean) / np.where(sure, 1.0, variance) - 1
    a, b = np.where(sure, 0.5, mean * size), np.where(sure, items + 0.5, (1 - mean) * size)
    lower, upper = betaincinv(a, b, np.array((1 - level) / 2)), betaincinv(a, b, np.array((1 + level) / 2))
    return mean, np.where(sure, 0.0, lower), upper
