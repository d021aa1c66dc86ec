"""Worlds for the gate: made-up boards on which a vote need not mean the same for every model, one at a time.

A world with `rates` draws the vote first and then people's verdict from the rate of the vote, moved by `slope` times
the model's log odds less the mean, by `shift` of its maker and by `own` of itself. One with `judges` draws the verdict
first and then every judge's vote, right with the chance given, so that errors hang on the truth; `fooled` is the share
of items whose wrong answers all judges believe, `seduction` the deviation by item of the log odds of believing a wrong
answer, `copied` the chance that a judge repeats the first one. Eleven models of seven makers; the last four have no
labels.
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
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True, slots=True)
class World:
    """What a cell holds fixed; `labels` an own model, on `same_items` where all are labelled on the same ones, only at
    the votes `labelled_votes`; `missing`: chance that a judge's verdict is."""

    rates: tuple[float, ...] | None = (0.01, 0.24, 0.87, 0.972)
    judges: tuple[float, float] = (0.9, 0.9)
    slope: float = 0.0
    shift: float = 0.15
    own: float = 0.0
    correlation: float = 0.0
    fooled: float = 0.0
    seduction: float = 0.0
    copied: float = 0.0
    items: int = 186
    labels: int = 80
    same_items: bool = False
    labelled_votes: tuple[int, ...] = (0, 1, 2, 3)
    missing: float = 0.0
    strengths: tuple[float, ...] = STRENGTHS
    makers: tuple[int, ...] = PROVIDERS
    labelled: int = LABELLED


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


def draw(world: World, rng: np.random.Generator) -> Board:
    """One board of a world."""
    maker = np.array(world.makers)
    if world.rates is not None:
        yes, correct, new = _vote_first(world, rng, maker)
    else:
        yes, correct, new = _truth_first(world, rng, maker)
    seen = rng.random((*yes.shape, SEATS)) >= world.missing
    said = rng.permuted(np.arange(SEATS) < yes[..., None], axis=-1)
    votes, total = (said & seen).sum(axis=-1), seen.sum(axis=-1)
    models, items = yes.shape
    model, item = np.repeat(np.arange(models), items), np.tile(np.arange(items), models)
    target = Predictions(model, item, votes.ravel(), total.ravel(), np.zeros(model.size, dtype=np.bool_), maker)
    rows = np.flatnonzero(_labelled(world, rng, yes).ravel())
    gold = LabelledAnswers(
        model[rows], maker[model[rows]], votes.ravel()[rows], total.ravel()[rows],
        correct.ravel()[rows].astype(np.int64), rows,
    )  # fmt: skip
    return Board(target, gold, correct.ravel(), correct.mean(axis=1), new)


def _vote_first(world: World, rng: np.random.Generator, maker: IntArray) -> tuple[IntArray, BoolArray, FloatArray]:
    normal = NormalDist()
    strength = np.array([normal.inv_cdf(s) for s in world.strengths])
    size = (len(strength), world.items)
    latent = strength[:, None] + rng.standard_normal((1, world.items)) * _DIFFICULTY**0.5
    latent = latent + rng.standard_normal(size) * (1 - _DIFFICULTY) ** 0.5
    cuts = (-_CONTESTED, 0.0, _CONTESTED)
    yes = np.searchsorted(cuts, latent)
    cdf = np.array([[0.0, *(normal.cdf(c - s) for c in cuts), 1.0] for s in strength.tolist()])
    share = np.diff(cdf, axis=1)
    base = np.array(world.rates)
    jury = share @ (np.arange(4) / 3)
    ability = np.log(jury / (1 - jury))
    odds = np.log(base / (1 - base)) + world.slope * (ability - ability[: world.labelled].mean())[:, None]
    odds = odds + (world.shift * rng.standard_normal((maker.max() + 1, 4)))[maker]
    odds = odds + world.own * rng.standard_normal(odds.shape)
    rate = 1 / (1 + np.exp(-odds))
    shared = rng.standard_normal((1, world.items)) * world.correlation**0.5
    uniform = shared + rng.standard_normal(size) * (1 - world.correlation) ** 0.5
    cut = np.vectorize(normal.inv_cdf)(np.clip(rate, 1e-12, 1 - 1e-12))
    return yes, uniform < np.take_along_axis(cut, yes, axis=1), (share * rate).sum(axis=1)


def _truth_first(world: World, rng: np.random.Generator, maker: IntArray) -> tuple[IntArray, BoolArray, FloatArray]:
    ability = np.log(np.array(world.strengths) / (1 - np.array(world.strengths))) * 1.4
    size = (len(ability), world.items)
    correct = rng.random(size) < 1 / (1 + np.exp(-(ability[:, None] + 1.5 * rng.standard_normal((1, world.items)))))
    new = (1 / (1 + np.exp(-(ability[:, None] + 1.5 * _NODES))) * _WEIGHTS).sum(axis=1) / _WEIGHTS.sum()
    right, wrong = (np.log(p / (1 - p)) for p in world.judges)
    believes = -wrong + world.seduction * rng.standard_normal((1, world.items))
    believes = np.where(rng.random((1, world.items)) < world.fooled, 2.5, believes)
    by_maker = (world.shift * rng.standard_normal(maker.max() + 1))[maker][:, None]
    chance = 1 / (1 + np.exp(-(np.where(correct, right, believes) + by_maker)))
    said = rng.random((*size, SEATS)) < chance[..., None]
    copies = rng.random((*size, SEATS)) < world.copied
    said = np.where(copies, said[..., :1], said)
    return said.sum(axis=-1), correct, new


def _labelled(world: World, rng: np.random.Generator, yes: IntArray) -> BoolArray:
    """[K, n] exactly so many labels a model, fewer where fewer rows have one of the labelled votes."""
    order = rng.random(yes.shape[1]) * np.ones(yes.shape) if world.same_items else rng.random(yes.shape)
    order = np.where(np.isin(yes, world.labelled_votes), order, np.inf)
    rank = np.argsort(np.argsort(order, axis=1), axis=1)
    keep = (rank < world.labels) & np.isfinite(order)
    keep[world.labelled :] = False
    return np.asarray(keep)


_FAIR = (0.01, 0.24, 0.87, 0.972)
_SHARP = (0.003, 0.20, 0.75, 0.997)
WORLDS: dict[str, World] = {
    "fair judges": World(),
    "sharp judges": World(rates=_SHARP),
    "adverse judges": World(rates=(0.03, 0.30, 0.65, 0.93)),
    "shift 0.4": World(shift=0.4),
    "slope 0.35": World(slope=0.35),
    "slope 1": World(slope=1.0),
    "slope 1, each its own": World(slope=1.0, own=0.3),
    "honest judges": World(rates=None),
    "noisy judges": World(rates=None, judges=(0.75, 0.75)),
    "judges near useless": World(rates=None, judges=(0.6, 0.6)),
    "items that fool all": World(rates=None, fooled=0.08),
    "seduced by item": World(rates=None, seduction=1.5),
    "judges who copy": World(rates=None, copied=0.5),
    "same verdicts, same items": World(correlation=0.75, same_items=True),
    "labels at 0 and 3 votes only": World(labelled_votes=(0, 3)),
    "labels at 1 and 2 votes only": World(labelled_votes=(1, 2)),
    "5 labels": World(labels=5, slope=0.35),
    "10 labels": World(labels=10, slope=0.35),
    "20 labels": World(labels=20, slope=0.35),
    "130 labels": World(labels=130, slope=0.35),
    "5 items": World(items=5, labels=3),
    "20 items": World(items=20, labels=9),
    "42 items": World(items=42, labels=18),
    "ceilings": World(strengths=(0.98, 0.97, 0.99, 0.96, 0.98, 0.95, 0.97, 0.985, 0.96, 0.9, 0.99), slope=0.35),
    "floors": World(strengths=(0.02, 0.03, 0.05, 0.04, 0.02, 0.08, 0.03, 0.03, 0.05, 0.1, 0.01), slope=0.35),
    "a verdict in seven missing": World(missing=0.15),
}
