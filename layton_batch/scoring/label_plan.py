"""Plans of labels: which predictions people label next, and how much shorter intervals are expected to be then.

Half widths are of the interval that a board shows: for new items, or for these items alone. For new items the items at
hand leave something open that no label closes. How much is what the board would say if every answer had a label, as
votes and labels have it now; between that and now the variance falls as it does on these items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.scoring.counting import CountedVotes, count_votes
from layton_batch.scoring.evidence import ENTRANT, LABELS, Entrant
from layton_batch.scoring.law import VotePosterior
from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.distributions import two_sided_quantile
from layton_batch.stats.planning import (
    AS_SHORT,
    LabelPlan,
    ScoreVariance,
    balanced_rows,
    expected_variance,
    plan_budget,
    plan_labels,
    rows_to_label,
)
from layton_batch.stats.posterior import Posterior
from layton_batch.stats.strata import FloatArray, IntArray
from layton_batch.text import plural

DESIGNS = ("contested", "balanced")
MAX_BALANCED = 20_000  # rows whose order is worked out one by one
_WHOLE_SCALE = 0.5  # half of the scale: where nothing is known the approximation is wider


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """Goal of a label plan: a ``half_width`` (fraction) for every model, or a number of ``labels``; not both.

    The half width is that of the interval for new items; with ``this_set``, of the interval for these items.

    ``design``: ``contested`` asks where the outcome is least certain; ``balanced`` spreads labels evenly over
    providers, models and items, without regard to votes, as the layton-eval paper does.
    """

    half_width: float | None = None
    labels: int | None = None
    design: str = DESIGNS[0]
    this_set: bool = False

    def check(self) -> None:
        """Raises ManifestError for what cannot be aimed at."""
        if (self.half_width is None) == (self.labels is None):
            raise ManifestError("give either --half-width POINTS or --labels N")
        if self.half_width is not None and not 0 <= self.half_width < 1:
            raise ManifestError(f"--half-width {100 * self.half_width:g}: points from 0 to below 100, such as 1.0")
        if self.labels is not None and self.labels < 0:
            raise ManifestError(f"--labels {self.labels}: 0 or more")
        if self.design not in DESIGNS:
            raise ManifestError(f"--design {self.design!r}: must be one of {', '.join(DESIGNS)}")


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Labels to add to one model; half widths in points, by the normal approximation; ``unlabelled`` are left now;
    ``half_width_least``: with a label on every answer."""

    model: str
    provider: str
    n_hints: int
    labels: int
    unlabelled: int
    half_width_now: float
    half_width_then: float
    half_width_least: float


@dataclass(frozen=True, slots=True)
class LabelRequest:
    """One prediction to be labelled. Votes are left out on purpose: a person should not know what the jury said."""

    item_id: str
    provider: str
    model: str
    n_hints: int


@dataclass(frozen=True, slots=True)
class LabellingPlan:
    """A plan by model, the one in most need first, and the predictions to label, the most useful first. ``target``:
    what half widths are of, ``new items`` or ``this set``; ``half_width``: the one aimed at, in points.
    """

    design: str
    target: str
    level: float
    half_width: float | None
    models: tuple[ModelPlan, ...]
    rows: tuple[LabelRequest, ...]


def plan_next(
    votes: pl.DataFrame, labels: pl.DataFrame, aim: LabelTarget, rules: ScoringRules, models: Sequence[Entrant] = ()
) -> LabellingPlan:
    """Plan which predictions to label next for ``aim``, for all entrants or only for ``models``.

    Raises ManifestError for an aim that makes no sense, DataError for predictions that contradict each other.
    """
    aim.check()
    # what is known of a model comes from its own votes and from labels: the others' votes can be left out
    if models:
        names = pl.DataFrame(models, schema={name: votes.schema[name] for name in ENTRANT})
        votes = votes.join(names, on=ENTRANT, how="semi")
    board = _BoardNow.of(votes, labels, rules, this_set=aim.this_set)
    rows = _balanced(board, aim) if aim.design == "balanced" else _contested(board, aim)
    return LabellingPlan(
        design=aim.design,
        target=THIS_SET if aim.this_set else NEW_ITEMS,
        level=rules.level,
        half_width=None if aim.half_width is None else 100 * aim.half_width,
        models=_model_plans(board, rows),
        rows=_asks(board.counted, rows),
    )


@dataclass(frozen=True, eq=False)
class _BoardNow:
    """A board as it is now: what plans start from."""

    counted: CountedVotes
    rules: ScoringRules
    post: Posterior
    spread: ScoreVariance

    @classmethod
    def of(cls, votes: pl.DataFrame, labels: pl.DataFrame, rules: ScoringRules, *, this_set: bool) -> _BoardNow:
        counted = count_votes(votes, labels)
        law = VotePosterior(counted, rules)
        post, models = law.posterior, len(counted.entrants)
        spread = ScoreVariance.on_these_items(models) if this_set else _on_new_items(law, labels, post)
        return cls(counted, rules, post, spread)

    def half_widths(self, rows: IntArray) -> FloatArray:
        """[K] expected half widths (fractions) once ``rows`` are labelled."""
        strata = self.counted.strata
        more = np.zeros_like(strata.n)
        np.add.at(more, (self.counted.target.model[rows], strata.row_bin[rows]), 1)
        variance = self.spread.variance(expected_variance(strata, self.post, more))
        return np.asarray(two_sided_quantile(self.rules.level) * np.sqrt(variance))


def _on_new_items(law: VotePosterior, labels: pl.DataFrame, post: Posterior) -> ScoreVariance:
    """The spread of scores on new items."""
    counted = law.counted
    here = expected_variance(counted.strata, post)
    labelled = count_votes(counted.votes, pl.concat([labels, _expected_labels(counted, post)]))
    least = _variance_on_new(VotePosterior(labelled, law.rules))
    return ScoreVariance.between(_variance_on_new(law), least, here)


def _variance_on_new(law: VotePosterior) -> FloatArray:
    """[K] variance of each score on new items, of which the board shows the interval."""
    z = two_sided_quantile(law.rules.level)
    ends = [(scores.new_lower or 0.0, scores.new_upper or 0.0) for scores in law.scores()]
    return np.array([((upper - lower) / (2 * z)) ** 2 for lower, upper in ends])


def _expected_labels(counted: CountedVotes, post: Posterior) -> pl.DataFrame:
    """A label on every answer that has none: at each vote of a model as many of them yes as are expected."""
    strata, words = counted.strata, []
    rate = post.alpha / (post.alpha + post.beta)
    seen = np.zeros(strata.n.shape, dtype=np.int64)
    rows = np.flatnonzero((strata.row_bin >= 0) & (strata.row_label < 0))
    for row in rows.tolist():
        at = int(counted.target.model[row]), int(strata.row_bin[row])
        seen[at] += 1
        words.append(math.floor(seen[at] * rate[at] + 0.5) > math.floor((seen[at] - 1) * rate[at] + 0.5))
    return counted.votes[rows].with_columns(correct=pl.Series(words, dtype=pl.Boolean)).select(*LABELS)


def _contested(board: _BoardNow, aim: LabelTarget) -> IntArray:
    """Rows of all models in turn, in the order of need, so that whoever stops early has helped each of them."""
    counted, rules, post = board.counted, board.rules, board.post
    models, spread = range(len(counted.entrants)), board.spread
    if aim.labels is not None:
        plans: Sequence[LabelPlan] = plan_budget(
            counted.strata, aim.labels, models, level=rules.level, post=post, spread=spread
        )
    else:
        plans = [
            plan_labels(counted.strata, model, aim.half_width or 0.0, level=rules.level, post=post, spread=spread)
            for model in models
        ]
    plans = sorted(plans, key=lambda plan: (-plan.count, plan.model))
    queues = [rows_to_label(counted.strata, counted.target, plan, seed=rules.seed, post=post) for plan in plans]
    turns = [(place / len(rows), at, int(row)) for at, rows in enumerate(queues) for place, row in enumerate(rows)]
    return np.array([row for _, _, row in sorted(turns)], dtype=np.int64)


def _balanced(board: _BoardNow, aim: LabelTarget) -> IntArray:
    """The rows of the balanced order up to the number asked for, or to where every model is within the half width."""
    strata = board.counted.strata
    free = int(((strata.row_label < 0) & (strata.row_bin >= 0)).sum())
    if aim.labels is None and free > MAX_BALANCED:
        raise DataError(f"{free} predictions are unlabelled: with --design balanced give --labels N instead")
    order = balanced_rows(
        strata, board.counted.target, free if aim.labels is None else aim.labels, seed=board.rules.seed
    )
    if aim.half_width is None:
        return order
    return _first_enough(board, order, board.spread.goals(aim.half_width, board.rules.level))


def _first_enough(board: _BoardNow, order: IntArray, goals: FloatArray) -> IntArray:
    """The first rows of the order with which every model's half width is within its goal [K] (fractions)."""
    low, high = 0, len(order)
    while low < high:  # more labels never widen in expectation
        middle = (low + high) // 2
        enough = bool((board.half_widths(order[:middle]) <= goals + 1e-9).all())
        low, high = (low, middle) if enough else (middle + 1, high)
    return order[:low]


def _model_plans(board: _BoardNow, rows: IntArray) -> tuple[ModelPlan, ...]:
    counted = board.counted
    now, then = (board.half_widths(part) for part in (np.zeros(0, dtype=np.int64), rows))
    least = board.spread.least_half_widths(board.rules.level)
    now, then, least = (np.minimum(widths, _WHOLE_SCALE) for widths in (now, then, least))
    count = np.bincount(counted.target.model[rows], minlength=len(counted.entrants))
    unlabelled = counted.strata.n.sum(axis=1) - counted.strata.own_labels.sum(axis=1)
    plans = []
    for i in sorted(range(len(now)), key=lambda i: (-count[i], -now[i], i)):
        entrant = counted.entrants[i]
        widths = [round(100 * float(widths[i]), 2) for widths in (now, then, least)]
        plans.append(
            ModelPlan(entrant.model, entrant.provider, entrant.n_hints, int(count[i]), int(unlabelled[i]), *widths)
        )
    return tuple(plans)


def _asks(counted: CountedVotes, rows: IntArray) -> tuple[LabelRequest, ...]:
    predictions = counted.votes.select("item_id", "provider", "model", "n_hints")[rows].iter_rows()
    return tuple(LabelRequest(*prediction) for prediction in predictions)


# ---- for whoever labels now ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpectedIntervals:
    """Intervals expected after so many more labels: half widths in points, the mean over models and the widest."""

    labels: int
    mean: float
    widest: float


@dataclass(frozen=True, slots=True)
class LabelForecast:
    """The predictions to label next, and what that buys. ``gains``: after some numbers of labels, the first of them 0;
    ``enough``: after as many as make every model's interval about as short as labels can."""

    queue: tuple[LabelRequest, ...]
    unlabelled: int
    gains: tuple[ExpectedIntervals, ...]
    enough: ExpectedIntervals


def outlook(
    votes: pl.DataFrame,
    labels: pl.DataFrame,
    rules: ScoringRules,
    design: str = DESIGNS[0],
    *,
    steps: Sequence[int] = (),
    length: int = 100,
) -> LabelForecast:
    """Return what ``length`` more labels are best spent on, and the intervals for new items after each of ``steps``.

    The balanced order is that of all predictions, so that it goes on where it was when some of them are labelled.
    """
    board = _BoardNow.of(votes, labels, rules, this_set=False)
    strata = board.counted.strata
    free = np.flatnonzero((strata.row_bin >= 0) & (strata.row_label < 0))
    steps = sorted({min(step, len(free)) for step in steps})
    if design == "balanced":
        order = _balanced_queue(board.counted, free, max(length, *steps, 0), rules)
        orders = [order[:step] for step in steps]
    else:
        order = _contested(board, LabelTarget(labels=min(length, len(free))))
        orders = [_contested(board, LabelTarget(labels=step)) for step in steps]
    gains = tuple(_gain(board, rows) for rows in (order[:0], *orders))
    enough = _gain(board, _contested(board, LabelTarget(half_width=0.0)))
    return LabelForecast(_asks(board.counted, order[:length]), len(free), gains, enough)


def _gain(board: _BoardNow, rows: IntArray) -> ExpectedIntervals:
    widths = 100 * np.minimum(board.half_widths(rows), _WHOLE_SCALE)
    mean, widest = (float(widths.mean()), float(widths.max())) if len(widths) else (0.0, 0.0)
    return ExpectedIntervals(len(rows), round(mean, 2), round(widest, 2))


def label_need_text(labels: int, now: float | None, then: float, run: str) -> str:
    """Say what a number of labels does for the intervals of a run, with the command. ``now``, ``then``: mean half
    widths in points; ``now`` is None where no answer has a label."""
    number, command = plural(labels, "label"), f"layton-batch label {run}"
    if now is None:
        gain = f"{number} would give intervals for new items of ±{then:.1f}"
        return f"No answer has a person's label that counts yet; {gain}: {command}"
    if now <= AS_SHORT * then:
        limit = f"Only more items make the intervals for new items (±{now:.1f} on average) much shorter"
        return f"{limit}; {number} would help a little: {command}"
    gain = f"{number} would bring the intervals for new items from ±{now:.1f} to ±{then:.1f} on average"
    return f"{gain}, and only more items make them shorter: {command}"


def _balanced_queue(counted: CountedVotes, free: IntArray, length: int, rules: ScoringRules) -> IntArray:
    """The first free rows of the balanced order of all rows."""
    strata = counted.strata
    unlabelled = replace(strata, row_label=np.full_like(strata.row_label, -1))
    taken = int((strata.row_bin >= 0).sum()) - len(free)
    order = balanced_rows(unlabelled, counted.target, length + taken, seed=rules.seed)
    return order[np.isin(order, free)]
