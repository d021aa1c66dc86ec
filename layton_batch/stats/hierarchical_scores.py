"""Scores and intervals from the hierarchical posterior, on these items and on new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.distributions import two_sided_quantile
from layton_batch.stats.hierarchical import VOTE_SIZE, Fit, States
from layton_batch.stats.posterior import (
    HALF_ITEM,
    PRIOR,
    ModelScore,
    Posterior,
    beta_ends,
    new_items_moments,
    positives_pmf,
    score_rows,
)
from layton_batch.stats.strata import FloatArray, IntArray, Strata

PARTS = 24
"""Parts of a model's states, by rising score: in each the rates of its votes are independent Beta distributions."""
_BY_CHANCE = 0.05  # less likely than this, labels were not taken whatever the vote


def hierarchical_scores(strata: Strata, fit: Fit, *, level: float = 0.95) -> tuple[ModelScore, ...]:
    """Score every model, in the strata's order. Raises ValueError for a level not in (0, 1 - 1e-9].

    No interval is longer than the one that the model's own labels give without a jury, where they were taken whatever
    the vote.
    """
    distributions.check_level(level)
    count = len(strata.items)
    items = np.maximum(strata.items, 1)
    mean, here, new = np.zeros(count), np.zeros((2, count)), np.zeros((3, count))
    for states in fit.states():
        rows = states.models
        open_ones = _open_outcomes(strata, states, fit.evidence.label_error)
        open_count, right = open_ones.count, open_ones.right
        rate = (_by_ability(states)[..., None] * open_ones.mean).sum(axis=(1, 2))
        mean[rows] = (right + (open_count * rate).sum(axis=1)) / items[rows]
        make_set = distributions.shortest_set if states.has_known_maker else distributions.long_tailed_set
        first, last = _set_here(_components(states, open_ones), open_count, level, make_set)
        here[:, rows] = (first + right) / items[rows], (last + right) / items[rows]
        new[:, rows] = _new_items(strata, states, level)
    here, new[1:] = _no_longer_than_labels_alone(fit, strata, (here, new[1:]), level)
    return score_rows(strata, mean, (here[0], here[1]), new)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Open outcomes of some models' [k] items: `count` [k, B''] of a kind, whose rates have `mean` and `square`
    [k, D, abilities, B''], beside `right` [k] answers known to be right."""

    count: IntArray
    right: IntArray
    mean: FloatArray
    square: FloatArray


def _open_outcomes(strata: Strata, states: States, label_error: float) -> Outcomes:
    """The answers without a label; where labels can be wrong, those with one are open too, by what the label says."""
    rows = states.models
    labels, positives = strata.own_labels[rows], strata.own_positives[rows]
    unlabelled = strata.n[rows] - labels
    if not label_error:
        return Outcomes(unlabelled, positives.sum(axis=1), states.mean, states.square)
    count = np.concatenate([unlabelled, positives, labels - positives], axis=1)
    by_label = [right_given_label(states.mean, label, label_error) for label in (True, False)]
    mean = np.concatenate([states.mean, *by_label], axis=-1)
    square = np.concatenate([states.square, *(mean**2 for mean in by_label)], axis=-1)
    return Outcomes(count, np.zeros(len(rows), dtype=np.int64), mean, square)


def right_given_label(rate: FloatArray, label: bool, label_error: float) -> FloatArray:
    """The chance that an answer of this rate is right where a label that is wrong with chance `label_error` says so."""
    yes, no = (1 - label_error, label_error) if label else (label_error, 1 - label_error)
    return np.asarray(rate * yes / (rate * yes + (1 - rate) * no))


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """States of some models in `PARTS` parts: `chance` [N, k], and rates Beta(`alpha`, `beta`) [N, k, B] in each."""

    chance: FloatArray
    alpha: FloatArray
    beta: FloatArray


def _by_ability(states: States) -> FloatArray:
    """[k, D, abilities]"""
    return np.asarray(states.chance.sum(axis=2))


def _components(states: States, open_ones: Outcomes) -> Components:
    models, _, _, width = open_ones.mean.shape
    by_ability = _by_ability(states).reshape(models, -1)
    expected = (open_ones.mean @ open_ones.count[:, None, :, None]).reshape(models, -1)
    chance, first, second = (
        np.zeros((models, PARTS)),
        np.zeros((models, PARTS, width)),
        np.zeros((models, PARTS, width)),
    )
    for k in range(models):
        order = np.argsort(expected[k], kind="stable")
        weight = by_ability[k][order]
        reached = np.cumsum(weight)
        part = np.minimum((reached / reached[-1] * PARTS).astype(np.int64), PARTS - 1)
        chance[k] = np.bincount(part, weight, PARTS)
        for b in range(width):
            mean, square = (moment[k, ..., b].ravel()[order] for moment in (open_ones.mean, open_ones.square))
            first[k, :, b] = np.bincount(part, weight * mean, PARTS)
            second[k, :, b] = np.bincount(part, weight * square, PARTS)
    size = np.maximum(chance, 1e-300)[..., None]
    alpha, beta = _beta(np.where(size > 1e-200, first / size, 0.5), second / size)
    return Components(*(values.swapaxes(0, 1) for values in (chance, alpha, beta)))


def _beta(mean: FloatArray, square: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean = np.clip(mean, 1e-9, 1 - 1e-9)
    size = np.maximum(mean * (1 - mean) / np.maximum(square - mean**2, 1e-15) - 1, 1e-3)
    return mean * size, (1 - mean) * size


MakeSet = Callable[[FloatArray, float], tuple[IntArray, IntArray]]
"""First and last count, from distributions of counts [k, N] and a level. The shortest set leaves a long tail out, so
it does not suit a maker to whom judges may be kind."""


def _set_here(
    components: Components, open_count: IntArray, level: float, make_set: MakeSet
) -> tuple[IntArray, IntArray]:
    """First and last count, [k] each, of right answers among those without a label."""
    models, width = open_count.shape
    first, last = (np.zeros(models, dtype=np.int64) for _ in range(2))
    for rows in distributions.chunks(PARTS * open_count.sum(axis=1)):
        alpha, beta = (
            values[:, rows].reshape(PARTS * len(rows), width) for values in (components.alpha, components.beta)
        )
        every = Posterior(alpha, beta, np.tile(open_count[rows], (PARTS, 1)))
        laws = positives_pmf(every, np.arange(PARTS * len(rows))).reshape(PARTS, len(rows), -1)
        pmf = (components.chance[:, rows, None] * laws).sum(axis=0)
        first[rows], last[rows] = make_set(pmf / pmf.sum(axis=1, keepdims=True), level)
    return first, last


def _new_items(strata: Strata, states: States, level: float) -> FloatArray:
    """[3, k]: score and ends. Given a state the shares of the votes are Dirichlet: the votes at hand and as many as
    `VOTE_SIZE` that are as the model's ability and kindness have it. The ends are those of a mixture of Beta
    distributions, one for each part of the states: judges who may be kind to a maker leave one long tail."""
    rows = states.models
    n, zeros = strata.n[rows].astype(np.float64), strata.known_zeros[rows]
    judged = n.sum(axis=1)
    size = (judged + VOTE_SIZE)[:, None, None, None]
    right = _right_on_new(n, seat_shares(strata, rows, states.group), states)
    spread = _spread_on_new(n, seat_shares(strata, rows, states.group), states)
    score = (states.chance * right).sum(axis=(1, 2, 3)) * judged / np.maximum(judged + zeros, 1)
    right *= size
    right += HALF_ITEM
    right /= size + 2 * HALF_ITEM
    chance, first, second = _parts(states.chance, right, spread[:, :, None])
    answered, answered_square = _answered(judged, zeros)
    first, second = first * answered[:, None], second * answered_square[:, None]
    inside = np.clip(first, 1e-6, 1 - 1e-6)
    variance = np.clip(second - first**2, 1e-12, inside * (1 - inside) * 0.999)
    count = inside * (1 - inside) / variance - 1
    ends = ((1 - level) / 2, (1 + level) / 2)
    return np.stack([score, *distributions.beta_mixture_quantiles(ends, chance, inside * count, (1 - inside) * count)])


def _parts(chance: FloatArray, mean: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """[k, PARTS] each: chance, mean and mean square in parts of the states by rising mean, to a 500th."""
    models = len(chance)
    total, first, second = (np.zeros((models, PARTS)) for _ in range(3))
    for k in range(models):
        value, weight = mean[k].ravel(), chance[k].ravel()
        moments = (weight, weight * value, weight * (mean[k] ** 2 + spread[k]).ravel())
        cells = [np.bincount((500 * value).astype(np.int64), moment, 501) for moment in moments]
        reached = np.cumsum(cells[0])
        part = np.minimum((reached / reached[-1] * PARTS).astype(np.int64), PARTS - 1)
        total[k], first[k], second[k] = (np.bincount(part, moment, PARTS) for moment in cells)
    size = np.maximum(total, 1e-300)
    return total, np.where(total > 1e-200, first / size, 0.5), np.where(total > 1e-200, second / size, 0.3)


def _answered(judged: FloatArray, zeros: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean and mean square of the share of items that the jury judges, [k] each: Beta(judged + 1/2, zeros), or 1."""
    size = judged + HALF_ITEM + zeros
    mean = (judged + HALF_ITEM) / size
    return mean, mean * (judged + HALF_ITEM + 1) / (size + 1)


def _right_on_new(n: FloatArray, seats: FloatArray, states: States) -> FloatArray:
    """[k, D, kindness, abilities] the expected share of right answers among those of new items that a jury judges."""
    size = n.sum(axis=1) + VOTE_SIZE
    right = np.zeros(states.chance.shape)
    for b in range(n.shape[1]):
        at_hand, formula = n[:, b] / size, VOTE_SIZE * seats[:, b] / size
        part = formula[:, None, None, None] * states.mix[..., b]
        part += at_hand[:, None, None, None]
        part *= states.mean[:, :, None, :, b]
        right += part
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


def seat_shares(strata: Strata, models: IntArray, group: IntArray) -> FloatArray:
    """[k, B] the share of a model's judged answers whose votes are compared with the bin's, of one `group` [B]."""
    n = strata.n[models]
    same = group[:, None] == group
    return np.asarray((n @ same) / np.maximum(n.sum(axis=1), 1)[:, None])


# ---- no longer than labels alone -----------------------------------------------------------------------------------


def _no_longer_than_labels_alone(
    fit: Fit, strata: Strata, ends: tuple[FloatArray, FloatArray], level: float
) -> tuple[FloatArray, FloatArray]:
    """The ends [2, K] on these items and on new ones; where the model's own labels alone give closer ones, those."""
    labels, positives = strata.own_labels.sum(axis=1), strata.own_positives.sum(axis=1)
    usable = (labels > 0) & _whatever_the_vote(strata) & (fit.evidence.label_error == 0)
    alpha, beta = positives + PRIOR, labels - positives + PRIOR
    unlabelled = strata.n.sum(axis=1) - labels
    first, last = distributions.shortest_set(distributions.beta_binomial_pmf(unlabelled, alpha, beta), level)
    items = np.maximum(strata.items, 1)
    judged = np.maximum(strata.n.sum(axis=1, keepdims=True), 1)
    moments = new_items_moments(judged, strata.known_zeros, alpha[:, None], beta[:, None])
    alone = np.stack([first + positives, last + positives]) / items, np.stack(beta_ends(*moments, level))
    return tuple(  # type: ignore[return-value]
        np.where(usable & (by_labels[1] - by_labels[0] < joint[1] - joint[0]), by_labels, joint)
        for by_labels, joint in zip(alone, ends, strict=True)
    )


def _whatever_the_vote(strata: Strata) -> FloatArray:
    """[K] whether a model's labels are spread over its votes as chance would have it."""
    from scipy import special

    n, labels = strata.n.sum(axis=1, keepdims=True), strata.own_labels.sum(axis=1, keepdims=True)
    share = labels / np.maximum(n, 1)
    expected = strata.n * share
    spread = np.maximum(expected * (1 - share), 1e-9)
    distance = np.where(strata.n > 0, (strata.own_labels - expected) ** 2 / spread, 0.0).sum(axis=1)
    freedom = np.maximum((strata.n > 0).sum(axis=1) - 1, 1)
    return np.asarray((special.chdtrc(freedom, distance) >= _BY_CHANCE) | (n == labels)[:, 0])


# ---- for plans and pages -------------------------------------------------------------------------------------------


def collapsed(strata: Strata, fit: Fit) -> Posterior:
    """One Beta distribution a rate, with its mean and variance over all states: for plans, which need no more."""
    mean, square = (np.zeros(strata.n.shape) for _ in range(2))
    for states in fit.states():
        weight = _by_ability(states)[..., None]
        mean[states.models] = (weight * states.mean).sum(axis=(1, 2))
        square[states.models] = (weight * states.square).sum(axis=(1, 2))
    return Posterior(*_beta(mean, square), strata.n - strata.own_labels)


def slope_interval(fit: Fit, level: float = 0.95) -> tuple[float, float, float]:
    """Mean and ends of the ability slope: log odds of a person's yes at one vote per log odds of accuracy.

    The ends are by the normal approximation.
    """
    mean, sd = float(fit.points.slope.mean()), float(fit.points.slope.std())
    z = two_sided_quantile(level)
    return mean, mean - z * sd, mean + z * sd
