"""Rates of right items, by category, picarats and model: what charts show of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.judge_quality import read_record
from layton_batch.site.pages import short_line
from layton_batch.site.run_tables import METRICS, table

_ANSWER = ("item_id", "model", "n_hints", "sample")


@dataclass(frozen=True, slots=True)
class ItemRates:
    """Shares from 0 to 1. ``by_category``, ``by_picarats``: a mean over models for each item of the group;
    ``by_model``: model, category, mean over items; ``by_item``: a mean over models, by the votes alone.

    ``judge``: who says what is right, by item; ``corrected_judge``: in all other shares.
    """

    judge: str
    corrected_judge: str
    by_item: Sequence[float] = ()
    by_category: Mapping[str, Sequence[float]] = field(default_factory=dict)
    by_picarats: Mapping[str, Sequence[float]] = field(default_factory=dict)
    by_model: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def item_rates(folder: RunFolder, metric: str) -> ItemRates:
    """Read the shares from the scores. Never judged counts as wrong.

    Where there are labels, a vote counts as often as people say right at that vote, and a labelled answer by its label.
    """
    columns = (*_ANSWER, "metric", "yes", "total", "vote")
    scores = table(folder, "scores", columns).filter(pl.col("metric") == metric)
    by_rule = bool(scores.height) and scores["total"].null_count() == scores.height
    share = pl.when(pl.col("total") > 0).then(pl.col("yes") / pl.col("total")).otherwise(pl.col("vote"))
    marks = scores.with_columns(share=share.fill_null(0.0).fill_nan(0.0).clip(0.0, 1.0))
    corrected = None if by_rule else _corrected(folder, marks, metric)
    items = table(folder, "items", ("item_id", "category", "payload"))
    worth = pl.col("payload").str.extract(r'"_picarats":\s*(\d+)', 1).cast(pl.Int64, strict=False)
    items = items.select("item_id", "category", picarats=worth)
    plain, best = (_by_item(frame, items) for frame in (marks, marks if corrected is None else corrected))
    named = (marks if corrected is None else corrected).join(items, on="item_id", how="left").drop_nulls("category")
    by_model: dict[str, dict[str, float]] = {}
    means = named.group_by("model", "category", maintain_order=True).agg(pl.col("share").mean())
    for model, category, mean in means.iter_rows():
        by_model.setdefault(short_line(model), {})[short_line(category)] = mean
    judge = "the rule" if by_rule else "the jury"
    return ItemRates(
        judge=judge,
        corrected_judge=judge if corrected is None else "the jury, corrected by people’s labels",
        by_item=plain["share"].to_list(),
        by_category=_grouped(best, "category"),
        by_picarats=_grouped(best, "picarats"),
        by_model=by_model,
    )


def _by_item(marks: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    means = marks.group_by("item_id", maintain_order=True).agg(pl.col("share").mean())
    return means.join(items, on="item_id", how="left")


def _corrected(folder: RunFolder, marks: pl.DataFrame, metric: str) -> pl.DataFrame | None:
    """Return the marks with other shares; None where no label says anything of the votes on this metric."""
    record = read_record(folder.tables)
    bins = () if record is None or record.diagnosis.metric != metric else record.diagnosis.bins
    # Jeffreys' estimate, as the intervals of the votes on the judges' page
    rows = [(vote.yes, vote.total, (vote.positives + 0.5) / (vote.labels + 1)) for vote in bins if vote.labels]
    if not rows:
        return None
    rates = pl.DataFrame(rows, {"yes": pl.Int64, "total": pl.Int64, "rate": pl.Float64}, orient="row")
    keys = (pl.col("n_hints").cast(pl.Int64).fill_null(0), pl.col("sample").cast(pl.Int64).fill_null(1))
    labels = table(folder, "labels", (*_ANSWER, metric) if metric in METRICS else _ANSWER).with_columns(keys)
    label = pl.col(metric).cast(pl.Float64) if metric in METRICS else pl.lit(None, pl.Float64)
    labels = labels.select(*_ANSWER, label=label).unique(_ANSWER, maintain_order=True)
    votes = marks.with_columns(*keys, pl.col("yes").cast(pl.Int64), pl.col("total").cast(pl.Int64))
    rated = votes.join(rates.filter(pl.col("total") > 0), on=("yes", "total"), how="left", maintain_order="left")
    rated = rated.join(labels, on=_ANSWER, how="left", maintain_order="left")
    return rated.with_columns(share=pl.coalesce("label", "rate", "share"))


def _grouped(rates: pl.DataFrame, column: str) -> dict[str, list[float]]:
    shares: dict[str, list[float]] = {}
    for name, share in rates.drop_nulls(column).sort(column, maintain_order=True).select(column, "share").iter_rows():
        if name != "":
            shares.setdefault(short_line(name), []).append(share)
    return shares
