"""Every two entrants of a board beside each other: how likely each is the better one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from layton_batch.scoring.counting import count_votes
from layton_batch.scoring.evidence import Entrant, ItemScores
from layton_batch.scoring.law import VotePosterior, mark_law
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.counts import FloatArray
from layton_batch.stats.joint import difference

MOST = 60
"""Entrants: beyond it nothing is compared, for the pairs of a larger board would outweigh its page."""


@dataclass(frozen=True, slots=True)
class Pair:
    """``better``: the probability that the first is the better one on these items (None where the scores there are
    exact), ``better_new``: on new items of the same kind. Equal scores count half.

    ``lower``, ``upper``, ``lower_new``, ``upper_new``: ends of the interval of first minus second, in points.
    """

    model: str
    n_hints: int
    other: str
    other_hints: int
    better: float | None
    lower: float | None
    upper: float | None
    better_new: float
    lower_new: float
    upper_new: float


def pairs_by_votes(votes: pl.DataFrame, labels: pl.DataFrame, rules: ScoringRules) -> list[Pair]:
    """All pairs of a jury board, each once; none where there are more than ``MOST`` entrants."""
    counted = count_votes(votes, labels)
    if not 1 < len(counted.entrants) <= MOST:
        return []
    here, new = VotePosterior(counted, rules).draws()
    return list(_pairs(counted.entrants, here, new, rules.level))


def pairs_by_marks(sheets: Sequence[ItemScores], level: float = 0.95) -> list[Pair]:
    """All pairs of a board graded by rule, each once; none where there are more than ``MOST`` entrants."""
    if not 1 < len(sheets) <= MOST:
        return []
    sheets = sorted(sheets, key=lambda sheet: sheet.entrant)
    return list(_pairs([sheet.entrant for sheet in sheets], None, mark_law(sheets).draws, level))


def _pairs(entrants: Sequence[Entrant], here: FloatArray | None, new: FloatArray, level: float) -> Iterator[Pair]:
    for first, entrant in enumerate(entrants):
        for second, rival in enumerate(entrants[:first]):
            nothing: tuple[None, None, None] = (None, None, None)
            better, lower, upper = nothing if here is None else _gap(here, first, second, level)
            yield Pair(entrant.model, entrant.n_hints, rival.model, rival.n_hints, better, lower, upper,
                       *_gap(new, first, second, level))  # fmt: skip


def _gap(draws: FloatArray, first: int, second: int, level: float) -> tuple[float, float, float]:
    gap = difference(draws, first, second, level=level)
    return round(gap.better, 4), round(100 * gap.lower, 2), round(100 * gap.upper, 2)
