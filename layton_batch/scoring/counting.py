"""Counts of votes and labels: from frames of named models and items to the arrays of ``stats``."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from layton_batch.errors import DataError
from layton_batch.scoring.evidence import ENTRANT, NEEDS_NO_JURY, PREDICTION, Entrant
from layton_batch.stats.counts import Counts, IntArray, LabelledAnswers, Predictions, count


@dataclass(frozen=True, slots=True, eq=False)
class CountedVotes:
    """The counts of a board: model i is ``entrants[i]``; the rows of its predictions are those of ``votes``."""

    entrants: tuple[Entrant, ...]
    votes: pl.DataFrame
    counts: Counts


def count_votes(votes: pl.DataFrame, labels: pl.DataFrame) -> CountedVotes:
    """Count by entrant and by vote, in the order of names, so that the order of sources moves nothing that is drawn.

    Raises DataError for an answer that occurs twice, and for labels of one answer of which as many say yes as no.
    """
    entrants = votes.select(ENTRANT).unique().sort(ENTRANT)
    votes, labels = _in_order(votes, entrants), settled(labels)
    authors = pl.concat([entrants, labels.select(ENTRANT)]).unique(maintain_order=True).with_row_index("author")
    makers = pl.Enum(authors["provider"].unique(maintain_order=True))
    authors = authors.with_columns(maker=pl.col("provider").cast(makers).to_physical())
    rows = votes.select(PREDICTION).with_row_index("row")
    labels = labels.join(authors, on=ENTRANT, how="left", maintain_order="left")
    labels = labels.join(rows, on=PREDICTION, how="left", maintain_order="left")
    predictions = Predictions(
        model=votes["who"].to_numpy(),
        item=votes["item"].to_numpy(),
        yes=votes["yes"].to_numpy(),
        total=votes["total"].to_numpy(),
        known_zero=votes.select(NEEDS_NO_JURY).to_series().to_numpy(),
        maker=_ints(authors["maker"])[: entrants.height],
    )
    labelled = LabelledAnswers(
        author=_ints(labels["author"]),
        maker=_ints(labels["maker"]),
        yes=_ints(labels["yes"]),
        total=_ints(labels["total"]),
        correct=_ints(labels["correct"]),
        row=_ints(labels["row"].cast(pl.Int64).fill_null(-1)),
    )
    names = tuple(Entrant(*names) for names in entrants.iter_rows())
    return CountedVotes(names, votes, count(predictions, labelled))


def _in_order(votes: pl.DataFrame, entrants: pl.DataFrame) -> pl.DataFrame:
    """The votes by entrant and item, with the numbers ``who`` and ``item``; items are numbered as they first come."""
    items = votes.select("item_id").unique().sort("item_id")
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


def settled(labels: pl.DataFrame) -> pl.DataFrame:
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
