"""Every two entrants of a board beside each other: how likely each is the better one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from layton_batch.scoring.counting import count_votes
from layton_batch.scoring.evidence import Entrant, ItemScores
from layton_batch.scoring.law import VotePosterior, mark_law
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.joint import JointDraws
from layton_batch.stats.strata import FloatArray

MOST = 60
"""Entrants: beyond it nothing is compared, for the pairs of a larger board would outweigh its page."""


@dataclass(frozen=True, slots=True)
class Pair:
    """``better``: the probability that the first is the better one on these items (None where the scores there are
    exact), ``better_new``: on new items of the same kind. Equal scores count half."""

    model: str
    n_hints: int
    other: str
    other_hints: int
    better: float | None
    better_new: float


def pairs_by_votes(votes: pl.DataFrame, labels: pl.DataFrame, rules: ScoringRules) -> list[Pair]:
    """All pairs of a jury board, each once; none where there are more than ``MOST`` entrants."""
    counted = count_votes(votes, labels)
    if not 1 < len(counted.entrants) <= MOST:
        return []
    here, new = VotePosterior(counted, rules).draws()
    return _pairs(counted.entrants, _chances(here), _chances(new), here.models.tolist())


def pairs_by_marks(sheets: Sequence[ItemScores]) -> list[Pair]:
    """All pairs of a board graded by rule, each once; none where there are more than ``MOST`` entrants."""
    if not 1 < len(sheets) <= MOST:
        return []
    sheets = sorted(sheets, key=lambda sheet: sheet.entrant)
    draws = mark_law(sheets).draws
    return _pairs([sheet.entrant for sheet in sheets], None, _chances(draws), draws.models.tolist())


def _chances(draws: JointDraws) -> FloatArray:
    """[K', K'] share of the draws in which the row's entrant is above the column's."""
    theta = draws.theta
    above = [
        (theta > theta[:, [k]]).mean(axis=0) + (theta == theta[:, [k]]).mean(axis=0) / 2 for k in range(theta.shape[1])
    ]
    return np.array(above).T


def _pairs(
    entrants: Sequence[Entrant], here: FloatArray | None, new: FloatArray, drawn_ones: Sequence[int]
) -> list[Pair]:
    pairs = []
    for i, first in enumerate(drawn_ones):
        for j, second in enumerate(drawn_ones[:i]):
            entrant, rival = entrants[first], entrants[second]
            better = None if here is None else round(float(here[i, j]), 4)
            chance = round(float(new[i, j]), 4)
            pairs.append(Pair(entrant.model, entrant.n_hints, rival.model, rival.n_hints, better, chance))
    return pairs
