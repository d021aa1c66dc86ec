"""Boards: what a leaderboard is made of, whose counts and posterior are made once for everything that reads them.

A jury's board has votes and labels, a board graded by rule has marks. Both have ``estimates`` of all models for each
target; a score by rule is exact on this set, which is not estimated then. Model i of every array is ``entrants[i]``,
and models are in the order of their names, so that the order of sources moves nothing that is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from layton_batch.errors import DataError
from layton_batch.scoring.evidence import ENTRANT, HAS_OUTCOME, NEEDS_NO_JURY, PREDICTION, Entrant, entrants_of
from layton_batch.scoring.leaderboard import HIERARCHICAL, NEW_ITEMS, RULE, THIS_SET, UNCALIBRATED, ScoringRules
from layton_batch.stats.counts import Counts, FloatArray, IntArray, LabelledAnswers, Predictions, count
from layton_batch.stats.hierarchical import POINTS, Fit, fit
from layton_batch.stats.hierarchical_scores import FitScores, slope_interval, summarize
from layton_batch.stats.marks import large_strata, mark_estimates
from layton_batch.stats.ranks import DRAWS, Estimates

STREAM = 0
"""Seed of joint draws: ranges that moved with a seed would say more about the seed than about the models."""
_FORECAST_POINTS = 32


@dataclass(frozen=True, eq=False)
class JuryBoard:
    """The models with votes and their labels.

    DataError is raised for an answer that occurs twice, and for labels of one answer of which as many say yes as no.
    """

    votes: pl.DataFrame
    labels: pl.DataFrame
    rules: ScoringRules

    @cached_property
    def entrants(self) -> list[Entrant]:
        """Return every model that has an answer."""
        return entrants_of(self.votes)

    @cached_property
    def ranked(self) -> JuryBoard:
        """Return the board of the models that have a score: without any label those that a judge voted on. Nobody else
        says anything of them."""
        if self.labels.height:
            return self
        votes = self.votes.filter(HAS_OUTCOME.any().over(ENTRANT))
        return self if votes.height == self.votes.height else replace(self, votes=votes)

    @property
    def method(self) -> str:
        """Return how the estimates are made; ``uncalibrated`` without labels."""
        return UNCALIBRATED if self.labels.is_empty() else HIERARCHICAL

    @cached_property
    def predictions(self) -> pl.DataFrame:
        """Return the votes by model and item, with the numbers ``who`` and ``item``: the rows of the counts."""
        return _in_order(self.votes)

    @cached_property
    def counts(self) -> Counts:
        """Count by model and by vote."""
        return _counted(self.predictions, self.labels)

    @cached_property
    def _fit(self) -> Fit:
        return self._fitted(self.counts, POINTS)

    @cached_property
    def posterior(self) -> FitScores:
        """Return estimates and rates of all models."""
        return summarize(self._fit, level=self.rules.level, draws=DRAWS, seed=STREAM)

    @property
    def estimates(self) -> Mapping[str, Estimates]:
        """Return the estimates by target."""
        return _by_target(self.posterior)

    @property
    def slope(self) -> tuple[float, float, float]:
        """Mean and ends of the ability slope."""
        return slope_interval(self._fit, self.rules.level)

    def forecast(self, counts: Counts) -> Mapping[str, Estimates]:
        """Return the estimates, without draws, if the labels are those of ``counts``."""
        return _by_target(summarize(self._fitted(counts, _FORECAST_POINTS), level=self.rules.level))

    def _fitted(self, counts: Counts, points: int) -> Fit:
        rules = self.rules
        return fit(
            counts,
            other_jury=rules.other_jury,
            label_error=rules.label_error,
            in_turn=rules.in_turn,
            drifted=rules.drifted,
            unsure=rules.unsure,
            points=points,
        )


def _by_target(posterior: FitScores) -> Mapping[str, Estimates]:
    return {NEW_ITEMS: posterior.new, THIS_SET: posterior.here}


# ---- counts --------------------------------------------------------------------------------------------------------


def _counted(predictions: pl.DataFrame, labels: pl.DataFrame) -> Counts:
    entrants = predictions.select(ENTRANT).unique(maintain_order=True)
    labels = _settled(labels)
    authors = pl.concat([entrants, labels.select(ENTRANT)]).unique(maintain_order=True).with_row_index("author")
    makers = pl.Enum(authors["provider"].unique(maintain_order=True))
    authors = authors.with_columns(maker=pl.col("provider").cast(makers).to_physical())
    rows = predictions.select(PREDICTION).with_row_index("row")
    labels = labels.join(authors, on=ENTRANT, how="left", maintain_order="left")
    labels = labels.join(rows, on=PREDICTION, how="left", maintain_order="left")
    labels = labels.with_columns(pl.col("row").cast(pl.Int64).fill_null(-1))
    is_known_zero = predictions.select(NEEDS_NO_JURY).to_series().to_numpy()
    return count(
        Predictions(
            predictions["who"].to_numpy(),
            predictions["item"].to_numpy(),
            predictions["yes"].to_numpy(),
            predictions["total"].to_numpy(),
            is_known_zero,
            _ints(authors["maker"])[: entrants.height],
        ),
        LabelledAnswers(*(_ints(labels[name]) for name in ("author", "maker", "yes", "total", "correct", "row"))),
    )


def _in_order(votes: pl.DataFrame) -> pl.DataFrame:
    """Sort the votes by entrant and item, with the numbers ``who`` and ``item``. Items are numbered as they first
    occur."""
    entrants = votes.select(ENTRANT).unique().sort(ENTRANT).with_row_index("who")
    items = pl.Enum(votes["item_id"].unique().sort())
    order = votes.select(*ENTRANT, place=pl.col("item_id").cast(items).to_physical()).with_row_index("row")
    order = order.join(entrants, on=ENTRANT, how="left", maintain_order="left").drop(ENTRANT)
    order = order.sort("who", "place", maintain_order=True)
    again = order.filter((pl.col("who") == pl.col("who").shift()) & (pl.col("place") == pl.col("place").shift()))
    if again.height:
        row = votes.row(min(again["row"]), named=True)
        raise DataError(
            f"item {row['item_id']!r} of model {Entrant.of(row).name!r} is there twice; give each model's answers in "
            "one source only, or the questions of each source ids of their own (column `id`)"
        )
    first = order.select("place").unique(maintain_order=True).with_row_index("item")
    item = order.select("place").join(first, on="place", maintain_order="left")["item"]
    return votes[order["row"]].with_columns(order["who"].cast(pl.Int32), item.cast(pl.Int32))


def _settled(labels: pl.DataFrame) -> pl.DataFrame:
    """Reduce the labels of every answer to the majority's. Raises DataError for a tie."""
    is_yes = 2 * pl.col("correct").sum() > pl.len()
    tied = labels.group_by(PREDICTION, maintain_order=True).agg(pl.len().alias("labels"), pl.col("correct").sum())
    tied = tied.filter(2 * pl.col("correct") == pl.col("labels"))
    if tied.height:
        row = tied.row(0, named=True)
        raise DataError(
            f"item {row['item_id']!r} of model {Entrant.of(row).name!r} has {row['labels']} human labels, "
            "half of them yes and half no; settle it and keep one"
        )
    winning_label = pl.exclude(PREDICTION).filter(pl.col("correct") == is_yes).first()
    return labels.group_by(PREDICTION, maintain_order=True).agg(winning_label)


def _ints(column: pl.Series) -> IntArray:
    return column.cast(pl.Int64).to_numpy()


# ---- graded by rule --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RuleBoard:
    """``marks``: the frame of marks; ``span``: the least and the greatest mark that the rule can give.

    A model may be asked several times (``samples``). An item's mark is the mean of its samples' marks, and items are
    weighed as wholes, so that an interval does not shrink as if every answer were an item of its own. DataError is
    raised for an item that occurs twice in a model's sample and a mark that is no number.
    """

    marks: pl.DataFrame
    rules: ScoringRules
    span: tuple[float, float] = (0.0, 1.0)

    @cached_property
    def entrants(self) -> list[Entrant]:
        """Return every model that has a mark."""
        return entrants_of(self.marks)

    @cached_property
    def item_marks(self) -> FloatArray:
        """[K, items] mean marks over samples, NaN where a model has none; items in the order of their ids."""
        _check(self.marks)
        means = self.marks.group_by(*ENTRANT, "item_id").agg(pl.col("mark").mean())
        model, item = (
            means.select(names).join(
                means.select(names).unique().sort(names).with_row_index(), on=names, maintain_order="left"
            )["index"]
            for names in (list(ENTRANT), ["item_id"])
        )
        marks = np.full((len(self.entrants), means["item_id"].n_unique()), np.nan)
        marks[model.to_numpy(), item.to_numpy()] = means["mark"].to_numpy()
        return marks

    @property
    def method(self) -> str:
        """Return the method of every board graded by rule."""
        return RULE

    @cached_property
    def estimates(self) -> Mapping[str, Estimates]:
        """Return the mean marks, in the rule's unit, with intervals for new items."""
        marks = self.item_marks
        names = self.marks.select("item_id", "stratum").unique("item_id").sort("item_id")["stratum"].to_list()
        strata = large_strata(names, marks) if (self.marks["stratum"] != "").all() else None
        return {NEW_ITEMS: mark_estimates(marks, seed=STREAM, level=self.rules.level, span=self.span, strata=strata)}


def _check(marks: pl.DataFrame) -> None:
    """Raises DataError for a mark that a model cannot have in one of its samples."""
    again = marks.filter(pl.struct(*ENTRANT, "sample", "item_id").is_duplicated())
    if again.height:
        raise DataError(
            f"model {Entrant.of(again.row(0, named=True)).name!r} has more than one mark for an item; give each "
            "model's answers in one source only, or the questions of each source ids of their own (column `id`)"
        )
    wrong = marks.filter(~pl.col("mark").is_finite().fill_null(value=False))
    if wrong.height:
        name = Entrant.of(wrong.row(0, named=True)).name
        raise DataError(f"model {name!r} has a mark that is no number; score the run again")
