"""A leaderboard as a chart for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from layton_batch.drawing import BLUE, table, titled
from layton_batch.text import one_line, shortened

_LONGEST, _WIDTH, _ROW = 40, 480, 24
_TOLD = ["model:N", "score:Q", "lower:Q", "upper:Q"]
_NAMES = alt.Axis(labelLimit=300)


def board_chart(board: pl.DataFrame) -> alt.LayerChart:
    """Return a dot and an interval for each model, the best on top."""
    rows = [
        {
            "model": _name(row["model"], row["provider"] if doubled else "", row["n_hints"] if hinted else None),
            **{name: row[name] for name in ("score", "lower", "upper")},
        }
        for doubled, hinted in [_apart(board)]
        for row in board.iter_rows(named=True)
        if row["score"] is not None
    ]
    names = [row["model"] for row in rows]
    base = alt.Chart(table(rows)).encode(y=alt.Y("model:N", sort=names, title=None, axis=_NAMES))
    intervals = base.mark_rule(color=BLUE, strokeWidth=2).encode(
        x=alt.X("lower:Q", title="score, percent"), x2="upper:Q"
    )
    dots = base.mark_circle(color=BLUE, size=70, opacity=1).encode(x="score:Q", tooltip=_TOLD)
    metric = one_line(str(board["metric"][0])).replace("_", " ") if board.height else "score"
    return _sized([intervals, dots], len(names), f"Leaderboard: {metric}, with intervals")


def _apart(board: pl.DataFrame) -> tuple[bool, bool]:
    """Tell whether names need their providers, and whether they need their numbers of hints."""
    by_name = board.group_by("model").agg(pl.col("provider").n_unique(), pl.col("n_hints").n_unique())
    return bool((by_name["provider"] > 1).any()), bool((by_name["n_hints"] > 1).any())


def _name(model: object, provider: object, hints: object) -> str:
    name = f"{provider}/{model}" if provider else str(model)
    return shortened(one_line(name if hints is None else f"{name}@{hints}"), _LONGEST)


def _sized(layers: Sequence[alt.Chart], rows: int, title: str) -> alt.LayerChart:
    chart = alt.LayerChart(layer=list(layers)).properties(width=_WIDTH, height=max(rows, 1) * _ROW)
    return titled(chart, title)
