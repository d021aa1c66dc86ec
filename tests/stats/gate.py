"""How often the intervals hold the truth in the worlds of the gate: intervals, differences and ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from layton_batch.stats.counts import FloatArray, LabelledAnswers, Predictions, count
from layton_batch.stats.hierarchical import fit
from layton_batch.stats.hierarchical_scores import ModelScore, hierarchical_scores
from layton_batch.stats.ranks import rank_ranges
from layton_batch.stats.rate_draws import draws_on_new, draws_on_these, rate_draws
from tests.stats.worlds import Board, World, draw

DRAWS = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One world: per board and model [W, K] whether the intervals hold the truth and their half widths on
    these items and new ones; per board the share of pairs whose difference is held, and whether all ranks are."""

    labelled: int
    held: FloatArray
    width: FloatArray
    held_new: FloatArray
    width_new: FloatArray
    pairs: FloatArray
    pairs_new: FloatArray
    ranks: FloatArray


def measure(world: World, boards: int, *, seed: int | list[int], draws: int = DRAWS, drawn: int | None = None) -> Cell:
    """Play some boards; ``draws`` 0 leaves out pairs and ranks, which are of the first ``drawn`` boards
    only, for they take the longest."""
    rng = np.random.default_rng(seed)
    rows = [_one(draw(world, rng), draws if drawn is None or at < drawn else 0) for at in range(boards)]
    *intervals, pairs, pairs_new, ranks = zip(*rows, strict=True)
    joint = [np.array([one for one in part if one.size]) for part in (pairs, pairs_new, ranks)]
    return Cell(world.labelled, *map(np.array, intervals), *joint)


def _one(board: Board, draws: int) -> tuple[FloatArray, ...]:
    counts = count(board.target, board.gold)
    found = fit(counts)
    rows = hierarchical_scores(found)
    joint = None
    if draws:
        rates = rate_draws(found, seed=0, draws=draws)
        joint = (draws_on_these(counts, rates, seed=0), draws_on_new(counts, rates, seed=0))
    ends = np.array([_ends(row) for row in rows])
    held = (ends[:, 0] <= board.here + 1e-9) & (board.here <= ends[:, 1] + 1e-9)
    held_new = (ends[:, 2] <= board.new) & (board.new <= ends[:, 3])
    widths = (ends[:, 1] - ends[:, 0]) / 2, (ends[:, 3] - ends[:, 2]) / 2
    if joint is None:
        nothing = np.zeros(0)
        return held * 1.0, widths[0], held_new * 1.0, widths[1], nothing, nothing, nothing
    pairs, pairs_new = _pairs(joint[0], board.here), _pairs(joint[1], board.new)
    return held * 1.0, widths[0], held_new * 1.0, widths[1], pairs, pairs_new, _ranks(joint[0], board.here)


def ends_of(target: Predictions, gold: LabelledAnswers) -> FloatArray:
    """[K, 4] the ends on these items and on new ones."""
    return np.array([_ends(row) for row in hierarchical_scores(fit(count(target, gold)))])


def _ends(row: ModelScore) -> tuple[float, float, float, float]:
    return row.lower, row.upper, row.new_lower, row.new_upper


def _pairs(draws: FloatArray, truth: FloatArray) -> FloatArray:
    first, second = np.triu_indices(len(truth), 1)
    low, high = np.quantile(draws[:, first] - draws[:, second], [0.025, 0.975], axis=0)
    gap = truth[first] - truth[second]
    return np.array([((low <= gap + 1e-9) & (gap <= high + 1e-9)).mean()])


def _ranks(draws: FloatArray, truth: FloatArray) -> FloatArray:
    sets, rank = rank_ranges(draws), rankdata(-truth, method="min")
    return np.array([((sets.best <= rank) & (rank <= sets.worst)).all() * 1.0])
