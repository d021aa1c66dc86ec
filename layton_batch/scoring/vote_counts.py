"""How often each model's answers got which votes: all that a board of very many models is made from."""

from __future__ import annotations

import polars as pl

from layton_batch.errors import DataError
from layton_batch.scoring.vote_files import WHO, VoteFile, check_votes
from layton_batch.scoring.vote_table import counting, kind_of

COUNTED = ("kind", "yes", "total")


def counts_of(votes: VoteFile, metric: str) -> pl.DataFrame:
    """``model, provider, n_hints, kind, yes, total`` and how many predictions (``times``) are alike in these, in this
    order; ``samples``: how many answers there are to an item, of which the first counts.

    Raises DataError for a prediction that is there twice, and for what is no vote.
    """
    rows = votes.read(metric, [*WHO, "sample", "item_id", "flag", "yes", "total"])
    check_votes(rows, str(votes))
    samples = rows["sample"].n_unique()
    if samples > 1:
        rows = rows.filter(pl.col("sample") == pl.col("sample").min().over(WHO))
    begins = pl.any_horizontal(pl.col(name) != pl.col(name).shift() for name in WHO).fill_null(value=True)
    placed = rows.select(begins=begins, climbs=(pl.col("item_id") > pl.col("item_id").shift()).fill_null(value=True))
    entrants = rows.filter(placed["begins"]).select(WHO)
    is_in_order = (placed["begins"] | placed["climbs"]).all() and not entrants.is_duplicated().any()
    if not is_in_order and (again := rows.select(*WHO, "item_id").is_duplicated()).any():
        model, item = rows.filter(again).select("model", "item_id").row(0)
        raise DataError(f"{votes}: item {item!r} of model {model!r} is there twice")
    numbered = rows.select(who=placed["begins"].cum_sum(), kind=kind_of(), yes=counting("yes"), total=counting("total"))
    alike = numbered.group_by("who", *COUNTED).agg(times=pl.len().cast(pl.Int64))
    named = alike.join(entrants.with_row_index("who", 1), on="who").drop("who")
    if not is_in_order:
        named = named.group_by(*WHO, *COUNTED).agg(pl.col("times").sum())
    found = named.with_columns(pl.col("kind").cast(pl.String)).select(*WHO, *COUNTED, "times").sort(*WHO, *COUNTED)
    return found.with_columns(samples=pl.lit(samples, pl.Int64))
