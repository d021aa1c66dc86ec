"""Worlds that draw the truth first and then judges who err: none of them assumes what a method of this package assumes.

Whether an answer is right follows from the model's ability and the item's difficulty. Four judges have chances of their
own to see a right answer as right and a wrong one as wrong. Their errors share a deviation by answer and one by item,
lean on the difficulty, and judges are kinder to some makers than to others. Three judges vote on an answer; the judge
of the model's own maker never does. Seven models have labels. Three newcomers, by default right in .9, .6 and .2 of
their answers, have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl

from layton_batch.scoring.evidence import Entrant
from layton_batch.stats.counts import BoolArray, FloatArray, IntArray, LabelledAnswers, Predictions
from tests.stats.worlds import Board, World
from tests.stats.worlds import draw as draw_vote_first
from tests.support.evidence import Ballot, Label, frames

OWN = (0.86, 0.85, 0.83, 0.80, 0.74, 0.70, 0.47)
OWN_MAKERS = (0, 0, 1, 1, 2, 2, 3)
NEWCOMERS = (0.9, 0.6, 0.2)
NEW_MAKERS = (4, 5, 6)
DIFFICULTY = 1.6
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)

Design = Literal["random", "same items", "ends", "middle", "contested first", "only all yes"]


@dataclass(frozen=True, slots=True)
class TruthWorld:
    """One world. `sees_right`, `sees_wrong`: least and greatest chance of the four judges, before shared deviations
    (`by_answer`, `by_item`: standard deviations in log odds; `lean`: how much likelier errors are on an item whose
    difficulty is one deviation higher). `kindness`: deviation of judges' log odds of a yes by maker; `lenient`: one
    maker and by how much judges are kinder to it. `fooled`: share of items whose wrong answers look right; `copied`:
    chance that a judge repeats the first judge of the jury. `wrong_labels`: share of labels that are flipped;
    `skipped`: share of answers that people are unsure about and skip, twice as much on the hardest items. `drift`: what
    the log odds of the judges' right verdicts on newcomers fall by; `later_drift`: on all answers without a label,
    which were judged later; `anchors`: so many labelled answers were judged again then. `lenient_judge`: by how much
    one of the judges says yes more readily. `in_turn`: a third judge is asked only where two differ, another one by
    turns from item to item."""

    sees_right: tuple[float, float] = (0.90, 0.94)
    sees_wrong: tuple[float, float] = (0.88, 0.93)
    by_answer: float = 0.7
    by_item: float = 0.4
    lean: float = 0.4
    kindness: float = 0.15
    lenient: tuple[int, float] | None = None
    fooled: float = 0.0
    copied: float = 0.0
    judges: int = 4
    seats: int = 3
    items: int = 186
    labels: int = 80
    design: Design = "random"
    wrong_labels: float = 0.0
    skipped: float = 0.0
    drift: float = 0.0
    later_drift: float = 0.0
    anchors: int = 0
    lenient_judge: float = 0.0
    in_turn: bool = False
    own: tuple[float, ...] = OWN
    own_makers: tuple[int, ...] = OWN_MAKERS
    newcomers: tuple[float, ...] = NEWCOMERS
    new_makers: tuple[int, ...] = NEW_MAKERS


_NOISY = TruthWorld(sees_right=(0.73, 0.77), sees_wrong=(0.73, 0.77))
_NOISIER = TruthWorld(sees_right=(0.63, 0.67), sees_wrong=(0.63, 0.67))
_ONE_MODEL = TruthWorld(own=(0.8,), own_makers=(0,), newcomers=())
_USELESS = TruthWorld(sees_right=(0.56, 0.60), sees_wrong=(0.56, 0.60))
WORLDS: dict[str, TruthWorld | World] = {
    "honest": TruthWorld(),
    "noisy .75": _NOISY,
    "noisy .65": _NOISIER,
    "near useless .58": _USELESS,
    "8 % of items fool": TruthWorld(fooled=0.08),
    "20 % of items fool": TruthWorld(fooled=0.20),
    "copying .6": TruthWorld(copied=0.6),
    "tied": TruthWorld(own=(0.8,) * 7),
    "lenient to a labelled maker": TruthWorld(lenient=(1, 1.0)),
    "lenient to a newcomer's maker": TruthWorld(lenient=(5, 1.0)),
    "kindness sd .3": TruthWorld(kindness=0.3),
    "kindness sd .5": TruthWorld(kindness=0.5),
    "hard items fool": TruthWorld(lean=1.2),
    "labels on the same items": TruthWorld(design="same items"),
    "labels at the ends": TruthWorld(design="ends"),
    "labels in the middle": TruthWorld(design="middle"),
    "contested first": TruthWorld(design="contested first"),
    "only unanimous yes": TruthWorld(design="only all yes"),
    "0 labels but one model's": TruthWorld(own=(0.8,), own_makers=(0,), newcomers=(0.9, 0.6, 0.2, 0.7)),
    "5 labels": TruthWorld(labels=5),
    "10 labels": TruthWorld(labels=10),
    "20 labels": TruthWorld(labels=20),
    "130 labels": TruthWorld(labels=130),
    "noisy .75, 5 labels": replace(_NOISY, labels=5),
    "noisy .75, 10 labels": replace(_NOISY, labels=10),
    "noisy .75, 20 labels": replace(_NOISY, labels=20),
    "noisy .75, 130 labels": replace(_NOISY, labels=130),
    "5 items": TruthWorld(items=5, labels=3),
    "3 items, 1 model": replace(_ONE_MODEL, items=3, labels=3),
    "5 items, 1 model": replace(_ONE_MODEL, items=5, labels=5),
    "20 items": TruthWorld(items=20, labels=9),
    "42 items": TruthWorld(items=42, labels=18),
    "1,000 items": TruthWorld(items=1000, labels=80),
    "ceilings": TruthWorld(own=(0.98, 0.97, 0.99, 0.96, 0.98, 0.95, 0.97), newcomers=(0.985, 0.96, 0.9)),
    "floors": TruthWorld(own=(0.02, 0.03, 0.05, 0.04, 0.02, 0.08, 0.03), newcomers=(0.05, 0.1, 0.01)),
    "3 models": TruthWorld(own=(0.85, 0.6), own_makers=(0, 1), newcomers=(0.7,), new_makers=(4,)),
    "40 models": TruthWorld(own=tuple(np.linspace(0.4, 0.92, 32)), own_makers=tuple(np.arange(32) % 8),
                            newcomers=tuple(np.linspace(0.2, 0.9, 8)), new_makers=tuple(8 + np.arange(8) % 4)),
    "300 models": TruthWorld(own=tuple(np.linspace(0.2, 0.95, 40)), own_makers=tuple(np.arange(40) % 8),
                             newcomers=tuple(np.linspace(0.1, 0.97, 260)), new_makers=tuple(np.arange(260) % 20)),
    "1 judge": TruthWorld(seats=1),
    "2 judges": TruthWorld(seats=2),
    "2 % wrong labels": TruthWorld(wrong_labels=0.02),
    "5 % wrong labels": TruthWorld(wrong_labels=0.05),
    "hard answers skipped": TruthWorld(skipped=0.3),
    "hard answers skipped, noisy .75": replace(_NOISY, skipped=0.3),
    "judges drift": TruthWorld(drift=0.7),
    "all votes drift": TruthWorld(later_drift=0.8),
    "all votes drift, 20 anchors": TruthWorld(later_drift=0.8, anchors=20),
    "no drift, 20 anchors": TruthWorld(anchors=20),
    "two, then the third": TruthWorld(in_turn=True),
    "two, then the third, noisy .75": replace(_NOISY, in_turn=True),
    "two, then the third, tied": TruthWorld(own=(0.8,) * 7, in_turn=True),
    "two, then the third, a lenient judge": TruthWorld(lenient_judge=1.0, in_turn=True),
    "no labels": TruthWorld(labels=0),
    "no labels, noisy .75": replace(_NOISY, labels=0),
    "no labels, near useless .58": replace(_USELESS, labels=0),
    "no labels, lenient to a maker": TruthWorld(labels=0, lenient=(1, 1.0)),
    "no labels, copying .6": TruthWorld(labels=0, copied=0.6),
    "vote first, slope 0": World(),
    "vote first, slope .35": World(slope=0.35),
    "vote first, slope 1": World(slope=1.0),
    "vote first, shift .4": World(shift=0.4),
}  # fmt: skip
CORE = (
    "honest", "noisy .75", "noisy .65", "near useless .58", "8 % of items fool", "copying .6",
    "lenient to a labelled maker", "lenient to a newcomer's maker", "kindness sd .3", "kindness sd .5",
    "hard items fool", "5 labels", "10 labels", "noisy .75, 10 labels", "20 items", "1,000 items", "5 % wrong labels",
    "vote first, slope 0", "vote first, slope 1",
)  # fmt: skip


def draw(world: TruthWorld | World, rng: np.random.Generator) -> Board:
    """One board of a world."""
    if isinstance(world, World):
        return draw_vote_first(world, rng)
    strengths = (*world.own, *world.newcomers)
    maker = np.array((*world.own_makers[: len(world.own)], *_new_makers(world)))
    difficulty = rng.standard_normal(world.items)
    ability = np.array([_ability(share) for share in strengths])
    chance = _sigmoid(ability[:, None] - DIFFICULTY * difficulty)
    correct = rng.random(chance.shape) < chance
    first, later = _verdicts(world, rng, correct, difficulty, maker)
    yes, total = _counted(world, first)
    labelled = _labelled(world, rng, yes, total)
    unsure = 0.0
    if world.skipped:
        seen = labelled.sum()
        labelled &= rng.random(labelled.shape) > 2 * world.skipped * _sigmoid(2 * difficulty)
        unsure = 1 - labelled.sum() / seen
    anchors = None
    if later is not None:
        yes_later, total_later = _counted(world, later)
        yes, total = np.where(labelled, yes, yes_later), np.where(labelled, total, total_later)
        asked = rng.permutation(np.flatnonzero(labelled.ravel()))[: world.anchors]
        anchors = (*(said.reshape(-1, world.seats)[asked] for said in (first, later)), correct.ravel()[asked])
    models, items = correct.shape
    model, item = np.repeat(np.arange(models), items), np.tile(np.arange(items), models)
    total = total.ravel()
    target = Predictions(model, item, yes.ravel(), total, np.zeros(model.size, dtype=np.bool_), maker)
    rows = np.flatnonzero(labelled.ravel())
    flipped = rng.random(len(rows)) < world.wrong_labels
    label = (correct.ravel()[rows] ^ flipped).astype(np.int64)
    gold = LabelledAnswers(model[rows], maker[model[rows]], target.yes[rows], total[rows], label, rows)
    return Board(
        target,
        gold,
        correct.ravel(),
        correct.mean(axis=1),
        np.array(strengths),
        anchors,
        unsure,
    )


def named(board: Board) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The board's votes and labels as the program reads them; model i is `model-i`, with as many digits for all."""
    target, gold = board.target, board.gold
    makers = target.maker[target.model].tolist()
    rows = zip(target.model.tolist(), makers, target.item.tolist(), target.yes.tolist(), target.total.tolist(),
               strict=True)  # fmt: skip
    ballots = [
        Ballot(Entrant(f"model-{model:04}", f"maker-{maker}", 0), f"{item:04}", yes, total)
        for model, maker, item, yes, total in rows
    ]
    labels = [
        Label(one.entrant, one.item_id, one.yes, one.total, bool(said), one.content)
        for one, said in zip((ballots[row] for row in gold.row.tolist()), gold.correct.tolist(), strict=True)
    ]
    return frames(ballots, labels)


def _new_makers(world: TruthWorld) -> tuple[int, ...]:
    makers = world.new_makers
    return tuple(makers[i % len(makers)] for i in range(len(world.newcomers)))


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-x)))


def _logit(p: FloatArray | float) -> FloatArray:
    return np.asarray(np.log(np.asarray(p) / (1 - np.asarray(p))))


def _ability(share: float) -> float:
    """The ability that is right on this share of all items that there could be."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        found = float((_sigmoid(middle - DIFFICULTY * _NODES) * _WEIGHTS).sum() / _WEIGHTS.sum())
        low, high = (middle, high) if found < share else (low, middle)
    return (low + high) / 2


def _verdicts(
    world: TruthWorld, rng: np.random.Generator, correct: BoolArray, difficulty: FloatArray, maker: IntArray
) -> tuple[BoolArray, BoolArray | None]:
    """[K, I, seats] the jury's verdicts, and those of the same judges later, where that is another time."""
    models, items = correct.shape
    right = _logit(rng.permutation(np.linspace(*world.sees_right, world.judges)))
    wrong = _logit(rng.permutation(np.linspace(*world.sees_wrong, world.judges)))
    kind = world.kindness * rng.standard_normal(int(maker.max()) + 1)
    if world.lenient is not None:
        kind[world.lenient[0]] += world.lenient[1]
    shared = world.by_answer * rng.standard_normal((models, items)) + world.by_item * rng.standard_normal(items)
    base = kind[maker][:, None] + shared
    fooled = rng.random(items) < world.fooled
    newcomer = np.arange(models) >= len(world.own)
    seated = np.stack([_jury(world, int(one)) for one in maker])

    def judged(worse: FloatArray) -> BoolArray:
        sides = []
        for j in range(world.judges):
            believes = np.where(fooled, 2.5, -wrong[j] + world.lean * difficulty + worse)
            sides.append(base + np.where(correct, right[j] - world.lean * difficulty - worse, believes))
        sides[0] = sides[0] + world.lenient_judge
        said = rng.random((world.judges, models, items)) < _sigmoid(np.stack(sides))
        verdicts = np.take_along_axis(said.transpose(1, 2, 0), seated[:, None, :], axis=2)
        copies = rng.random(verdicts.shape) < world.copied
        return np.asarray(np.where(copies, verdicts[..., :1], verdicts))

    first = judged(np.where(newcomer, world.drift, 0.0)[:, None])
    is_later = world.later_drift > 0 or world.anchors > 0
    return first, judged(np.full((models, 1), world.later_drift)) if is_later else None


def _counted(world: TruthWorld, verdicts: BoolArray) -> tuple[IntArray, IntArray]:
    """[K, I] each: how many of the jury say yes, and how many were asked."""
    asked = np.ones(verdicts.shape, dtype=np.bool_)
    if world.in_turn:
        third = np.arange(world.seats) == (np.arange(verdicts.shape[1]) % world.seats)[:, None]
        yes = (verdicts & ~third).sum(axis=2)
        asked &= ~third | (yes == 1)[..., None]
    return (verdicts & asked).sum(axis=2), asked.sum(axis=2)


def _jury(world: TruthWorld, maker: int) -> IntArray:
    """The judges of a maker's answers: judge j is of maker j, and never sits before its own maker's answers."""
    others = [j for j in range(world.judges) if j != maker]
    first = maker % len(others)
    return np.array([*others[first:], *others[:first]][: world.seats])


def _labelled(world: TruthWorld, rng: np.random.Generator, yes: IntArray, total: IntArray) -> BoolArray:
    order = rng.random(yes.shape[1]) * np.ones(yes.shape) if world.design == "same items" else rng.random(yes.shape)
    contested = (yes > 0) & (yes < total)
    allowed = np.ones(yes.shape, dtype=np.bool_)
    if world.design == "contested first":
        order = order + ~contested
    elif world.design == "ends":
        allowed = ~contested
    elif world.design == "middle":
        allowed = contested
    elif world.design == "only all yes":
        allowed = yes == total
    order = np.where(allowed, order, np.inf)
    rank = np.argsort(np.argsort(order, axis=1), axis=1)
    keep = (rank < world.labels) & np.isfinite(order)
    keep[len(world.own) :] = False
    return np.asarray(keep)
