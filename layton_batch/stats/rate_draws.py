"""Joint draws from the hierarchical posterior: every model's rate at every vote, and the scores that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from layton_batch.stats.counts import Counts, FloatArray, IntArray
from layton_batch.stats.hierarchical import VOTE_SIZE, Fit, States
from layton_batch.stats.hierarchical_scores import HALF_ITEM, right_given_label

DRAWS = 3_000
_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class RateDraws:
    """[T, K, B] each: `rates` of the models, and `mix`, the share of every vote among the votes that it is compared
    with, which the drawn ability and kindness lead one to expect."""

    rates: FloatArray
    mix: FloatArray


def rate_draws(fit: Fit, *, seed: int, draws: int) -> RateDraws:
    """Draw points in turn, then the kindness to every maker, every model's ability and its rates."""
    rng = np.random.default_rng(seed)
    count, _, makers = fit.kindness.shape
    point = np.arange(draws) * count // max(draws, 1)
    reached = np.cumsum(fit.kindness, axis=1)
    kind = (rng.random((draws, 1, makers)) > reached[point, :-1]).sum(axis=1)
    rates, mix = (np.empty((draws, fit.counts.models, len(fit.counts.bins))) for _ in range(2))
    for states in fit.states():
        for at, model in enumerate(states.models.tolist()):
            of_maker = kind[:, fit.counts.maker[model]]
            rates[:, model], mix[:, model] = _of_model(states, at, point, of_maker, rng)
    return RateDraws(rates, mix)


def _of_model(
    states: States, at: int, point: IntArray, kind: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """[T, B] rates and mix of one model."""
    reached = np.cumsum(states.chance[at][point, kind], axis=1)
    ability = (reached < reached[:, -1:] * rng.random((len(point), 1))).sum(axis=1)
    mean, square = (np.clip(moment[at][point, ability], 1e-9, 1 - 1e-9) for moment in (states.mean, states.square))
    size = np.maximum(mean * (1 - mean) / np.maximum(square - mean**2, 1e-12) - 1, 1e-2)
    return rng.beta(mean * size, (1 - mean) * size), states.mix[point, kind, ability]


def draws_on_these(fit: Fit, drawn: RateDraws, *, seed: int) -> FloatArray:
    """[T, K] draws of the human-judged accuracy on exactly these items."""
    rng, counts, error = np.random.default_rng([seed, 1]), fit.counts, fit.evidence.label_error
    labels, positives = counts.own_labels, counts.own_yes
    theta = np.zeros(drawn.rates.shape[:2])
    kinds = [(counts.n - labels, drawn.rates)]
    if error:
        for count, label in ((positives, True), (labels - positives, False)):
            kinds.append((count, right_given_label(drawn.rates, label, error)))
    else:
        theta += positives.sum(axis=1)
    for count, rates in kinds:
        for b in np.flatnonzero(count.any(axis=0)):
            at = np.flatnonzero(count[:, b])
            theta[:, at] += rng.binomial(count[at, b], np.clip(rates[:, at, b], 0, 1))
    return theta / counts.items


def draws_on_new(fit: Fit, drawn: RateDraws, *, seed: int) -> FloatArray:
    """[T, K] draws of the accuracy on new items of the same kind.

    A model's score is the mean of its rates over the items, with weights Dirichlet(1, ..., 1) that all models share (a
    paired comparison), and half an item that is right and half an item that is wrong of the model's own besides.
    """
    rng, counts = np.random.default_rng([seed, 2]), fit.counts
    expected = drawn.mix * fit.seat_shares(np.arange(counts.models))
    bins, items = _bin_table(counts)
    draws, models, width = drawn.rates.shape
    theta = np.empty((draws, models))
    block = min(draws, max(1, _CELLS // max(1, items, models * width)))
    masks = {b: mask.T.astype(np.float64) for b in range(-1, width) if (mask := bins == b).any()}
    for at in range(0, draws, block):
        rows = slice(at, min(at + block, draws))
        weights = rng.standard_exponential((rows.stop - at, items))
        right, wrong = rng.standard_gamma(HALF_ITEM, (2, rows.stop - at, models))
        share = {b: weights @ mask for b, mask in masks.items()}
        answered = sum(part for b, part in share.items() if b >= 0)
        total = right + _mean_rates(counts.n, expected[rows], share, drawn.rates[rows]) * answered
        theta[rows] = total / (sum(share.values()) + right + wrong)
    return theta


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


def _bin_table(counts: Counts) -> tuple[IntArray, int]:
    """[K, I] bin of every item, -1 known zero, -2 not asked; and the number of items."""
    names, item = np.unique(counts.predictions.item, return_inverse=True)
    table = np.full((counts.models, len(names)), -2)
    table[counts.predictions.model, item] = counts.row_bin
    return table, len(names)
