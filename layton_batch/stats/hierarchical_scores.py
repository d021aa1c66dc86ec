"""Scores and intervals from the hierarchical posterior, on these items and on new ones.

For new items of the same kind half an item that is wrong and half an item that is right are added: without them the
items at hand would be taken for all there can be, and five right answers of five for certainty. A perfect jury gives
Jeffreys' interval for a rate that way. No draws. No interval leaves its score out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.counts import Counts, FloatArray, IntArray
from layton_batch.stats.distributions import two_sided_quantile
from layton_batch.stats.hierarchical import VOTE_SIZE, Fit, States

PRIOR = 0.5  # Jeffreys: as good a coverage as a uniform prior, 3-14 % shorter
HALF_ITEM = 0.5  # the unseen right and the unseen wrong item, each
PARTS = 24
"""Parts of a model's states, by rising score: in each the rates of its votes are independent Beta distributions."""
_BY_CHANCE = 0.05  # less likely than this, labels were not taken whatever the vote


@dataclass(frozen=True, slots=True)
class ModelScore:
    """One model's score, the posterior mean, and the ends of its interval, in fractions: for these items, and ``new_``
    for new items of the same kind."""

    score: float
    lower: float
    upper: float
    new_score: float
    new_lower: float
    new_upper: float


def hierarchical_scores(fit: Fit, *, level: float = 0.95) -> tuple[ModelScore, ...]:
    """Score every model, each of which has a prediction. Raises ValueError for a level not in (0, 1 - 1e-9].

    No interval is longer than the one that the model's own labels give without a jury, where they were taken whatever
    the vote.
    """
    distributions.check_level(level)
    counts = fit.counts
    mean, here, new = np.zeros(counts.models), np.zeros((2, counts.models)), np.zeros((3, counts.models))
    for states in fit.states():
        rows = states.models
        items = counts.items[rows]
        open_ones = _open_outcomes(counts, states, fit.evidence.label_error)
        rate = (_by_ability(states)[..., None] * open_ones.mean).sum(axis=(1, 2))
        mean[rows] = (open_ones.right + (open_ones.count * rate).sum(axis=1)) / items
        here[:, rows] = (np.stack(_set_here(states, open_ones, level)) + open_ones.right) / items
        new[:, rows] = _new_items(fit, states, level)
    here, new[1:] = _no_longer_than_labels_alone(fit, (here, new[1:]), level)
    low, high = np.minimum(here[0], mean), np.maximum(here[1], mean)
    new_low, new_high = np.minimum(new[1], np.minimum(new[0], mean)), np.maximum(new[2], np.maximum(new[0], mean))
    return tuple(ModelScore(*row) for row in np.stack([mean, low, high, new[0], new_low, new_high], axis=1).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Open outcomes of some models' [k] items: `count` [k, B''] of a kind, whose rates have `mean` and `square`
    [k, D, abilities, B''], beside `right` [k] answers known to be right."""

    count: IntArray
    right: FloatArray
    mean: FloatArray
    square: FloatArray


def _open_outcomes(counts: Counts, states: States, label_error: float) -> Outcomes:
    """The answers without a label; where labels can be wrong, those with one are open too, by what the label says."""
    rows = states.models
    labels, positives = counts.own_labels[rows], counts.own_positives[rows]
    unlabelled = counts.n[rows] - labels
    if not label_error:
        return Outcomes(unlabelled, positives.sum(axis=1), states.mean, states.square)
    yes = counts.own_yes[rows]
    count = np.concatenate([unlabelled, yes, labels - yes], axis=1)
    by_label = [right_given_label(states.mean, label, label_error) for label in (True, False)]
    mean = np.concatenate([states.mean, *by_label], axis=-1)
    square = np.concatenate([states.square, *(mean**2 for mean in by_label)], axis=-1)
    return Outcomes(count, np.zeros(len(rows)), mean, square)


def right_given_label(rate: FloatArray, label: bool, label_error: float) -> FloatArray:
    """The chance that an answer of this rate is right where a label that is wrong with chance `label_error` says so."""
    yes, no = (1 - label_error, label_error) if label else (label_error, 1 - label_error)
    return np.asarray(rate * yes / (rate * yes + (1 - rate) * no))


def _by_ability(states: States) -> FloatArray:
    """[k, D, abilities]"""
    return np.asarray(states.chance.sum(axis=2))


def _rates_in_parts(states: States, open_ones: Outcomes) -> tuple[FloatArray, FloatArray, FloatArray]:
    """`PARTS` parts of the states by rising score: their chances [PARTS, k], and the alpha and beta [PARTS, k, B''] of
    the open outcomes' rates."""
    models, _, _, width = open_ones.mean.shape
    expected = (open_ones.mean @ open_ones.count[:, None, :, None]).reshape(models, -1)
    weight, order = _by_ability(states).reshape(models, -1), np.argsort(expected, axis=1, kind="stable")
    part = np.empty_like(order)
    np.put_along_axis(part, order, _part(np.take_along_axis(weight, order, axis=1)), axis=1)
    chance = _sums(part, weight, PARTS)
    first, second = (np.zeros((models, PARTS, width)) for _ in range(2))
    for b in range(width):
        for sums, moment in ((first, open_ones.mean), (second, open_ones.square)):
            sums[..., b] = _sums(part, weight * moment[..., b].reshape(models, -1), PARTS)
    size = np.maximum(chance, 1e-300)[..., None]
    alpha, beta = _beta(np.where(size > 1e-200, first / size, 0.5), second / size)
    return chance.T, alpha.swapaxes(0, 1), beta.swapaxes(0, 1)


def _beta(mean: FloatArray, square: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean = np.clip(mean, 1e-9, 1 - 1e-9)
    size = np.maximum(mean * (1 - mean) / np.maximum(square - mean**2, 1e-15) - 1, 1e-3)
    return mean * size, (1 - mean) * size


def _set_here(states: States, open_ones: Outcomes, level: float) -> tuple[IntArray, IntArray]:
    """First and last count, [k] each, of right answers among the open ones. The shortest set leaves a long tail out, so
    it does not suit a maker to whom judges may be kind."""
    count, (chance, alpha, beta) = open_ones.count, _rates_in_parts(states, open_ones)
    terms = [
        distributions.beta_binomial_pmf(count[:, b], alpha[..., b], beta[..., b])
        for b in np.flatnonzero(count.any(axis=0))
    ]
    laws = distributions.sum_pmf(terms, int(count.sum(axis=1).max(initial=0)))
    pmf = (chance[..., None] * laws).sum(axis=0)
    make_set = distributions.shortest_set if states.has_known_maker else distributions.long_tailed_set
    return make_set(pmf / pmf.sum(axis=1, keepdims=True), level)


def _new_items(fit: Fit, states: States, level: float) -> FloatArray:
    """[3, k]: score and ends. Given a state the shares of the votes are Dirichlet: the votes at hand and as many as
    `VOTE_SIZE` that are as the model's ability and kindness have it. The ends are those of a mixture of Beta
    distributions, one for each part of the states: judges who may be kind to a maker leave one long tail."""
    rows = states.models
    n, zeros = fit.counts.n[rows].astype(np.float64), fit.counts.known_zeros[rows]
    judged = n.sum(axis=1)
    seats = fit.seat_shares(rows)
    right, spread = _right_on_new(n, seats, states), _spread_on_new(n, seats, states)
    chance, first, second = _parts(states.chance, right, spread[:, :, None])
    size = judged + VOTE_SIZE
    mean = ((size + 2 * HALF_ITEM) * (chance * first).sum(axis=1) - HALF_ITEM) / size
    score = mean * judged / np.maximum(judged + zeros, 1)
    answered, answered_square = _answered(judged, zeros)
    first, second = first * answered[:, None], second * answered_square[:, None]
    inside = np.clip(first, 1e-6, 1 - 1e-6)
    variance = np.clip(second - first**2, 1e-12, inside * (1 - inside) * 0.999)
    count = inside * (1 - inside) / variance - 1
    ends = ((1 - level) / 2, (1 + level) / 2)
    return np.stack([score, *distributions.beta_mixture_quantiles(ends, chance, inside * count, (1 - inside) * count)])


def _parts(chance: FloatArray, mean: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """[k, PARTS] each: chance, mean and mean square in parts of the states by rising mean, to a 500th."""
    cell = (500 * mean).astype(np.int64)
    by_cell = [_sums(cell, moment, 501) for moment in (chance, chance * mean, chance * (mean**2 + spread))]
    part = _part(by_cell[0])
    total, first, second = (_sums(part, moment, PARTS) for moment in by_cell)
    size = np.maximum(total, 1e-300)
    return total, np.where(total > 1e-200, first / size, 0.5), np.where(total > 1e-200, second / size, 0.3)


def _part(chance: FloatArray) -> IntArray:
    """[k, N] the part of each entry of `chance`, whose parts have the same chance."""
    reached = np.cumsum(chance, axis=1)
    return np.asarray(np.minimum((reached / reached[:, -1:] * PARTS).astype(np.int64), PARTS - 1))


def _sums(place: IntArray, values: FloatArray, width: int) -> FloatArray:
    """[k, width] sums of each model's `values` [k, ...] by `place`, of the same shape."""
    models = len(place)
    place = place.reshape(models, -1) + width * np.arange(models)[:, None]
    return np.bincount(place.ravel(), values.ravel(), models * width).astype(np.float64).reshape(models, width)


def _answered(judged: FloatArray, zeros: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean and mean square of the share of items that the jury judges, [k] each: Beta(judged + 1/2, zeros), or 1."""
    size = judged + HALF_ITEM + zeros
    mean = (judged + HALF_ITEM) / size
    return mean, mean * (judged + HALF_ITEM + 1) / (size + 1)


def _right_on_new(n: FloatArray, seats: FloatArray, states: States) -> FloatArray:
    """[k, D, kindness, abilities] the expected share of right answers among new items that a jury judges, with half an
    item that is right and half an item that is wrong."""
    size = (n.sum(axis=1) + VOTE_SIZE + 2 * HALF_ITEM)[:, None]
    at_hand = states.mean @ (n / size)[:, None, :, None] + HALF_ITEM / size[..., None, None]
    formula = states.mean * (VOTE_SIZE * seats / size)[:, None, None]
    right: FloatArray = np.einsum("dlxb,kdxb->kdlx", states.mix, formula)
    right += at_hand[:, :, None, :, 0]
    return right


def _spread_on_new(n: FloatArray, seats: FloatArray, states: States) -> FloatArray:
    """[k, D, abilities] the variance that is left where the state is known: of the votes' shares and of their rates."""
    by_ability = np.maximum(_by_ability(states), 1e-300)
    mix = np.einsum("kdlx,dlxb->kdxb", states.chance, states.mix) / by_ability[..., None]
    count = n[:, None, None] + VOTE_SIZE * seats[:, None, None] * mix
    total = (n.sum(axis=1) + VOTE_SIZE + 2 * HALF_ITEM)[:, None, None]
    mean = ((count * states.mean).sum(axis=-1) + HALF_ITEM) / total
    unsure = np.maximum(states.square - states.mean**2, 0)
    between = (count * (states.mean - mean[..., None]) ** 2).sum(axis=-1) + HALF_ITEM * (mean**2 + (1 - mean) ** 2)
    return np.asarray((between + (count * (count + 1) * unsure).sum(axis=-1)) / (total * (total + 1)))


# ---- no longer than labels alone -----------------------------------------------------------------------------------


def _no_longer_than_labels_alone(
    fit: Fit, ends: tuple[FloatArray, FloatArray], level: float
) -> tuple[FloatArray, FloatArray]:
    """The ends [2, K] on these items and on new ones; where the model's own labels alone give closer ones, those."""
    counts = fit.counts
    labels, positives = counts.own_labels.sum(axis=1), counts.own_positives.sum(axis=1)
    usable = (labels > 0) & _whatever_the_vote(counts) & (fit.evidence.label_error == 0)
    alpha, beta = positives + PRIOR, labels - positives + PRIOR
    unlabelled = counts.n.sum(axis=1) - labels
    first, last = distributions.shortest_set(distributions.beta_binomial_pmf(unlabelled, alpha, beta), level)
    items = counts.items
    judged = np.maximum(counts.n.sum(axis=1, keepdims=True), 1)
    moments = new_items_moments(judged, counts.known_zeros, alpha[:, None], beta[:, None])
    alone = np.stack([first + positives, last + positives]) / items, np.stack(beta_ends(*moments, level))
    return tuple(  # type: ignore[return-value]
        np.where(usable & (by_labels[1] - by_labels[0] < joint[1] - joint[0]), by_labels, joint)
        for by_labels, joint in zip(alone, ends, strict=True)
    )


def _whatever_the_vote(counts: Counts) -> FloatArray:
    """[K] whether a model's labels are spread over its votes as chance would have it."""
    from scipy import special

    n, labels = counts.n.sum(axis=1, keepdims=True), counts.own_labels.sum(axis=1, keepdims=True)
    share = labels / np.maximum(n, 1)
    expected = counts.n * share
    spread = np.maximum(expected * (1 - share), 1e-9)
    distance = np.where(counts.n > 0, (counts.own_labels - expected) ** 2 / spread, 0.0).sum(axis=1)
    freedom = np.maximum((counts.n > 0).sum(axis=1) - 1, 1)
    return np.asarray((special.chdtrc(freedom, distance) >= _BY_CHANCE) | (n == labels)[:, 0])


def new_items_moments(
    n: IntArray, known_zeros: IntArray, alpha: FloatArray, beta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance, [K], of the accuracy on new items: the shares of the votes are Dirichlet, by the counts `n`
    [K, B] and `known_zeros` [K], the rates Beta(`alpha`, `beta`) [K, B].

    A known zero is a bin whose rate is 0. K rows need an item each.
    """
    items = n.sum(axis=1) + known_zeros
    rate = alpha / (alpha + beta)
    mean = (n * rate).sum(axis=1) / items
    rate_variance = rate * (1 - rate) / (alpha + beta + 1)
    between = (n * (rate - mean[:, None]) ** 2).sum(axis=1) + known_zeros * mean**2
    within = (n * (n + 1) * rate_variance).sum(axis=1)
    return mean, (between + within) / (items * (items + 1))


def beta_ends(mean: FloatArray, variance: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Equal-tailed ends of the Beta distributions with these moments."""
    size = mean * (1 - mean) / variance - 1
    return distributions.beta_interval(level, mean * size, (1 - mean) * size)


# ---- for plans and pages -------------------------------------------------------------------------------------------


def collapsed(fit: Fit) -> tuple[FloatArray, FloatArray]:
    """[K, B] alpha and beta of one Beta distribution a rate, with its mean and variance over all states: for plans."""
    mean, square = (np.zeros(fit.counts.n.shape) for _ in range(2))
    for states in fit.states():
        weight = _by_ability(states)[..., None]
        mean[states.models] = (weight * states.mean).sum(axis=(1, 2))
        square[states.models] = (weight * states.square).sum(axis=(1, 2))
    return _beta(mean, square)


def slope_interval(fit: Fit, level: float = 0.95) -> tuple[float, float, float]:
    """Mean and ends of the ability slope: log odds of a person's yes at one vote per log odds of accuracy.

    The ends are by the normal approximation.
    """
    mean, sd = float(fit.points.slope.mean()), float(fit.points.slope.std())
    z = two_sided_quantile(level)
    return mean, mean - z * sd, mean + z * sd
