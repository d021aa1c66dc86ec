"""Two entrants of a board beside each other, or every two: which is better, and how surely."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from layton_batch.errors import DataError
from layton_batch.scoring.evidence import HAS_OUTCOME, Entrant, entrants_of
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.leaderboard import NEW_ITEMS, RULE, THIS_SET, UNCALIBRATED
from layton_batch.scoring.rule_board import RuleBoard
from layton_batch.scoring.rules import HIERARCHICAL
from layton_batch.stats.counts import Counts, FloatArray
from layton_batch.stats.ranks import detectable, difference
from layton_batch.text import did_you_mean, first_of

_NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """First minus second, in points, with its interval; ``better``: probability that the first is the better one.

    ``target``: ``new items`` or ``this set``, as on a board; ``difference`` is that of the board's scores for it.
    ``minimum_detectable_difference``: the smallest true difference of these two that would separate them with chance
    0.8, None above 100 points.
    """

    target: str
    difference: float
    lower: float
    upper: float
    better: float
    minimum_detectable_difference: float | None

    @property
    def separated(self) -> bool:
        """Tell whether the interval excludes 0."""
        return self.lower > 0 or self.upper < 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """``standings`` on new items of the kind and on this set (left out where the score there is exact).

    ``method``: the board's; ``uncalibrated`` where there is no label, so that all rests on what judges usually are.
    """

    first: Entrant
    second: Entrant
    metric: str
    method: str
    level: float
    standings: tuple[ComparedModel, ...]
    n_items: int


class GateResult(StrEnum):
    """Decision of a gate: whether a new model may take the place of a baseline."""

    NOT_WORSE = "not worse"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Gate:
    """Decision whether ``model`` is worse than ``baseline`` by more than ``margin`` points.

    ``difference``, ``lower`` and ``upper``: model minus baseline in points, with the two-sided interval at ``level``;
    None where no label says how far the jury can be trusted.
    """

    model: Entrant
    baseline: Entrant
    metric: str
    method: str
    level: float
    target: str
    margin: float
    difference: float | None
    lower: float | None
    upper: float | None
    result: GateResult
    n_items: int


def gate(comparison: Comparison, target: str, margin: float) -> Gate:
    """Decide from a comparison of a new model (first) with a baseline (second).

    Not worse: the whole interval of the difference lies at or above ``-margin``. Worse: all of it lies below. A jury
    without labels decides nothing. On this set scores by rule are exact. Raises DataError for a margin that is no
    number from 0 to 100.
    """
    if not (math.isfinite(margin) and 0 <= margin <= 100):
        raise DataError(f"the margin is a number of points from 0 to 100, not {margin:g}")
    standing = next((standing for standing in comparison.standings if standing.target == target), None)
    if comparison.method == UNCALIBRATED:
        ends = None
    elif standing is None:
        exact = comparison.standings[0].difference
        ends = (exact, exact, exact)
    else:
        ends = (standing.difference, standing.lower, standing.upper)
    difference, lower, upper = ends or (None, None, None)
    result = GateResult.UNDECIDED
    if lower is not None and lower >= -margin:
        result = GateResult.NOT_WORSE
    elif upper is not None and upper < -margin:
        result = GateResult.WORSE
    return Gate(
        comparison.first, comparison.second, comparison.metric, comparison.method, comparison.level, target, margin,
        difference, lower, upper, result, comparison.n_items,
    )  # fmt: skip


def find_entrant(entrants: Sequence[Entrant], name: str) -> Entrant:
    """Return the entrant of a model's name; where several have it, of its ``PROVIDER/MODEL@HINTS``.

    Raises DataError where none or several are meant, naming what there is.
    """
    by_full_name = {f"{entrant.provider}/{entrant.model}@{entrant.n_hints}": entrant for entrant in entrants}
    matches = [full for full, entrant in by_full_name.items() if name in (full, entrant.model)]
    if len(matches) == 1:
        return by_full_name[matches[0]]
    if matches:
        raise DataError(f"{name!r} is ambiguous: give one of {', '.join(matches)}")
    if not entrants:
        raise DataError(f"no model is done yet, so {name!r} has no score. `layton-batch run` continues the run")
    hint = did_you_mean(name, (entrant.model for entrant in entrants), 0.3)
    names = list(dict.fromkeys(entrant.model for entrant in entrants))
    raise DataError(f"these sources have no model {name!r}{hint or f' ({first_of(names, _NAMES_SHOWN)})'}")


def compare_votes(board: JuryBoard, names: tuple[str, str]) -> Comparison:
    """Two entrants of a jury board, by the numbers that the board has.

    Raises DataError for names that are not clear, are the same entrant, or are of an entrant that nobody judged.
    """
    if board.labels.is_empty():
        _check_judged(board, names)
    pair, rules = _pair(board.entrants, names), board.rules
    posterior, alike = board.posterior, _cast_alike(board.counts, pair)
    here, new = posterior.draws_on_these, posterior.draws_on_new
    first, second = (posterior.scores[model] for model in pair)
    on_new = _standing(NEW_ITEMS, new, pair, (first.new_score, second.new_score), rules.level, alike=alike)
    on_these = _standing(THIS_SET, here, pair, (first.score, second.score), rules.level, alike=alike)
    return Comparison(
        first=board.entrants[pair[0]],
        second=board.entrants[pair[1]],
        metric=rules.metric,
        method=UNCALIBRATED if board.labels.is_empty() else HIERARCHICAL,
        level=rules.level,
        standings=(on_new, on_these),
        n_items=int(min(board.counts.items[list(pair)])),
    )


def compare_marks(board: RuleBoard, names: tuple[str, str]) -> Comparison:
    """Two entrants of a board graded by rule, on new items; on these their scores are exact."""
    rules, pair = board.rules, _pair(board.entrants, names)
    first, second = board.item_marks[list(pair)]
    scores, alike = board.scores.mean[list(pair)].tolist(), np.array_equal(first, second, equal_nan=True)
    standing = _standing(NEW_ITEMS, board.draws, pair, scores, rules.level, alike=alike)
    items = int(np.isfinite([first, second]).sum(axis=1).min())
    entrants = board.entrants[pair[0]], board.entrants[pair[1]]
    return Comparison(*entrants, rules.metric, RULE, rules.level, (standing,), items)


def _check_judged(board: JuryBoard, names: tuple[str, str]) -> None:
    """Raises DataError for an entrant of a board without labels that nobody judged."""
    judged = set(entrants_of(board.votes.filter(HAS_OUTCOME)))
    for name in names:
        if find_entrant(board.entrants, name) not in judged:
            raise DataError(f"{name!r}: no judge gave a verdict on its answers, and no person a label")


def _pair(entrants: Sequence[Entrant], names: tuple[str, str]) -> tuple[int, int]:
    first, second = (entrants.index(find_entrant(entrants, name)) for name in names)
    if first == second:
        raise DataError(f"{names[0]!r} and {names[1]!r} are the same model: give two different models")
    return first, second


def _cast_alike(counts: Counts, pair: tuple[int, int]) -> bool:
    """Return whether two models have the same votes and labels on the same items, and one maker, or each a maker of
    which nothing else is known: nothing tells the two apart."""
    predictions = counts.predictions
    columns = np.stack([predictions.item, counts.row_bin, counts.row_label], axis=1)
    first, second = (columns[predictions.model == model] for model in pair)
    makers = predictions.maker[list(pair)]
    return np.array_equal(first, second) and (
        makers[0] == makers[1] or all(_only_of_its_maker(counts, k) for k in pair)
    )


def _only_of_its_maker(counts: Counts, model: int) -> bool:
    of_maker = np.flatnonzero(
        (counts.maker == counts.maker[model]) & (counts.is_labelled | (np.arange(len(counts.maker)) < counts.models))
    )
    return of_maker.tolist() == [model]


def _standing(
    target: str,
    draws: FloatArray,
    pair: tuple[int, int],
    scores: tuple[float, float],
    level: float,
    *,
    alike: bool,
) -> ComparedModel:
    """``alike``: what is known of the two is the same, so that each is as likely the better one."""
    gap = difference(draws, *pair, level=level)
    least = detectable(gap.deviation, level)
    lead = scores[0] - scores[1]
    lower, upper = min(gap.lower, lead), max(gap.upper, lead)
    return ComparedModel(
        target,
        100 * lead,
        100 * lower,
        100 * upper,
        0.5 if alike else gap.better,
        100 * least if least <= 1 else None,
    )


# ---- all pairs -----------------------------------------------------------------------------------------------------


MOST_COMPARED = 60
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


def pairs_by_votes(board: JuryBoard) -> list[Pair]:
    """All pairs of a jury board, each once; none where there are more than ``MOST_COMPARED`` entrants."""
    if not 1 < len(board.entrants) <= MOST_COMPARED:
        return []
    posterior = board.posterior
    return list(_pairs(board.entrants, posterior.draws_on_these, posterior.draws_on_new, board.rules.level))


def pairs_by_marks(board: RuleBoard) -> list[Pair]:
    """All pairs of a board graded by rule, each once; none where there are more than ``MOST_COMPARED`` entrants."""
    if not 1 < len(board.entrants) <= MOST_COMPARED:
        return []
    return list(_pairs(board.entrants, None, board.draws, board.rules.level))


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
