"""Ranks of a board: those of printed scores, as the layton-eval reference has them, and sets that hold for all at once.

The reference's rank is the floor of the *average* descending rank of the rounded score, so two models tied at the top
are both 1 and three are all 2. Its intervals are closed, and their ends come from float64 subtraction and addition of
the printed numbers: the reference decides intervals that touch by the last bit, and so does ``paper_ranks``.

The rank ranges are the smallest product of central rank intervals that holds all models' ranks in 95 % of the joint
draws: small, and right for all models together in simulation (0.98 on these items, 0.95-0.96 for new ones), but not
uniformly valid at exact ties. A rank there is 1 + the number of models that are better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from layton_batch.stats.joint import JointDraws
from layton_batch.stats.strata import FloatArray, IntArray

# ---- the ranks of printed scores -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """`rank`, `best`, `worst` [K] from 1 up, 0 without a score; `order` [K]: models by rank, those without one last."""

    rank: IntArray
    best: IntArray
    worst: IntArray
    order: IntArray

    def of(self, model: int) -> tuple[int, int, int] | None:
        """(rank, best, worst), or None for a model without a score."""
        if self.rank[model] == 0:
            return None
        return int(self.rank[model]), int(self.best[model]), int(self.worst[model])


def paper_ranks(scores: Sequence[float | None] | FloatArray, half_widths: Sequence[float | None] | FloatArray) -> Ranks:
    """Rank K models by printed score and half width (percent); None or NaN in either: not ranked and not in the way.

    Models of one rank keep the order of their scores, then of the input. Raises ValueError for unequal lengths.
    """
    score, width = (np.asarray(values, dtype=np.float64) for values in (scores, half_widths))
    if score.shape != width.shape or score.ndim != 1:
        raise ValueError("scores and half_widths must be two lists of one length")
    there = np.isfinite(score) & np.isfinite(width)
    s, w = score[there], width[there]
    at_score, at_low, at_high = _Sorted.of(s), _Sorted.of(s - w), _Sorted.of(s + w)
    not_above, below = at_score.count(at_score, "right"), at_score.count(at_score, "left")
    out = [np.zeros(len(score), dtype=np.int64) for _ in range(3)]
    out[0][there] = len(s) - not_above + (not_above - below + 1) // 2  # above + (ties + 1) / 2, floored
    out[1][there] = 1 + len(s) - at_low.count(at_high, "right")
    out[2][there] = len(s) - at_high.count(at_low, "left")
    order = np.argsort(np.where(there, -score, np.inf), kind="stable")
    return Ranks(out[0], out[1], out[2], order)


@dataclass(frozen=True, slots=True, eq=False)
class _Sorted:
    """Numbers in rising order and where each came from."""

    values: FloatArray
    order: IntArray

    @classmethod
    def of(cls, values: FloatArray) -> _Sorted:
        order = np.argsort(values)
        return cls(values[order], order)

    def count(self, asked: _Sorted, side: Literal["left", "right"]) -> IntArray:
        """For each asked number, in its own order, how many of these are below it ("left") or at most it ("right").

        Asked in rising order, since neighbouring questions hit the same cache lines.
        """
        out = np.empty(len(asked.order), dtype=np.int64)
        out[asked.order] = np.searchsorted(self.values, asked.values, side=side)
        return out


def score_ranks(scores: Sequence[float | None] | FloatArray) -> IntArray:
    """[K] 1 + the number of models with a higher score, 0 for a model without one: the rank of an unrounded
    estimate."""
    score = np.asarray(scores, dtype=np.float64)
    there = np.isfinite(score)
    above = np.count_nonzero(there) - np.searchsorted(np.sort(score[there]), score, side="right")
    return np.where(there, 1 + above, 0)


# ---- ranks that hold for all models at once ------------------------------------------------------------------------


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
