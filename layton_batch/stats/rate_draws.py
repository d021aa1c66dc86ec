"""Joint draws from the hierarchical posterior: every model's rate in every vote, exactly as they hang together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.counts import Counts, FloatArray, IntArray
from layton_batch.stats.hierarchical import VOTE_SIZE, Fit, States
from layton_batch.stats.hierarchical_scores import right_given_label, seat_shares
from layton_batch.stats.joint import ShrunkRates, weigh_items


@dataclass(frozen=True, slots=True, eq=False)
class RateDraws:
    """[T, K, B] each: `rates` of the models, and `mix`, the share of every vote among the votes of its `group` [B] that
    the drawn ability and kindness lead one to expect."""

    rates: FloatArray
    mix: FloatArray
    label_error: float
    group: IntArray


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
    return RateDraws(rates, mix, fit.evidence.label_error, fit.group)


def _of_model(
    states: States, at: int, point: IntArray, kind: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """[T, B] rates and mix of one model."""
    count, kinds, abilities = states.chance.shape[1:]
    reached = np.cumsum(states.chance[at].reshape(-1, abilities), axis=1)
    reached /= np.maximum(reached[:, -1:], 1e-300)
    cell = point * kinds + kind
    flat = (reached + np.arange(count * kinds)[:, None]).ravel()
    ability = np.searchsorted(flat, cell + rng.random(len(cell)), side="right") - cell * abilities
    ability = np.clip(ability, 0, abilities - 1)
    mean, square = (np.clip(moment[at][point, ability], 1e-9, 1 - 1e-9) for moment in (states.mean, states.square))
    size = np.maximum(mean * (1 - mean) / np.maximum(square - mean**2, 1e-12) - 1, 1e-2)
    return rng.beta(mean * size, (1 - mean) * size), states.mix[point, kind, ability]


def draws_on_these(counts: Counts, drawn: RateDraws, *, seed: int) -> FloatArray:
    """[T, K] draws of the human-judged accuracy on exactly these items."""
    rng = np.random.default_rng([seed, 1])
    labels, positives = counts.own_labels, counts.own_positives
    theta = np.zeros(drawn.rates.shape[:2])
    kinds = [(counts.n - labels, drawn.rates)]
    if drawn.label_error:
        for count, label in ((positives, True), (labels - positives, False)):
            kinds.append((count, right_given_label(drawn.rates, label, drawn.label_error)))
    else:
        theta += positives.sum(axis=1)
    for count, rates in kinds:
        for b in np.flatnonzero(count.any(axis=0)):
            at = np.flatnonzero(count[:, b])
            theta[:, at] += rng.binomial(count[at, b], np.clip(rates[:, at, b], 0, 1))
    return theta / counts.items


def draws_on_new(counts: Counts, drawn: RateDraws, *, seed: int) -> FloatArray:
    """[T, K] draws of the accuracy on new items of the same kind, from weights of the items that all models share."""
    expected = drawn.mix * seat_shares(counts, np.arange(counts.models), drawn.group)
    shrunk = ShrunkRates(counts.n, expected, VOTE_SIZE)
    bins, items = _bin_table(counts)
    return weigh_items(bins, items, drawn.rates, np.random.default_rng([seed, 2]), shrunk)


def _bin_table(counts: Counts) -> tuple[IntArray, int]:
    """[K, I] bin of every item, -1 known zero, -2 not asked; and the number of items."""
    names, item = np.unique(counts.predictions.item, return_inverse=True)
    table = np.full((counts.models, len(names)), -2)
    table[counts.predictions.model, item] = counts.row_bin
    return table, len(names)
