"""Joint posterior draws of all models' scores: every comparison between models is read off one [draws, models] matrix.

One draw takes one rate per vote bin, p_b ~ Beta(1/2 + positives, 1/2 + negatives) over all labels, shared by all
models, so that what the labels leave open moves models together and cancels in their differences. On these items a
model's score is its own labels plus Binomial(unlabelled_b, p_b); for new items it is sum_r w_r p_b(i,r) with weights
w ~ Dirichlet(1, ..., 1) over the items, shared too (a paired comparison). Provider shift is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.strata import FloatArray, IntArray, Ints, Strata, TargetPredictions

DRAWS = 4000
_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class JointDraws:
    """`theta` [T, K'] draws (fractions) of the K' models that have items; `models` [K'] are their indices."""

    theta: FloatArray
    models: IntArray


def joint_draws(strata: Strata, *, seed: int, draws: int = DRAWS) -> JointDraws:
    """Draws of the human-judged accuracy on exactly these items. Memory: 8 bytes x draws x models."""
    rng = np.random.default_rng(seed)
    models = np.flatnonzero(strata.items > 0)
    rates = _rates(strata, rng, draws)
    left = (strata.n - strata.own_labels)[models]
    theta = np.broadcast_to(strata.own_positives[models].sum(axis=1).astype(np.float64), (draws, len(models))).copy()
    for b in np.flatnonzero(left.any(axis=0)):
        at = np.flatnonzero(left[:, b])  # most models have nothing in most contested bins
        theta[:, at] += rng.binomial(left[at, b], rates[:, b, None])
    theta /= strata.items[models]
    return JointDraws(theta, models)


def joint_draws_new_items(strata: Strata, target: TargetPredictions, *, seed: int, draws: int = DRAWS) -> JointDraws:
    """Draws of the accuracy on new items of the same kind; `target` is what `strata` was built from.

    A model that lacks some items is weighed over those it has.
    """
    rng = np.random.default_rng(seed)
    models = np.flatnonzero(strata.items > 0)
    bins, items = _bin_table(strata, target, models)
    rates = _rates(strata, rng, draws)
    theta = np.empty((draws, len(models)))
    block = max(1, _CELLS // max(1, items, len(models)))
    for at in range(0, draws, block):
        rows = slice(at, min(at + block, draws))
        weights = rng.standard_exponential((rows.stop - at, items))
        score, mass = np.zeros((2, rows.stop - at, len(models)))
        for b in range(-1, len(strata.bin_yes)):
            share = weights @ (bins == b).T.astype(np.float64)
            mass += share
            if b >= 0:
                score += share * rates[rows, b, None]
        theta[rows] = score / mass
    return JointDraws(theta, models)


def _rates(strata: Strata, rng: np.random.Generator, draws: int) -> FloatArray:
    """[T, B] one rate a draw and bin, shared by all models."""
    negatives = strata.all_labels - strata.all_positives
    return rng.beta(0.5 + strata.all_positives, 0.5 + negatives, (draws, len(strata.bin_yes)))


def _bin_table(strata: Strata, target: TargetPredictions, models: IntArray) -> tuple[Ints, int]:
    """[K', I] bin of every item, -1 known zero, -2 not asked; and the number of items."""
    names, item = np.unique(target.item, return_inverse=True)
    place = np.full(len(strata.items), -1, dtype=np.int64)
    place[models] = np.arange(len(models))
    table = np.full((len(models), len(names)), -2, dtype=strata.row_bin.dtype)
    table[place[target.model], item] = strata.row_bin
    return table, len(names)
