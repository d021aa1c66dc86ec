"""How often items were right, by category, picarats and model: what charts show of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.pages import short_line
from layton_batch.site.reading import table


@dataclass(frozen=True, slots=True)
class ItemRates:
    """Shares from 0 to 1. ``by_category``, ``by_picarats``: a mean over models for each item of the group;
    ``by_item`` all of them; ``by_model``: model, category, mean over items. ``judge``: who says what is right."""

    judge: str
    by_item: Sequence[float] = ()
    by_category: Mapping[str, Sequence[float]] = field(default_factory=dict)
    by_picarats: Mapping[str, Sequence[float]] = field(default_factory=dict)
    by_model: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def item_rates(folder: RunFolder, metric: str) -> ItemRates:
    """From the scores, as the jury or the rule has them: without people's labels. Never judged counts as wrong."""
    columns = ("item_id", "model", "metric", "yes", "total", "vote", "flag")
    scores = table(folder, "scores", columns).filter(pl.col("metric") == metric)
    by_rule = bool(scores.height) and scores["total"].null_count() == scores.height
    share = pl.when(pl.col("total") > 0).then(pl.col("yes") / pl.col("total")).otherwise(pl.col("vote"))
    marks = scores.select("item_id", "model", share=share.fill_null(0.0).fill_nan(0.0).clip(0.0, 1.0))
    items = table(folder, "items", ("item_id", "category", "payload"))
    worth = pl.col("payload").str.extract(r'"_picarats":\s*(\d+)', 1).cast(pl.Int64, strict=False)
    items = items.select("item_id", "category", picarats=worth)
    rates = (
        marks.group_by("item_id", maintain_order=True).agg(pl.col("share").mean()).join(items, on="item_id", how="left")
    )
    named = marks.join(items, on="item_id", how="left").drop_nulls("category")
    by_model: dict[str, dict[str, float]] = {}
    for model, category, mean in named.group_by("model", "category").agg(pl.col("share").mean()).iter_rows():
        by_model.setdefault(short_line(model), {})[short_line(category)] = mean
    return ItemRates(
        judge="the rule" if by_rule else "the jury",
        by_item=rates["share"].to_list(),
        by_category=_grouped(rates, "category"),
        by_picarats=_grouped(rates, "picarats"),
        by_model=by_model,
    )


def _grouped(rates: pl.DataFrame, column: str) -> dict[str, list[float]]:
    shares: dict[str, list[float]] = {}
    for name, share in rates.drop_nulls(column).sort(column, maintain_order=True).select(column, "share").iter_rows():
        if name != "":
            shares.setdefault(short_line(name), []).append(share)
    return shares
