"""evaluate-idk's table of several models, and its ensembles.

The published vote of an ensemble is on outcomes (right, wrong, neither), which nobody could hold without the gold
letters: two wrong models outvote a right one even if their letters differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import sqrt

import polars as pl

from layton_batch.tasks.mcq_idk.task import METRICS
from layton_batch.tasks.offline import Estimate

# ---- the table: the models' order, and every blank of the Markdown -------------------------------------------------


_MARKDOWN = re.compile(r"([\\`*\[\]<>|])")


ModelEstimates = Mapping[str, Mapping[str, Estimate]]
"""Estimates by metric of each model or ensemble; a missing one prints as "-"."""


def markdown(models: ModelEstimates) -> str:
    """Return the table of the models as they come, without a line break at its end."""
    header = ["Model", *(f"{metric} ± se" for metric in METRICS)]
    lines = [[plain_cell(name), *(cell(row.get(metric)) for metric in METRICS)] for name, row in models.items()]
    widths = [max(3, *(len(line[i]) for line in (header, *lines))) for i in range(len(header))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    padded = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in (header, *lines)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (padded[0], rule, *padded[1:]))


def cell(estimate: Estimate | None) -> str:
    """Percent with two decimals: "64.65 ± 3.41", "64.65" without a standard error, "-" without a value."""
    if estimate is None:
        return "-"
    value = f"{estimate.mean * 100:.2f}"
    return value if estimate.se is None else f"{value} ± {estimate.se * 100:.2f}"


def plain_cell(name: str) -> str:
    """Return a name that can end neither its cell nor its line, and is nothing but text."""
    shown = "".join(letter if letter.isprintable() else " " for letter in name)
    return _MARKDOWN.sub(r"\\\1", " ".join(shown.split()))


# ---- several models as one: a vote on every item that all of them replied to ---------------------------------------


def ensemble_votes(frames: Sequence[pl.DataFrame]) -> pl.Series:
    """Return the published vote on each item that all models have: +1 right, -1 wrong, 0 neither or a tie.

    ``frames``: each model's graded rows. An unreadable reply votes 0, not -1.
    """
    vote = pl.col("idk_score") + pl.col("extract_fail")
    votes = pl.concat(frame.select("item_id", vote=vote).unique("item_id", keep="last") for frame in frames)
    right, wrong, neither = ((pl.col("vote") == vote).sum() for vote in (1, -1, 0))
    by_item = votes.group_by("item_id").agg(pl.len(), right=right, wrong=wrong, neither=neither)
    majority = (
        pl.col(name) > pl.max_horizontal(other, "neither") for name, other in (("right", "wrong"), ("wrong", "right"))
    )
    is_right, is_wrong = (column.cast(pl.Int64) for column in majority)
    return by_item.filter(len=len(frames)).select(is_right - is_wrong).to_series()


def vote_estimates(votes: pl.Series) -> dict[str, Estimate]:
    """Return estimates like the published table.

    Abstentions include ties and unreadable replies, and nothing fails to extract. Standard errors come from the
    population's variance (n), unlike a single model's.
    """
    marks = zip(METRICS, (votes == 1, votes, votes == 0, votes * 0), strict=True)
    columns = {metric: column.cast(pl.Float64).to_numpy() for metric, column in marks}
    return {name: Estimate(float(x.mean()), float(x.std() / sqrt(len(x)))) for name, x in columns.items()}
