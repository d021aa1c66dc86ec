"""Two entrants of a board beside each other, or every two: which is better, and how surely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from layton_batch.errors import DataError
from layton_batch.scoring.boards import JuryBoard, RuleBoard
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET, UNCALIBRATED, ScoringRules
from layton_batch.stats.counts import Counts
from layton_batch.stats.ranks import Estimates, detectable, difference
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
    exact = comparison.standings[0].difference
    ends = (exact,) * 3 if standing is None else (standing.difference, standing.lower, standing.upper)
    difference, lower, upper = (None, None, None) if comparison.method == UNCALIBRATED else ends
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


def compare_models(board: JuryBoard | RuleBoard, names: tuple[str, str]) -> Comparison:
    """Two entrants of a board, by the numbers that the board has.

    Raises DataError for names that are not clear, are the same entrant, or are of an entrant that nobody judged.
    """
    if isinstance(board, JuryBoard):
        _check_judged(board, names)
        board = board.ranked
    first, second = (board.entrants.index(find_entrant(board.entrants, name)) for name in names)
    if first == second:
        raise DataError(f"{names[0]!r} and {names[1]!r} are the same model: give two different models")
    pair, rules = (first, second), board.rules
    if isinstance(board, JuryBoard):
        items, alike = board.counts.items[[first, second]], _cast_alike(board.counts, pair)
    else:
        marks = board.item_marks[[first, second]]
        items, alike = np.isfinite(marks).sum(axis=1), np.array_equal(marks[0], marks[1], equal_nan=True)
    return Comparison(
        first=board.entrants[first],
        second=board.entrants[second],
        metric=rules.metric,
        method=board.method,
        level=rules.level,
        standings=tuple(
            _standing(target, estimates, pair, rules.level, alike=alike)
            for target, estimates in board.estimates.items()
        ),
        n_items=int(items.min()),
    )


def _check_judged(board: JuryBoard, names: tuple[str, str]) -> None:
    """Raises DataError for an entrant of a board without labels that nobody judged."""
    for name in names:
        if find_entrant(board.entrants, name) not in board.ranked.entrants:
            raise DataError(f"{name!r}: no judge gave a verdict on its answers, and no person a label")


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


def _standing(target: str, estimates: Estimates, pair: tuple[int, int], level: float, *, alike: bool) -> ComparedModel:
    """``alike``: what is known of the two is the same, so that each is as likely the better one."""
    gap = difference(estimates.draws, *pair, level=level)
    least = detectable(gap.deviation, level)
    first, second = estimates.score[list(pair)].tolist()
    lead = first - second
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
    better_new: float | None
    lower_new: float | None
    upper_new: float | None


def all_pairs(board: JuryBoard | RuleBoard) -> list[Pair]:
    """All pairs of models that have a score, each once; none where there are more than ``MOST_COMPARED``."""
    board = board.ranked if isinstance(board, JuryBoard) else board
    if not 1 < len(board.entrants) <= MOST_COMPARED:
        return []
    estimates, pairs = board.estimates, list[Pair]()
    for first, entrant in enumerate(board.entrants):
        for second, rival in enumerate(board.entrants[:first]):
            here, new = (_gap(estimates.get(target), first, second, board.rules) for target in (THIS_SET, NEW_ITEMS))
            pairs.append(Pair(entrant.model, entrant.n_hints, rival.model, rival.n_hints, *here, *new))
    return pairs


_Gap = tuple[float | None, float | None, float | None]


def _gap(estimates: Estimates | None, first: int, second: int, rules: ScoringRules) -> _Gap:
    if estimates is None:
        return None, None, None
    gap = difference(estimates.draws, first, second, level=rules.level)
    return round(gap.better, 4), round(100 * gap.lower, 2), round(100 * gap.upper, 2)
