"""The risk-coverage view: how much a model answers, and how often it is wrong when it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt

from layton_batch.tasks.charts import Axis, Row, named_points, table, titled
from layton_batch.tasks.mcq_idk_rules.abstention import Selective

_LEVEL, _STEPS = "#9a5b00", 40


def risk_chart(rows: Sequence[tuple[str, Selective]], benchmark: str) -> alt.LayerChart:
    """A point for every (name, view) that answers anything: coverage to the right, risk upwards, both in percent.

    The curves join points of equal idk_score; the uppermost is a score of 0, where a model
    might as well abstain throughout. Lower and further right is better. Unreadable replies only lack in coverage.
    """
    seen = ((name, view.coverage, view.risk) for name, view in rows)
    points: list[Row] = [
        {
            "x": 100 * coverage,
            "y": 100 * risk,
            "name": name,
            "told": f"{name}: {100 * coverage:.1f} % answered, {100 * risk:.1f} % of them wrong",
        }
        for name, coverage, risk in seen
        if coverage is not None and risk is not None
    ]
    top = max([0.5, *(view.risk or 0.0 for _, view in rows)])
    up = Axis("Risk: answers that are wrong (%)", 0, min(100, 10 * int(top * 10 + 1.5)), 382)
    across = Axis("Coverage: items answered (%)", 0, 100, 698)
    base = alt.Chart(table([*_levels(up.high)])).encode(x="x:Q", y="y:Q")
    curves = base.mark_line(color=_LEVEL, strokeWidth=0.75, aria=False).encode(detail="score:N", order="x:Q")
    ends = base.transform_filter("datum.x == 100").mark_text(color=_LEVEL, align="left", dx=4, fontSize=9)
    layers = alt.LayerChart(layer=[curves, ends.encode(text="score:N"), named_points(points, across, up)])
    title = f"{benchmark} Risk and coverage (curves: equal score where a mistake costs 1)".lstrip()
    return titled(layers.properties(width=across.length, height=up.length), title)


def _levels(high: float) -> Iterator[Row]:
    """score = coverage (1 - 2 risk), solved for the risk."""
    for score in (0, 0.2, 0.4, 0.6, 0.8):
        for i in range(_STEPS + 1):
            coverage = max(score, 0.01) + (1 - max(score, 0.01)) * i / _STEPS
            risk = 50 * (1 - score / coverage)
            if 0 <= risk <= high:
                yield {"score": f"{score:g}", "x": round(100 * coverage, 6), "y": risk}
