"""Joint draws from the hierarchical posterior: every model's rate in every vote, exactly as they hang together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.hierarchical import VOTE_SIZE, Fit, States
from layton_batch.stats.hierarchical_scores import right_given_label, seat_shares
from layton_batch.stats.joint import JointDraws, ShrunkRates, bin_table, weigh_items
from layton_batch.stats.strata import FloatArray, IntArray, Strata, TargetPredictions


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
    rates, mix = (np.empty((draws, fit.models, len(fit.table.place))) for _ in range(2))
    for states in fit.states():
        for at, model in enumerate(states.models.tolist()):
            of_maker = kind[:, fit.table.maker[model]]
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


def draws_on_these(strata: Strata, drawn: RateDraws, *, seed: int) -> JointDraws:
    """Draws of the human-judged accuracy on exactly these items."""
    rng = np.random.default_rng([seed, 1])
    models = np.flatnonzero(strata.items > 0)
    labels, positives = strata.own_labels[models], strata.own_positives[models]
    theta = np.zeros((len(drawn.rates), len(models)))
    kinds = [(strata.n[models] - labels, drawn.rates[:, models])]
    if drawn.label_error:
        for count, label in ((positives, True), (labels - positives, False)):
            kinds.append((count, right_given_label(kinds[0][1], label, drawn.label_error)))
    else:
        theta += positives.sum(axis=1)
    for count, rates in kinds:
        for b in np.flatnonzero(count.any(axis=0)):
            at = np.flatnonzero(count[:, b])
            theta[:, at] += rng.binomial(count[at, b], np.clip(rates[:, at, b], 0, 1))
    return JointDraws(theta / strata.items[models], models)


def draws_on_new(strata: Strata, target: TargetPredictions, drawn: RateDraws, *, seed: int) -> JointDraws:
    """Draws of the accuracy on new items of the same kind, from weights of the items that all models share."""
    models = np.flatnonzero(strata.items > 0)
    bins, items = bin_table(strata, target, models)
    expected = drawn.mix[:, models] * seat_shares(strata, models, drawn.group)
    shrunk = ShrunkRates(strata.n[models], expected, VOTE_SIZE)
    theta = weigh_items(bins, items, drawn.rates[:, models], np.random.default_rng([seed, 2]), shrunk)
    return JointDraws(theta, models)
