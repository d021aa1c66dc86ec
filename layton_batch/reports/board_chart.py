"""A leaderboard as a chart for a notebook."""

from __future__ import annotations

import altair as alt
import polars as pl

from layton_batch.drawing import BLUE, Row, scores_with_intervals, titled
from layton_batch.text import one_line, range_text, shortened

_LONGEST, _WIDTH, _ROW = 40, 480, 24


def board_chart(board: pl.DataFrame) -> alt.LayerChart:
    """Return a dot and an interval for each model, the best on top."""
    is_hinted = board["n_hints"].n_unique() > 1
    name = pl.format("{}@{}", "model", "n_hints") if is_hinted else "model"
    shown = board.select(name, "score", "lower", "upper").drop_nulls("score")
    rows: list[Row] = [
        {
            "at": at,
            "name": shortened(one_line(model), _LONGEST),
            "label": f"{one_line(model)}: {score:.1f} ({range_text(low, high)})",
            "colour": BLUE,
            "score": score,
            "low": low,
            "high": high,
        }
        for at, (model, score, low, high) in enumerate(shown.iter_rows())
    ]
    metric = one_line(str(board["metric"][0])).replace("_", " ") if board.height else "score"
    return titled(scores_with_intervals(rows, _WIDTH, _ROW), f"Leaderboard: {metric}, with intervals")
