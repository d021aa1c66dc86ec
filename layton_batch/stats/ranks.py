"""Ranks and rank spreads of a board of printed scores, with the exact semantics of the layton-eval reference.

The rank is the floor of the *average* descending rank of the rounded score, so two models tied at the top are both 1
and three are all 2. Intervals are closed, and their ends come from float64 subtraction and addition of the printed
numbers: the reference decides intervals that touch by the last bit, and so does this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from layton_batch.stats.strata import FloatArray, IntArray


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
