"""Worlds that draw the vote first: made-up boards on which a vote need not mean the same for every model.

People's verdict is drawn from the rate of the vote, moved by `slope` times the model's log odds less the mean, by
`shift` of its maker and by `own` of itself. Eleven models of seven makers; the last four have no labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from layton_batch.stats.counts import BoolArray, FloatArray, IntArray, LabelledAnswers, Predictions

STRENGTHS = (0.96, 0.84, 0.83, 0.80, 0.70, 0.48, 0.22, 0.73, 0.66, 0.12, 0.97)  # share of unanimous and near-yes items
PROVIDERS = (0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 6)
LABELLED, SEATS = 7, 3
_CONTESTED, _DIFFICULTY = 0.12, 0.7
_RATES = (0.01, 0.24, 0.87, 0.972)  # of a person's yes at 0 to 3 votes


@dataclass(frozen=True, slots=True)
class World:
    """What a world holds fixed; `labels`: of each of the first models; `missing`: chance that a judge's verdict is;
    `correlation`: of people's verdicts on one item, given the votes."""

    slope: float = 0.0
    shift: float = 0.15
    own: float = 0.0
    correlation: float = 0.0
    items: int = 186
    labels: int = 80
    missing: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One board: its predictions and labels, what people say or would say of every one [R], and the accuracy on these
    items and on new ones, [K] each."""

    target: Predictions
    gold: LabelledAnswers
    correct: BoolArray
    here: FloatArray
    new: FloatArray
    anchors: tuple[BoolArray, BoolArray, BoolArray] | None = None
    """Of labelled answers that the jury judged again: the first verdicts and the later ones, [N, seats] each, and what
    is right [N]."""
    unsure: float = 0.0
    """The share of the answers that people saw and gave no label."""


def draw(world: World, rng: np.random.Generator) -> Board:
    """One board of a world."""
    maker = np.array(PROVIDERS)
    yes, correct, new = _answers(world, rng, maker)
    seen = rng.random((*yes.shape, SEATS)) >= world.missing
    said = rng.permuted(np.arange(SEATS) < yes[..., None], axis=-1)
    votes, total = (said & seen).sum(axis=-1), seen.sum(axis=-1)
    models, items = yes.shape
    model, item = np.repeat(np.arange(models), items), np.tile(np.arange(items), models)
    target = Predictions(model, item, votes.ravel(), total.ravel(), np.zeros(model.size, dtype=np.bool_), maker)
    is_labelled = np.argsort(np.argsort(rng.random(yes.shape), axis=1), axis=1) < world.labels
    is_labelled[LABELLED:] = False
    rows = np.flatnonzero(is_labelled.ravel())
    gold = LabelledAnswers(
        model[rows], maker[model[rows]], votes.ravel()[rows], total.ravel()[rows],
        correct.ravel()[rows].astype(np.int64), rows,
    )  # fmt: skip
    return Board(target, gold, correct.ravel(), correct.mean(axis=1), new)


def _answers(world: World, rng: np.random.Generator, maker: IntArray) -> tuple[IntArray, BoolArray, FloatArray]:
    """[K, I] votes of yes and what people say, and [K] the accuracy on new items."""
    normal = NormalDist()
    strength = np.array([normal.inv_cdf(s) for s in STRENGTHS])
    size = (len(strength), world.items)
    latent = strength[:, None] + rng.standard_normal((1, world.items)) * _DIFFICULTY**0.5
    latent = latent + rng.standard_normal(size) * (1 - _DIFFICULTY) ** 0.5
    cuts = (-_CONTESTED, 0.0, _CONTESTED)
    yes = np.searchsorted(cuts, latent)
    cdf = np.array([[0.0, *(normal.cdf(c - s) for c in cuts), 1.0] for s in strength.tolist()])
    share = np.diff(cdf, axis=1)
    base = np.array(_RATES)
    jury = share @ (np.arange(4) / 3)
    ability = np.log(jury / (1 - jury))
    odds = np.log(base / (1 - base)) + world.slope * (ability - ability[:LABELLED].mean())[:, None]
    odds = odds + (world.shift * rng.standard_normal((maker.max() + 1, 4)))[maker]
    odds = odds + world.own * rng.standard_normal(odds.shape)
    rate = 1 / (1 + np.exp(-odds))
    shared = rng.standard_normal((1, world.items)) * world.correlation**0.5
    uniform = shared + rng.standard_normal(size) * (1 - world.correlation) ** 0.5
    cut = np.vectorize(normal.inv_cdf)(np.clip(rate, 1e-12, 1 - 1e-12))
    return yes, uniform < np.take_along_axis(cut, yes, axis=1), (share * rate).sum(axis=1)
