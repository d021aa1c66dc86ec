"""Plans of labels: which predictions people label next, and how much shorter intervals are expected to be then.

Half widths are of the interval that a board shows: for new items, or for these items alone. For new items the items at
hand leave something open that no label closes. How much is what the board would say if every answer had a label, as
votes and labels have it now; between that and now the variance falls as it does on these items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from layton_batch.errors import ManifestError
from layton_batch.scoring.counting import CountedVotes, count_votes
from layton_batch.scoring.evidence import ENTRANT, LABELS, Entrant
from layton_batch.scoring.law import VotePosterior
from layton_batch.scoring.leaderboard import NEW_ITEMS, THIS_SET
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.counts import FloatArray, IntArray
from layton_batch.stats.distributions import two_sided_quantile
from layton_batch.stats.hierarchical_scores import ModelScore
from layton_batch.stats.planning import balanced_rows, best_labels, expected_variance, share_labels
from layton_batch.text import plural

AS_SHORT = 1.05
"""An interval counts as being as short as labels can make it where it is at most so many times as long as that."""
_WHOLE_SCALE = 0.5  # half of the scale: where nothing is known the approximation is wider


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """Goal of a label plan: a ``half_width`` (fraction) for every model, or a number of ``labels``; not both.

    The half width is that of the interval for new items; with ``this_set``, of the interval for these items.
    """

    half_width: float | None = None
    labels: int | None = None
    this_set: bool = False

    def check(self) -> None:
        """Raises ManifestError for what cannot be aimed at."""
        if (self.half_width is None) == (self.labels is None):
            raise ManifestError("give either --half-width POINTS or --labels N")
        if self.half_width is not None and not 0 <= self.half_width < 1:
            raise ManifestError(f"--half-width {100 * self.half_width:g}: points from 0 to below 100, such as 1.0")
        if self.labels is not None and self.labels < 0:
            raise ManifestError(f"--labels {self.labels}: 0 or more")


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
    rows = _contested(board, aim)
    return LabellingPlan(
        target=THIS_SET if aim.this_set else NEW_ITEMS,
        level=rules.level,
        half_width=None if aim.half_width is None else 100 * aim.half_width,
        models=_model_plans(board, rows),
        rows=_asks(board.counted, rows),
    )


@dataclass(frozen=True, eq=False)
class _BoardNow:
    """A board as it is now. `alpha`, `beta` [K, B]: posterior of each model's rates. The variance of a score is `fixed`
    + `scale` times that of the score on these items [K]; labels take away the second part alone."""

    counted: CountedVotes
    rules: ScoringRules
    alpha: FloatArray
    beta: FloatArray
    fixed: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, votes: pl.DataFrame, labels: pl.DataFrame, rules: ScoringRules, *, this_set: bool) -> _BoardNow:
        counted = count_votes(votes, labels)
        counts, law = counted.counts, VotePosterior(counted, rules)
        alpha, beta = law.rates
        if this_set:
            return cls(counted, rules, alpha, beta, np.zeros(counts.models), np.ones(counts.models))
        here, now = expected_variance(counts, alpha, beta), _variance_on_new(law.scores(), rules)
        all_labelled = count_votes(counted.votes, pl.concat([labels, _expected_labels(counted, alpha, beta)]))
        fixed = np.minimum(_variance_on_new(VotePosterior(all_labelled, rules).scores(), rules), now)
        return cls(counted, rules, alpha, beta, fixed, (now - fixed) / np.maximum(here, 1e-12))

    def half_widths(self, rows: IntArray) -> FloatArray:
        """[K] expected half widths (fractions) once ``rows`` are labelled."""
        counts = self.counted.counts
        more = np.zeros_like(counts.n)
        np.add.at(more, (counts.predictions.model[rows], counts.row_bin[rows]), 1)
        here = np.maximum(expected_variance(counts, self.alpha, self.beta, more), 0.0)
        return self._half_width(self.fixed + self.scale * here)

    def goals(self, half_width: float) -> FloatArray:
        """[K] the half width (fraction); where no label reaches it, the one that counts as short as labels can give."""
        return np.maximum(half_width, AS_SHORT * self.least)

    @property
    def least(self) -> FloatArray:
        """[K] half widths (fractions) that no number of labels makes shorter."""
        return self._half_width(self.fixed)

    @property
    def free(self) -> IntArray:
        """Rows that have no label and may have one."""
        return np.flatnonzero((self.counted.counts.row_label < 0) & (self.counted.counts.row_bin >= 0))

    def best(self, model: int) -> tuple[IntArray, FloatArray]:
        """All unlabelled rows [N] of a model, the best label first, and half widths [N + 1] after 0..N of them."""
        rows, here = best_labels(self.counted.counts, self.alpha, self.beta, model, seed=self.rules.seed)
        return rows, self._half_width(self.fixed[model] + self.scale[model] * here)

    def _half_width(self, variance: FloatArray) -> FloatArray:
        return np.asarray(two_sided_quantile(self.rules.level) * np.sqrt(variance))


def _variance_on_new(scores: Sequence[ModelScore], rules: ScoringRules) -> FloatArray:
    """[K] variance of each score on new items, of which the board shows the interval."""
    ends = np.array([[score.new_lower, score.new_upper] for score in scores]).reshape(-1, 2)
    return np.asarray(((ends[:, 1] - ends[:, 0]) / (2 * two_sided_quantile(rules.level))) ** 2)


def _expected_labels(counted: CountedVotes, alpha: FloatArray, beta: FloatArray) -> pl.DataFrame:
    """A label on every answer that has none: at each vote of a model as many of them yes as are expected."""
    counts, words = counted.counts, []
    rate = alpha / (alpha + beta)
    seen = np.zeros(counts.n.shape, dtype=np.int64)
    rows = np.flatnonzero((counts.row_bin >= 0) & (counts.row_label < 0))
    for row in rows.tolist():
        at = int(counts.predictions.model[row]), int(counts.row_bin[row])
        seen[at] += 1
        words.append(math.floor(seen[at] * rate[at] + 0.5) > math.floor((seen[at] - 1) * rate[at] + 0.5))
    return counted.votes[rows].with_columns(correct=pl.Series(words, dtype=pl.Boolean)).select(*LABELS)


def _contested(board: _BoardNow, aim: LabelTarget) -> IntArray:
    """Rows of all models in turn, in the order of need, so that whoever stops early has helped each of them."""
    best = [board.best(model) for model in range(board.counted.counts.models)]
    if aim.labels is not None:
        counts = share_labels([widths for _, widths in best], aim.labels)
    else:
        goals = board.goals(aim.half_width or 0.0)
        counts = [_first_within(widths, goal) for (_, widths), goal in zip(best, goals.tolist(), strict=True)]
    needed = sorted(range(len(best)), key=lambda model: (-counts[model], model))
    queues = [best[model][0][: counts[model]] for model in needed]
    turns = [(place / len(rows), at, int(row)) for at, rows in enumerate(queues) for place, row in enumerate(rows)]
    return np.array([row for _, _, row in sorted(turns)], dtype=np.int64)


def _first_within(falling: FloatArray, goal: float) -> int:
    """Index of the first entry of a falling sequence that is within the goal; the last one is, up to rounding."""
    within = falling <= goal + 1e-12
    within[-1] = True
    return int(np.argmax(within))


def _model_plans(board: _BoardNow, rows: IntArray) -> tuple[ModelPlan, ...]:
    counted = board.counted
    now, then = (board.half_widths(part) for part in (np.zeros(0, dtype=np.int64), rows))
    now, then, least = (np.minimum(widths, _WHOLE_SCALE) for widths in (now, then, board.least))
    count = np.bincount(counted.counts.predictions.model[rows], minlength=len(counted.entrants))
    unlabelled = (counted.counts.n - counted.counts.own_labels).sum(axis=1)
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
    """The predictions to label next, and what labels buy: intervals ``now``, and after as many labels as are
    ``enough`` to make every model's interval about as short as labels can."""

    queue: tuple[LabelRequest, ...]
    unlabelled: int
    now: ExpectedIntervals
    enough: ExpectedIntervals


def outlook(
    votes: pl.DataFrame, labels: pl.DataFrame, rules: ScoringRules, design: str = "contested", *, length: int = 100
) -> LabelForecast:
    """Return what ``length`` more labels are best spent on, and what labels do for the intervals for new items.

    ``design``: ``contested`` asks where the outcome is least certain. ``balanced`` spreads labels evenly over makers,
    models and items, as the layton-eval paper does; its order is that of all predictions, so that it goes on where it
    was when some of them are labelled.
    """
    board = _BoardNow.of(votes, labels, rules, this_set=False)
    counts, free = board.counted.counts, board.free
    if design == "balanced":
        everything = np.flatnonzero(counts.row_bin >= 0)
        order = balanced_rows(counts, everything, len(everything) - len(free) + length, seed=rules.seed)
        order = order[np.isin(order, free)]
    else:
        order = _contested(board, LabelTarget(labels=min(length, len(free))))
    enough = _gain(board, _contested(board, LabelTarget(half_width=0.0)))
    return LabelForecast(_asks(board.counted, order[:length]), len(free), _gain(board, order[:0]), enough)


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
