"""Ranks of a board: those of printed scores, as the layton-eval reference has them, and sets that hold for all at once.

The reference's rank is the floor of the *average* descending rank of the rounded score, so two models tied at the top
are both 1 and three are all 2. Its intervals are closed, and their ends come from float64 subtraction and addition of
the printed numbers: the reference decides intervals that touch by the last bit, and so does ``paper_ranks``.

The rank ranges are a product of central rank intervals that holds all models' ranks at once in 95 % of joint draws: of
other draws than those it was made from, for with hundreds of models the tails of as many laws are learnt from the
draws, and a range holds the draws that made it however short it is. Not uniformly valid at exact ties. A rank there is
1 + the number of models that are better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from layton_batch.stats.joint import JointDraws
from layton_batch.stats.strata import FloatArray, IntArray, Ints

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
    ranked = np.isfinite(score) & np.isfinite(width)
    s, w = score[ranked], width[ranked]
    at_score, at_low, at_high = _Sorted.of(s), _Sorted.of(s - w), _Sorted.of(s + w)
    not_above, below = at_score.count(at_score, "right"), at_score.count(at_score, "left")
    out = [np.zeros(len(score), dtype=np.int64) for _ in range(3)]
    out[0][ranked] = len(s) - not_above + (not_above - below + 1) // 2  # above + (ties + 1) / 2, floored
    out[1][ranked] = 1 + len(s) - at_low.count(at_high, "right")
    out[2][ranked] = len(s) - at_high.count(at_low, "left")
    order = np.argsort(np.where(ranked, -score, np.inf), kind="stable")
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

    def count(self, queries: _Sorted, side: Literal["left", "right"]) -> IntArray:
        """Count for each query, in its own order, these numbers below it ("left") or at most equal to it ("right").

        The queries run in rising order, since neighbouring questions hit the same cache lines.
        """
        out = np.empty(len(queries.order), dtype=np.int64)
        out[queries.order] = np.searchsorted(self.values, queries.values, side=side)
        return out


def score_ranks(scores: Sequence[float | None] | FloatArray) -> IntArray:
    """[K] 1 + the number of models with a higher score, 0 for a model without one: the rank of an unrounded
    estimate."""
    score = np.asarray(scores, dtype=np.float64)
    has_score = np.isfinite(score)
    above = np.count_nonzero(has_score) - np.searchsorted(np.sort(score[has_score]), score, side="right")
    return np.where(has_score, 1 + above, 0)


# ---- ranks that hold for all models at once ------------------------------------------------------------------------


_SAME = 1e-12
_CELLS = 1 << 17  # ranked at once: what a processor has at hand


@dataclass(frozen=True, slots=True, eq=False)
class RankSets:
    """Per model of the draws [K']: `best`..`worst`, which hold for all models at once."""

    best: IntArray
    worst: IntArray


def draw_ranks(theta: FloatArray) -> Ints:
    """[T, K] rank of every model in every draw, 1 + the number of better ones."""
    models = theta.shape[1]
    ranks = np.empty(theta.shape, dtype=np.int32)
    block = max(1, _CELLS // max(models, 1))
    for at in range(0, len(theta), block):
        some = theta[at : at + block]
        order = np.argsort(some, axis=1)[:, ::-1]
        order += models * np.arange(len(some))[:, None]
        ordered = some.ravel()[order]
        first = np.broadcast_to(np.arange(1, models + 1, dtype=np.int32), order.shape).copy()
        first[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0
        ranks[at : at + block].ravel()[order] = np.maximum.accumulate(first, axis=1)
    return ranks


def rank_ranges(draws: JointDraws, *, level: float = 0.95, rank: IntArray | None = None) -> RankSets:
    """The rank range of every model, jointly at `level`, also in draws that had no part in making them.

    Half of the draws say how far out each rank of each model is; the other half say how far the ranges must reach: the
    ceil((n + 1) level)-th smallest of their n reaches, so that a new draw of the same law lies inside with chance
    `level` at least, however many models there are. `rank` [K'], a leaderboard's own ranks, widens a set that would
    leave its rank out.
    """
    _check_level(level)
    ranks = draw_ranks(draws.theta)
    fitted, check = ranks[: len(ranks) // 2], ranks[len(ranks) // 2 :]
    tails = [_Tails.of(fitted[:, i]) for i in range(ranks.shape[1])]
    reach = np.zeros(len(check))
    for model_tails, column in zip(tails, check.T, strict=True):
        reach = np.maximum(reach, model_tails.how_far(column))
    place = math.ceil((len(check) + 1) * level - _SAME) - 1
    least = float(np.sort(reach)[place]) if place < len(check) else np.inf
    box = np.array([model_tails.within(least, ranks.shape[1]) for model_tails in tails], dtype=np.int64).reshape(-1, 2)
    best, worst = box[:, 0], box[:, 1]
    if rank is not None:
        best, worst = np.minimum(best, rank), np.maximum(worst, rank)
    return RankSets(best, worst)


@dataclass(frozen=True, slots=True, eq=False)
class _Tails:
    """Tail distances of one model's ranks: minus the log of the share of draws in the smaller tail from the rank.

    `far` is that of the ranks from `first` on that were drawn. Beyond them it grows with the square of the distance
    from the median, as a normal law's does; a model that had one rank in all draws has half a rank of spread.
    """

    first: int
    far: FloatArray
    median: int

    @classmethod
    def of(cls, ranks: Ints) -> _Tails:
        first = int(ranks.min())
        counts = np.bincount(ranks - first)
        up_to = np.cumsum(counts)
        smaller = np.minimum(up_to, len(ranks) - up_to + counts)
        return cls(first, np.log(len(ranks) / smaller), first + int(np.searchsorted(up_to, len(ranks) / 2)))

    def how_far(self, ranks: Ints) -> FloatArray:
        """[n] for ranks of new draws."""
        last = self.first + len(self.far) - 1
        far = self.far.take(ranks - self.first, mode="clip")
        for beyond, edge, end in ((ranks < self.first, 0, self.first), (ranks > last, -1, last)):
            if beyond.any():
                spread, distance = abs(self.median - end), np.abs(self.median - ranks[beyond])
                far[beyond] = max(float(self.far[edge]), 1.0) * (distance / max(spread, 0.5)) ** 2
        return far

    def within(self, reach: float, models: int) -> tuple[int, int]:
        """First and last rank that is no further out than `reach`; the median always is."""
        every = np.arange(1, models + 1)
        near = np.flatnonzero((self.how_far(every) <= reach) | (every == self.median))
        return int(every[near[0]]), int(every[near[-1]])


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}")
