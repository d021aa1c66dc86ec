"""Sets of ranks that hold for all models at once, from joint draws.

The rank ranges are the smallest product of central rank intervals that holds all models' ranks in 95 % of the draws:
small, and right for all models together in simulation (0.98 on these items, 0.95-0.96 for new ones), but not
uniformly valid at exact ties. A rank here is 1 + the number of models that are better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.joint import JointDraws
from layton_batch.stats.strata import FloatArray, IntArray

_SAME = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class RankSets:
    """Per model of the draws [K']: `best`..`worst`, which hold for all models at once."""

    best: IntArray
    worst: IntArray


def draw_ranks(theta: FloatArray) -> IntArray:
    """[T, K] rank of every model in every draw, 1 + the number of better ones."""
    order = np.argsort(-theta, axis=1, kind="stable")
    ordered = np.take_along_axis(theta, order, axis=1)
    fresh = np.ones(theta.shape, dtype=np.bool_)
    fresh[:, 1:] = ordered[:, 1:] < ordered[:, :-1]
    first = np.where(fresh, np.arange(1, theta.shape[1] + 1, dtype=np.int32), np.int32(0))
    ranks = np.empty(theta.shape, dtype=np.int32)
    np.put_along_axis(ranks, order, np.maximum.accumulate(first, axis=1), axis=1)
    return ranks.astype(np.int64, copy=False)


def rank_ranges(draws: JointDraws, *, level: float = 0.95, rank: IntArray | None = None) -> RankSets:
    """The rank range of every model, jointly at `level`.

    A draw lies outside when some model's rank is further in a tail than the depth of the box; the depth is the
    largest that keeps `level` of the draws inside. `rank` [K'], a leaderboard's own ranks, widens a set that would
    leave its rank out.
    """
    _check_level(level)
    ranks = draw_ranks(draws.theta)
    count, models = ranks.shape
    depth = np.full(count, count, dtype=np.int64)
    for i in range(models):
        below, above = _tails(ranks[:, i])
        depth = np.minimum(depth, np.minimum(below, above))
    needed = np.sort(depth)[int((1 - level) * count + _SAME * count)] if count else 0
    box = np.array([_central(ranks[:, i], int(needed)) for i in range(models)], dtype=np.int64).reshape(models, 2)
    best, worst = box[:, 0], box[:, 1]
    if rank is not None:
        best, worst = np.minimum(best, rank), np.maximum(worst, rank)
    return RankSets(best, worst)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}")


def _tails(ranks: IntArray) -> tuple[IntArray, IntArray]:
    """Per draw, how many draws rank the model at most, and at least, as high a number as this one."""
    low = int(ranks.min())
    counts = np.bincount(ranks - low)
    up_to = np.cumsum(counts)
    return up_to[ranks - low], (len(ranks) - up_to + counts)[ranks - low]


def _central(ranks: IntArray, depth: int) -> tuple[int, int]:
    """First and last rank that has at least `depth` draws on either side, itself included."""
    low = int(ranks.min())
    counts = np.bincount(ranks - low)
    up_to = np.cumsum(counts)
    from_here = len(ranks) - up_to + counts
    return low + int(np.argmax(up_to >= depth)), low + int(np.flatnonzero(from_here >= depth)[-1])
