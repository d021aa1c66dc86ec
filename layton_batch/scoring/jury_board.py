"""A jury's board: votes, labels and rules, whose counts and posterior are made once for everything that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from layton_batch.errors import DataError
from layton_batch.scoring.evidence import ENTRANT, NEEDS_NO_JURY, PREDICTION, Entrant, entrants_of
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.counts import Counts, FloatArray, IntArray, LabelledAnswers, Predictions, count
from layton_batch.stats.hierarchical import POINTS, Fit, fit
from layton_batch.stats.hierarchical_scores import DRAWS, FitScores, ModelScore, slope_interval, summarize

STREAM = 0
"""Seed of joint draws: ranges that moved with a seed would say more about the seed than about the models."""
_FORECAST_POINTS = 32


@dataclass(frozen=True, eq=False)
class JuryBoard:
    """The models with votes and their labels; model i of every array is ``entrants[i]``.

    Models are in the order of their names, so that the order of sources moves nothing that is drawn. DataError is
    raised for an answer that occurs twice, and for labels of one answer of which as many say yes as no.
    """

    votes: pl.DataFrame
    labels: pl.DataFrame
    rules: ScoringRules

    @cached_property
    def entrants(self) -> tuple[Entrant, ...]:
        """Return every model that has an answer."""
        return tuple(entrants_of(self.votes))

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
        return _fitted(self.counts, self.rules, POINTS)

    @cached_property
    def posterior(self) -> FitScores:
        """Return scores, intervals, rates and joint draws of all models."""
        return summarize(self._fit, level=self.rules.level, draws=DRAWS, seed=STREAM)

    @property
    def slope(self) -> tuple[float, float, float]:
        """Mean and ends of the ability slope."""
        return slope_interval(self._fit, self.rules.level)

    def half_widths(self, *, this_set: bool) -> FloatArray:
        """Return [K] half widths (fractions) of the intervals for these items, or for new ones."""
        return _half_widths(self.posterior.scores, this_set=this_set)

    def forecast(self, counts: Counts, *, this_set: bool) -> FloatArray:
        """Return the half widths if the labels are those of ``counts``."""
        expected = summarize(_fitted(counts, self.rules, _FORECAST_POINTS), level=self.rules.level)
        return _half_widths(expected.scores, this_set=this_set)


def _fitted(counts: Counts, rules: ScoringRules, points: int) -> Fit:
    return fit(
        counts,
        other_jury=rules.other_jury,
        label_error=rules.label_error,
        in_turn=rules.in_turn,
        drifted=rules.drifted,
        points=points,
    )


def _half_widths(rows: Sequence[ModelScore], *, this_set: bool) -> FloatArray:
    ends = [(row.lower, row.upper) if this_set else (row.new_lower, row.new_upper) for row in rows]
    low, high = np.array(ends, dtype=np.float64).reshape(-1, 2).T
    return np.asarray((high - low) / 2)


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
    return count(
        Predictions(
            model=predictions["who"].to_numpy(),
            item=predictions["item"].to_numpy(),
            yes=predictions["yes"].to_numpy(),
            total=predictions["total"].to_numpy(),
            known_zero=predictions.select(NEEDS_NO_JURY).to_series().to_numpy(),
            maker=_ints(authors["maker"])[: entrants.height],
        ),
        LabelledAnswers(
            author=_ints(labels["author"]),
            maker=_ints(labels["maker"]),
            yes=_ints(labels["yes"]),
            total=_ints(labels["total"]),
            correct=_ints(labels["correct"]),
            row=_ints(labels["row"].cast(pl.Int64).fill_null(-1)),
        ),
    )


def _in_order(votes: pl.DataFrame) -> pl.DataFrame:
    """Sort the votes by entrant and item, with the numbers ``who`` and ``item``. Items are numbered as they first
    occur."""
    entrants, items = (votes.select(names).unique().sort(names) for names in (ENTRANT, ("item_id",)))
    codes = votes.select(ENTRANT).join(entrants.with_row_index("who"), on=ENTRANT, how="left", maintain_order="left")
    places = votes.select("item_id").join(items.with_row_index("place"), on="item_id", maintain_order="left")
    order = (
        pl.DataFrame([codes["who"], places["place"]]).with_row_index("row").sort("who", "place", maintain_order=True)
    )
    again = order.filter((pl.col("who") == pl.col("who").shift()) & (pl.col("place") == pl.col("place").shift()))
    if again.height:
        row = votes[again["row"]].with_columns(again["row"]).sort("row").row(0, named=True)
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
