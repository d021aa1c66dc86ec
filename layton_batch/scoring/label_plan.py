"""Plans of labels: which predictions people label next, and how long intervals will be then.

Half widths are those of the board: for new items, or for these items alone. What they will be is what the board's own
posterior says if the planned labels turn out as the labels at hand lead one to expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from layton_batch.errors import ManifestError
from layton_batch.scoring.annotations import AnswerKey
from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.evidence import ENTRANT, Entrant
from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET
from layton_batch.stats.counts import Counts, FloatArray, IntArray, Ints
from layton_batch.stats.distributions import beta_quantile

AS_SHORT = 1.05
"""An interval counts as being as short as labels can make it if it is at most this many times as long as that."""
_FIRST_SHARE, _TRIALS, _ROUGH = 0.15, 5, 1
"""The share of a model's answers in the first plan that is tried, and the most plans that are tried: for a plan that a
person asked for, and for a word about labels beside a board. Each costs as much as the board."""


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """Goal of a label plan: a ``half_width`` (fraction) for every model, or a number of ``labels``; not both.

    The half width is that of the interval for new items; with ``this_set``, of the interval for these items.
    """

    half_width: float | None = None
    labels: int | None = None
    this_set: bool = False

    def __post_init__(self) -> None:
        """Raises ManifestError for what cannot be aimed at."""
        if (self.half_width is None) == (self.labels is None):
            raise ManifestError("give either --half-width POINTS or --labels N")
        if self.half_width is not None and not 0 <= self.half_width < 1:
            raise ManifestError(f"--half-width {100 * self.half_width:g}: points from 0 to below 100, such as 1.0")
        if self.labels is not None and self.labels < 0:
            raise ManifestError(f"--labels {self.labels}: 0 or more")


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Labels to add to one model; half widths in points.

    ``unlabelled``: answers without a label now; ``half_width_least``: with a label on every answer.
    """

    model: str
    provider: str
    n_hints: int
    labels: int
    unlabelled: int
    half_width_now: float
    half_width_then: float
    half_width_least: float


@dataclass(frozen=True, slots=True)
class LabellingPlan:
    """A plan by model, the one in most need first, and the predictions to label, the most useful first; without votes,
    for a person should not know what the jury said. ``target``:
    what half widths are of, ``new items`` or ``this set``; ``half_width``: the one aimed at, in points.
    """

    target: str
    level: float
    half_width: float | None
    models: tuple[ModelPlan, ...]
    rows: tuple[AnswerKey, ...]


def plan_next(board: JuryBoard, aim: LabelTarget, models: Sequence[Entrant] = ()) -> LabellingPlan:
    """Plan which predictions to label next for ``aim``, for all entrants or only for ``models``.

    Raises ManifestError for an aim that makes no sense, DataError for predictions that contradict each other.
    """
    # what is known of a model comes from its own votes and from labels: the others' votes can be left out
    if models:
        names = pl.DataFrame(models, schema={name: board.votes.schema[name] for name in ENTRANT})
        board = replace(board, votes=board.votes.join(names, on=ENTRANT, how="semi"))
    planned = _PlannedBoard(board, this_set=aim.this_set)
    plan = planned.fewest(aim.half_width or 0.0, _TRIALS) if aim.labels is None else planned.first(aim.labels)
    return LabellingPlan(
        target=THIS_SET if aim.this_set else NEW_ITEMS,
        level=board.rules.level,
        half_width=None if aim.half_width is None else 100 * aim.half_width,
        models=_model_plans(planned, plan),
        rows=planned.requests(planned.rows[planned.is_in(plan)]),
    )


def labels_for(board: JuryBoard, half_width: float) -> IntArray:
    """Return [K] about how many labels would give each interval for these items this half width (fraction)."""
    return _PlannedBoard(board, this_set=True).fewest(half_width, _ROUGH)


class _PlannedBoard:
    """A board and its answers without a label: ``rows`` [N], the most useful label first.

    A plan is [K] numbers: so many of the first of each model.
    """

    def __init__(self, board: JuryBoard, *, this_set: bool) -> None:
        self.board, self._target = board, THIS_SET if this_set else NEW_ITEMS
        self.rows = label_order(board.counts, *board.posterior.rates, seed=board.rules.seed)
        self._model = board.counts.predictions.model[self.rows]
        self._place = place_within(self._model)
        self.free = self.first(len(self.rows))

    def first(self, labels: int) -> IntArray:
        """Return the plan of the most useful labels."""
        return np.bincount(self._model[:labels], minlength=self.board.counts.models)

    def is_in(self, plan: IntArray) -> IntArray:
        """Return [N] whether a plan has a label for each of ``rows``."""
        return np.asarray(self._place < plan[self._model])

    @cached_property
    def now(self) -> FloatArray:
        """[K] half widths (fractions) of the board."""
        return self.board.estimates[self._target].half_width

    @cached_property
    def least(self) -> FloatArray:
        """[K] half widths (fractions) with a label on every answer; those of these items are certain then."""
        return np.zeros(self.board.counts.models) if self._target == THIS_SET else self.half_widths(self.free)

    def half_widths(self, plan: IntArray) -> FloatArray:
        """Return [K] half widths (fractions) once a plan's labels are as expected."""
        if not plan.any():
            return self.now
        counts = self.board.counts
        rows, more = self.rows[self.is_in(plan)], np.zeros_like(counts.n)
        np.add.at(more, (counts.predictions.model[rows], counts.row_bin[rows]), 1)
        expected = counts.with_expected(more, beta_quantile(0.5, *self.board.posterior.rates))
        return np.minimum(self.board.forecast(expected)[self._target].half_width, self.now)

    def fewest(self, half_width: float, trials: int) -> IntArray:
        """Return the plan of about the fewest labels with which every interval has the half width (fraction), or is
        about as short as labels make it where that is longer.

        With n of N labels the square of a half width less that of the least is taken to be proportional to
        (N - n) / (n + c); each plan that is tried tells c of each model better. After one trial the plan is the one
        that it leads to; after several, the best of them.
        """
        goal = np.maximum(half_width, AS_SHORT * self.least) + 1e-9
        slack = np.maximum(0.04 * goal, 0.55 / self.board.counts.items)  # intervals for these items grow by an item
        wanted = np.maximum(goal - slack / 2, 0) ** 2 - self.least**2
        start, is_open = self.now**2 - self.least**2, self.now > goal
        plan = np.where(is_open, np.ceil(_FIRST_SHARE * self.free), 0).astype(np.int64)
        too_few, tried = np.zeros_like(plan), list[tuple[float, int, int, IntArray]]()
        for _ in range(trials):
            width = self.half_widths(plan)
            tried.append((float(np.maximum(width - goal, 0).sum()), int(plan.sum()), len(tried), plan))
            is_right = (width <= goal) & ((width >= goal - slack) | (plan <= 1)) | ~is_open
            if is_right.all():
                break
            c = _fitted_constant(start, width**2 - self.least**2, plan, self.free)
            better = np.ceil(c * self.free * (start - wanted) / np.maximum(wanted * self.free + start * c, 1e-12))
            too_few = np.where(width > goal, np.maximum(plan, too_few), too_few)
            plan = np.where(is_right, plan, np.minimum(np.maximum(better, too_few + 1), self.free)).astype(np.int64)
        return plan if trials == 1 else min(tried)[-1]

    def requests(self, rows: IntArray) -> tuple[AnswerKey, ...]:
        """Return the predictions in these rows."""
        return tuple(map(AnswerKey._make, self.board.predictions.select(AnswerKey._fields)[rows].iter_rows()))


def _fitted_constant(start: FloatArray, after: FloatArray, plan: IntArray, free: IntArray) -> FloatArray:
    """Return [K] the c with which c (N - n) / (N (n + c)) takes ``start`` to ``after``: n of a plan, N ``free``."""
    falls = start * (free - plan) - after * free
    return np.clip(after * free * plan / np.where(falls > 0, falls, 1e-12), 0.1, 1e6)


def _model_plans(planned: _PlannedBoard, plan: IntArray) -> tuple[ModelPlan, ...]:
    now, then, least = (100 * widths for widths in (planned.now, planned.half_widths(plan), planned.least))
    plans = []
    for i in sorted(range(len(now)), key=lambda i: (-plan[i], -now[i], i)):
        entrant = planned.board.entrants[i]
        widths = [round(float(width[i]), 2) for width in (now, then, least)]
        plans.append(
            ModelPlan(entrant.model, entrant.provider, entrant.n_hints, int(plan[i]), int(planned.free[i]), *widths)
        )
    return tuple(plans)


# ---- for whoever labels now ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelForecast:
    """The predictions to label next, and what labels buy. ``enough``: the labels that make every model's interval about
    as short as labels can. ``half_width_now``, ``half_width_then``: the mean over models in points, without and with
    these labels."""

    queue: tuple[AnswerKey, ...]
    unlabelled: int
    enough: int
    half_width_now: float
    half_width_then: float


def outlook(board: JuryBoard, design: str = "planned", *, length: int) -> LabelForecast:
    """Return what ``length`` more labels are best spent on, and what labels do for the intervals for new items.

    ``design``: ``planned`` asks where the outcome is least certain. ``balanced`` spreads labels evenly over makers,
    models and items, as the layton-eval paper does; its order is that of all predictions, so that it goes on where it
    was when some of them are labelled.
    """
    planned = _PlannedBoard(board, this_set=False)
    counts, free, order = board.counts, len(planned.rows), planned.rows
    if design == "balanced":
        everything = np.flatnonzero(counts.row_bin >= 0)
        order = balanced_rows(counts, everything, len(everything) - free + length, seed=board.rules.seed)
        order = order[np.isin(order, planned.rows)]
    enough = planned.fewest(0.0, _ROUGH)
    now, then = (_mean_points(widths) for widths in (planned.now, planned.half_widths(enough)))
    return LabelForecast(planned.requests(order[:length]), free, int(enough.sum()), now, then)


def _mean_points(widths: FloatArray) -> float:
    return round(float(100 * widths.mean()), 2) if len(widths) else 0.0


# ---- the order of answers --------------------------------------------------------------------------------------------


def label_order(counts: Counts, alpha: FloatArray, beta: FloatArray, *, seed: int = 0) -> IntArray:
    """Return all rows [N] that may have a label and have none, the best one first: the one that takes most from the
    expected variance of its model's score on these items.

    After x own labels at a vote with u unlabelled answers and a rate Beta(a, b), S = a + b, one more label takes
    exactly ab (S + u)^2 / (S (S + 1) (S + x) (S + x + 1)) from the expected variance of the number of right answers.
    This falls with x, so taking the label of the greatest gain again and again is optimal (Neyman's allocation with the
    labels at hand as a sunk sample). In practice: contested answers first. At one vote the answers are drawn at random:
    labels are taken to be missing at random there. `alpha`, `beta` [K, B] are the posterior of each model's rates.
    """
    is_free = (counts.row_bin >= 0) & (counts.row_label < 0)
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(is_free))
    at = counts.predictions.model[rows], counts.row_bin[rows]
    a, b, free = alpha[at], beta[at], (counts.n - counts.own_labels)[at]
    size, before = a + b, place_within(at[0] * len(counts.bins) + at[1])
    gain = a * b * (size + free) ** 2 / (size * (size + 1) * (size + before) * (size + before + 1))
    return rows[np.argsort(-gain / counts.items[at[0]] ** 2, kind="stable")]


def place_within(groups: Ints) -> IntArray:
    """Return [N] how many earlier entries are of the same group."""
    order = np.argsort(groups, kind="stable")
    place = np.empty(len(groups), dtype=np.int64)
    place[order] = np.arange(len(groups)) - np.searchsorted(groups[order], groups[order])
    return place


def balanced_rows(counts: Counts, rows: IntArray, size: int, *, seed: int = 0) -> IntArray:
    """The alternative without regard to votes: `size` of the `rows` spread evenly over makers, models and items.

    Each next row is of the maker least drawn so far, of its model least drawn, on the item least drawn; ties at random.
    """
    rows = np.random.default_rng(seed).permutation(rows)
    predictions = counts.predictions
    keys = [
        np.unique(key, return_inverse=True)[1]
        for key in (predictions.maker[predictions.model[rows]], predictions.model[rows], predictions.item[rows])
    ]
    drawn = [np.zeros(int(key.max(initial=0)) + 1) for key in keys]
    is_free = np.ones(len(rows), dtype=np.bool_)
    picked = []
    for _ in range(min(size, len(rows))):
        best = np.flatnonzero(is_free)
        for times, key in zip(drawn, keys, strict=True):
            load = times[key[best]]
            best = best[load == load.min()]
        chosen = best[0]
        is_free[chosen] = False
        picked.append(rows[chosen])
        for times, key in zip(drawn, keys, strict=True):
            times[key[chosen]] += 1
    return np.array(picked, dtype=np.int64)
