"""Scores, intervals and joint draws from the hierarchical posterior, on these items and on new ones.

For new items of the same kind half an item that is wrong and half an item that is right are added: without them the
items at hand would be taken for all there can be, and five right answers of five for certainty. A perfect jury gives
Jeffreys' interval for a rate that way. Scores and intervals are computed without draws. No interval leaves its score
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from layton_batch.stats import distributions
from layton_batch.stats.counts import Counts, FloatArray, IntArray
from layton_batch.stats.distributions import two_sided_quantile
from layton_batch.stats.hierarchical import VOTE_SIZE, Fit, ModelStates
from layton_batch.stats.ranks import Estimates

PRIOR = 0.5  # Jeffreys: as good a coverage as a uniform prior, 3-14 % shorter
HALF_ITEM = 0.5  # the unseen right and the unseen wrong item, each
PARTS = 24
"""Parts of a model's states, by rising score: in each the rates of its votes are independent Beta distributions."""
_CELLS = 4_000_000
_BY_CHANCE = 0.001  # less likely than this, labels were not taken whatever the vote
FEW_ITEMS = 10
"""Fewer items say so little of new ones that what votes mean elsewhere is not trusted to make up for it."""


@dataclass(frozen=True, slots=True, eq=False)
class FitScores:
    """Everything that a board reads off the posterior: estimates for these items (`here`) and for `new` ones.

    `rates`: [K, B] alpha and beta of one Beta distribution a rate, with its mean and variance over all states.
    """

    here: Estimates
    new: Estimates
    rates: tuple[FloatArray, FloatArray]


def summarize(fit: Fit, *, level: float = 0.95, draws: int = 0, seed: int = 0) -> FitScores:
    """Score every model, each of which has a prediction. Raises ValueError for a level not in (0, 1 - 1e-9].

    No interval is longer than the one that the model's own labels give without a jury, where they were taken whatever
    the vote, people are unsure about few answers, and that one holds the score; but of fewer than ten items none for
    new items is shorter than if it was known which of them are right.
    """
    distributions.check_level(level)
    counts = fit.counts
    models, items = counts.models, counts.items
    mean, here, new_score = np.zeros(models), np.zeros((2, models)), np.zeros(models)
    new_law, rates = np.zeros((3, models, PARTS)), np.zeros((2, *counts.n.shape))
    error, drawn = fit.evidence.label_error, _RateDraws(fit, draws, seed)
    kinds, right = _open_answers(counts, error), np.zeros(models) if error else counts.own_positives.sum(axis=1)
    count = np.concatenate([answers for answers, _ in kinds], axis=1)
    for states in fit.states():
        model, weight = states.model, states.by_ability[..., None]
        first, second = _open_moments(states, kinds, error)
        mean[model] = (right[model] + count[model] @ (weight * first).sum(axis=(0, 1))) / items[model]
        here[:, model] = (np.array(_set_here(states, count[model], (first, second), level)) + right[model]) / items[
            model
        ]
        new_score[model], new_law[:, model] = _new_items(fit, states)
        rates[:, model] = _beta(*((weight * moment).sum(axis=(0, 1)) for moment in (states.mean, states.square)))
        drawn.add(states)
    ends = ((1 - level) / 2, (1 + level) / 2)
    new = np.stack(distributions.beta_mixture_quantiles(ends, *new_law))
    here, new = _no_longer_than_labels_alone(fit, (here, new), (mean, new_score), level)
    new = _no_shorter_than_sampling(items, mean, new, level)
    low, high = np.minimum(here[0], mean), np.maximum(here[1], mean)
    new_low, new_high = np.minimum(new[0], np.minimum(new_score, mean)), np.maximum(new[1], np.maximum(new_score, mean))
    on_these = Estimates(mean, low, high, drawn.on_these())
    return FitScores(on_these, Estimates(new_score, new_low, new_high, drawn.on_new()), (rates[0], rates[1]))


def slope_interval(fit: Fit, level: float = 0.95) -> tuple[float, float, float]:
    """Mean and ends of the ability slope: log odds of a person's yes at one vote per log odds of accuracy.

    The ends are by the normal approximation.
    """
    mean, sd = float(fit.points.slope.mean()), float(fit.points.slope.std())
    z = two_sided_quantile(level)
    return mean, mean - z * sd, mean + z * sd


# ---- one model, on these items -------------------------------------------------------------------------------------


def _open_answers(counts: Counts, label_error: float) -> list[tuple[IntArray, bool | None]]:
    """[K, B] the answers whose outcome is open, by what a label says of them: without one, and all others where labels
    can be wrong."""
    labels, yes = counts.own_labels, counts.own_yes
    labelled: list[tuple[IntArray, bool | None]] = [(yes, True), (labels - yes, False)]
    return [(counts.n - labels, None), *(labelled if label_error else ())]


def _given_label(rate: FloatArray, label: bool | None, label_error: float) -> FloatArray:
    """The chance that an answer of this rate is right where a label that is wrong with chance `label_error` says so."""
    if label is None:
        return rate
    yes, no = (1 - label_error, label_error) if label else (label_error, 1 - label_error)
    return np.asarray(rate * yes / (rate * yes + (1 - rate) * no))


def _open_moments(
    states: ModelStates, kinds: Sequence[tuple[IntArray, bool | None]], label_error: float
) -> tuple[FloatArray, FloatArray]:
    """[D, abilities, kinds x B] mean and mean square of the rates of a model's open answers."""
    means = [_given_label(states.mean, label, label_error) for _, label in kinds]
    return np.concatenate(means, axis=-1), np.concatenate([states.square, *(m**2 for m in means[1:])], axis=-1)


def _set_here(
    states: ModelStates, count: IntArray, moments: tuple[FloatArray, FloatArray], level: float
) -> tuple[int, int]:
    """First and last count of right answers among the open ones, `count` [kinds] with these moments. The shortest set
    leaves a long tail out, so it does not suit a maker to whom judges may be kind."""
    kinds = np.flatnonzero(count)
    count = count[kinds]
    weight = states.by_ability.ravel()
    mean, square = (moment[..., kinds].reshape(len(weight), -1) for moment in moments)
    order = np.argsort(mean @ count, kind="stable")
    in_part = np.zeros((PARTS, len(weight)))
    in_part[_part(weight[order]), order] = weight[order]
    chance = in_part.sum(axis=1)
    size = np.maximum(chance, 1e-300)
    first, second = ((in_part @ moment).T / size for moment in (mean, square))
    alpha, beta = _beta(np.where(size > 1e-200, first, 0.5), second)
    terms = [
        distributions.beta_binomial_pmf(np.array([trials]), *shapes)
        for trials, *shapes in zip(count, alpha, beta, strict=True)
    ]
    law = (chance[:, None] * distributions.sum_pmf(terms, int(count.sum()))).sum(axis=0)
    make_set = distributions.shortest_set if states.has_known_maker else distributions.long_tailed_set
    return make_set(law / law.sum(), level)


def _part(chance: FloatArray) -> IntArray:
    """[N] the part of each entry of `chance`, whose parts have the same chance."""
    reached = np.cumsum(chance)
    return np.asarray(np.minimum((reached / reached[-1] * PARTS).astype(np.int64), PARTS - 1))


def _beta(mean: FloatArray, square: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Alpha and beta of the Beta distributions with these moments."""
    mean = np.clip(mean, 1e-9, 1 - 1e-9)
    size = np.maximum(mean * (1 - mean) / np.maximum(square - mean**2, 1e-15) - 1, 1e-3)
    return mean * size, (1 - mean) * size


# ---- one model, on new items ---------------------------------------------------------------------------------------


def _new_items(fit: Fit, states: ModelStates) -> tuple[float, FloatArray]:
    """The score, and the chance, alpha and beta [3, PARTS] of a mixture of Beta distributions, one for each part of the
    states: judges who may be kind to a maker leave one long tail.

    Given a state the shares of the votes are Dirichlet: the votes at hand and as many as `VOTE_SIZE` that are as the
    model's ability and kindness have it.
    """
    n, zeros = fit.counts.n[states.model].astype(np.float64), int(fit.counts.known_zeros[states.model])
    judged, seats = float(n.sum()), VOTE_SIZE * fit.seat_shares[states.model]
    right, spread = _right_on_new(n, seats, states), _spread_on_new(n, seats, states)
    chance, first, second = _new_parts(states.chance, right, spread[:, None])
    size = judged + VOTE_SIZE
    mean = ((size + 2 * HALF_ITEM) * float((chance * first).sum()) - HALF_ITEM) / size
    answered, answered_square = _answered(judged, zeros)
    first, second = first * answered, second * answered_square
    inside = np.clip(first, 1e-6, 1 - 1e-6)
    variance = np.clip(second - first**2, 1e-12, inside * (1 - inside) * 0.999)
    count = inside * (1 - inside) / variance - 1
    return mean * judged / max(judged + zeros, 1), np.stack([chance, inside * count, (1 - inside) * count])


def _right_on_new(n: FloatArray, seats: FloatArray, states: ModelStates) -> FloatArray:
    """[D, kindness, abilities] the expected share of right answers among new items that a jury judges, with half an
    item that is right and half an item that is wrong."""
    size = n.sum() + VOTE_SIZE + 2 * HALF_ITEM
    at_hand = states.mean @ (n / size) + HALF_ITEM / size
    return np.asarray(np.einsum("dlxb,dxb->dlx", states.mix, states.mean * (seats / size)) + at_hand[:, None])


def _spread_on_new(n: FloatArray, seats: FloatArray, states: ModelStates) -> FloatArray:
    """[D, abilities] the variance that is left where the state is known: of the votes' shares and of their rates."""
    by_ability = np.maximum(states.by_ability, 1e-300)
    mix = np.einsum("dlx,dlxb->dxb", states.chance, states.mix) / by_ability[..., None]
    count = n + seats * mix
    total = n.sum() + VOTE_SIZE + 2 * HALF_ITEM
    mean = ((count * states.mean).sum(axis=-1) + HALF_ITEM) / total
    unsure = np.maximum(states.square - states.mean**2, 0)
    between = (count * (states.mean - mean[..., None]) ** 2).sum(axis=-1) + HALF_ITEM * (mean**2 + (1 - mean) ** 2)
    return np.asarray((between + (count * (count + 1) * unsure).sum(axis=-1)) / (total * (total + 1)))


def _new_parts(chance: FloatArray, mean: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """[PARTS] each: chance, mean and mean square in parts of the states by rising mean, to a 500th."""
    cell = (500 * mean).astype(np.int64).ravel()
    moments = (chance, chance * mean, chance * (mean**2 + spread))
    by_cell = [_sums(cell, moment, 501) for moment in moments]
    part = _part(by_cell[0])
    total, first, second = (_sums(part, moment, PARTS) for moment in by_cell)
    size = np.maximum(total, 1e-300)
    return total, np.where(total > 1e-200, first / size, 0.5), np.where(total > 1e-200, second / size, 0.3)


def _sums(place: IntArray, values: FloatArray, width: int) -> FloatArray:
    """[width] sums of `values` by `place`."""
    return np.bincount(place, values.ravel(), width).astype(np.float64)


def _answered(judged: float, zeros: int) -> tuple[float, float]:
    """Mean and mean square of the share of items that the jury judges: Beta(judged + 1/2, zeros), or 1."""
    size = judged + HALF_ITEM + zeros
    mean = (judged + HALF_ITEM) / size
    return mean, mean * (judged + HALF_ITEM + 1) / (size + 1)


# ---- joint draws ---------------------------------------------------------------------------------------------------


class _RateDraws:
    """Joint draws: points in turn, then the kindness to every maker, then every model's ability and rates.

    `rates`, `mix` [T, K, B]: the rates of the models, and the share of every vote among the votes that it is compared
    with, which the drawn ability and kindness lead one to expect.
    """

    def __init__(self, fit: Fit, draws: int, seed: int) -> None:
        self._fit, self._seed = fit, seed
        self._rng = np.random.default_rng(seed)
        points, _, makers = fit.kindness.shape
        self._point = np.arange(draws) * points // max(draws, 1)
        reached = np.cumsum(fit.kindness, axis=1)
        self._kind = (self._rng.random((draws, 1, makers)) > reached[self._point, :-1]).sum(axis=1)
        self.rates, self.mix = np.empty((2, draws, *fit.counts.n.shape))

    def add(self, states: ModelStates) -> None:
        """Draw the abilities and rates of a model."""
        point, kind = self._point, self._kind[:, self._fit.counts.maker[states.model]]
        reached = np.cumsum(states.chance[point, kind], axis=1)
        ability = (reached < reached[:, -1:] * self._rng.random((len(point), 1))).sum(axis=1)
        alpha, beta = _drawn_beta(states.mean[point, ability], states.square[point, ability])
        self.rates[:, states.model] = self._rng.beta(alpha, beta)
        self.mix[:, states.model] = states.mix[point, kind, ability]

    def on_these(self) -> FloatArray:
        """[T, K] draws of the human-judged accuracy on exactly these items."""
        rng, counts, error = np.random.default_rng([self._seed, 1]), self._fit.counts, self._fit.evidence.label_error
        theta = np.zeros(self.rates.shape[:2])
        if not error:
            theta += counts.own_yes.sum(axis=1)
        for count, label in _open_answers(counts, error):
            rates = _given_label(self.rates, label, error)
            for b in np.flatnonzero(count.any(axis=0)):
                at = np.flatnonzero(count[:, b])
                theta[:, at] += rng.binomial(count[at, b], np.clip(rates[:, at, b], 0, 1))
        return theta / counts.items

    def on_new(self) -> FloatArray:
        """[T, K] draws of the accuracy on new items of the same kind.

        A model's score is the mean of its rates over the items, with weights Dirichlet(1, ..., 1) that all models share
        (a paired comparison), and half an item that is right and half an item that is wrong of the model's own besides.
        """
        rng, counts = np.random.default_rng([self._seed, 2]), self._fit.counts
        draws, models, width = self.rates.shape
        names, item = np.unique(counts.predictions.item, return_inverse=True)
        items, masks = len(names), dict[int, FloatArray]()
        for b in np.unique(counts.row_bin).tolist():  # -1: known zeros
            rows = counts.row_bin == b
            mask = np.zeros((models, items))
            mask[counts.predictions.model[rows], item[rows]] = 1.0
            masks[b] = mask.T
        theta = np.empty((draws, models))
        block = max(1, min(draws, _CELLS // max(1, items, models * width)))
        for at in range(0, draws, block):
            some = slice(at, min(at + block, draws))
            weights = rng.standard_exponential((some.stop - at, items))
            right, wrong = rng.standard_gamma(HALF_ITEM, (2, some.stop - at, models))
            share = {b: weights @ mask for b, mask in masks.items()}
            answered = sum(part for b, part in share.items() if b >= 0)
            expected = self.mix[some] * self._fit.seat_shares
            total = right + _mean_rates(counts.n, expected, share, self.rates[some]) * answered
            theta[some] = total / (sum(share.values()) + right + wrong)
        return theta


def _drawn_beta(mean: FloatArray, square: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, square = np.clip(mean, 1e-9, 1 - 1e-9), np.clip(square, 1e-9, 1 - 1e-9)
    size = np.maximum(mean * (1 - mean) / np.maximum(square - mean**2, 1e-12) - 1, 1e-2)
    return mean * size, (1 - mean) * size


def _mean_rates(n: IntArray, expected: FloatArray, share: Mapping[int, FloatArray], rates: FloatArray) -> FloatArray:
    """Return [T, K] means of `rates` [T, K, B] over answers that a jury judged.

    `share`: by bin the drawn weight of the items at hand, of which there are `n` [K, B]. They count as if `VOTE_SIZE`
    more items had the votes `expected` [T, K, B].
    """
    judged = np.maximum(n.sum(axis=1), 1)
    mass = np.maximum(sum(part for b, part in share.items() if b >= 0), 1e-300)
    narrower = np.sqrt(judged / (judged + VOTE_SIZE))
    means, total = (np.zeros(rates.shape[:2]) for _ in range(2))
    for b in range(rates.shape[2]):
        centre = (n[:, b] + VOTE_SIZE * expected[:, :, b]) / (judged + VOTE_SIZE)
        part = np.maximum(centre + narrower * (share.get(b, 0.0) / mass - n[:, b] / judged), 0.0)
        total += part
        means += part * rates[:, :, b]
    return means / np.maximum(total, 1e-300)


# ---- no longer than labels alone -----------------------------------------------------------------------------------


def _no_longer_than_labels_alone(
    fit: Fit, ends: tuple[FloatArray, FloatArray], scores: tuple[FloatArray, FloatArray], level: float
) -> tuple[FloatArray, FloatArray]:
    """The ends [2, K] on these items and on new ones; where the model's own labels alone give closer ones, those.
    Labels that contradict the score are few, or were not taken whatever the vote."""
    counts = fit.counts
    labels, positives = counts.own_labels.sum(axis=1), counts.own_positives.sum(axis=1)
    alpha, beta = positives + PRIOR, labels - positives + PRIOR
    items, judged = counts.items, counts.n.sum(axis=1)
    usable = (labels > 0) & (not fit.unsure) & _whatever_the_vote(counts)
    if error := fit.evidence.label_error:  # labels bound what people would say, and no answer is known to be right
        usable &= judged == items
        right = (np.stack(distributions.beta_interval(level, alpha, beta)) - error) / (1 - 2 * error)
        alone = (np.clip(right, 0.0, 1.0),) * 2
    else:
        laws = distributions.beta_binomial_pmf(judged - labels, alpha, beta)
        sets = np.array([distributions.shortest_set(law, level) for law in laws]).reshape(-1, 2).T
        rate, share = alpha / (alpha + beta), judged / items
        square = rate * (alpha + 1) / (alpha + beta + 1) * share * (judged + 1) / (items + 1)
        alone = (sets + positives) / items, np.stack(distributions.beta_interval(level, *_beta(share * rate, square)))
    return tuple(  # type: ignore[return-value]
        np.where(
            usable & (low <= score) & (score <= high) & (high - low < joint[1] - joint[0]), np.stack([low, high]), joint
        )
        for (low, high), joint, score in zip(alone, ends, scores, strict=True)
    )


def _whatever_the_vote(counts: Counts) -> FloatArray:
    """[K] whether a model's labels are spread over its votes as chance would have it: by the exact test of each vote,
    the strictest of which counts once for every vote."""
    n, labels = counts.n.sum(axis=1, keepdims=True), counts.own_labels.sum(axis=1, keepdims=True)
    tests = (
        distributions.hypergeometric_test(*of_model)
        for of_model in zip(counts.own_labels, labels, counts.n, n, strict=True)
    )
    chance = np.array(list(tests)).reshape(counts.n.shape)
    strictest = chance.min(axis=1, initial=1.0) * (counts.n > 0).sum(axis=1)
    return np.asarray((strictest >= _BY_CHANCE) | (n == labels)[:, 0])


def _no_shorter_than_sampling(items: IntArray, share: FloatArray, ends: FloatArray, level: float) -> FloatArray:
    """The ends [2, K] for new items; of few items, where Jeffreys' interval is longer, with its ends."""
    right = items * share
    low, high = distributions.beta_interval(level, right + PRIOR, items - right + PRIOR)
    is_short = (items < FEW_ITEMS) & (ends[1] - ends[0] < high - low)
    return np.where(is_short, [np.minimum(ends[0], low), np.maximum(ends[1], high)], ends)
