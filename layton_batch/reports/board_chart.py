"""A leaderboard as a chart for a notebook."""

from __future__ import annotations

import altair as alt
import polars as pl

from layton_batch.drawing import BLUE, table, titled
from layton_batch.text import one_line, shortened

_LONGEST, _WIDTH, _ROW = 40, 480, 24
_TOLD = ["model:N", "score:Q", "lower:Q", "upper:Q"]
_NAMES = alt.Axis(labelLimit=300)


def board_chart(board: pl.DataFrame) -> alt.LayerChart:
    """Return a dot and an interval for each model, the best on top."""
    is_doubled, is_hinted = (pl.col(name).n_unique().over("model").max() > 1 for name in ("provider", "n_hints"))
    provider, hints = (pl.format(form, name) for form, name in (("{}/", "provider"), ("@{}", "n_hints")))
    name = pl.concat_str(
        pl.when(is_doubled).then(provider).otherwise(pl.lit("")), "model",
        pl.when(is_hinted).then(hints).otherwise(pl.lit("")),
    )  # fmt: skip
    shown = board.select(name.alias("model"), "score", "lower", "upper").drop_nulls("score")
    rows = [{**row, "model": shortened(one_line(row["model"]), _LONGEST)} for row in shown.iter_rows(named=True)]
    names = [row["model"] for row in rows]
    base = alt.Chart(table(rows)).encode(y=alt.Y("model:N", sort=names, title=None, axis=_NAMES))
    intervals = base.mark_rule(color=BLUE, strokeWidth=2).encode(
        x=alt.X("lower:Q", title="score, percent"), x2="upper:Q"
    )
    dots = base.mark_circle(color=BLUE, size=70, opacity=1).encode(x="score:Q", tooltip=_TOLD)
    chart = alt.LayerChart(layer=[intervals, dots]).properties(width=_WIDTH, height=max(len(names), 1) * _ROW)
    metric = one_line(str(board["metric"][0])).replace("_", " ") if board.height else "score"
    return titled(chart, f"Leaderboard: {metric}, with intervals")
