"""The published bar chart: what a model scores traditionally and with penalties, and how often it abstains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import altair as alt

from layton_batch.drawing import INK, Row, table, titled
from layton_batch.tasks.offline import ModelEstimates

# Okabe & Ito's colours, which people with any colour vision can tell apart.
_BARS = {"trad_score": "Traditional score", "idk_score": "IDK score"}
_LINE = {"idk_freq": "IDK frequency"}
_COLOURS = ("#56b4e9", "#e69f00", "#009e73")
_HEIGHT, _MODEL_WIDTH, _LEAST_WIDTH = 480, 100, 800
_ROOM = 6
"""Percent points for the label under a bar."""


def bar_chart(rows: ModelEstimates, benchmark: str, *, clip_negative: bool = False) -> alt.LayerChart:
    """Two bars a model (trad_score, idk_score) with standard errors, idk_freq as a line on an axis of its own.

    ``clip_negative``: as published, the axis begins at 0 and a negative bar vanishes; otherwise it goes below.
    """
    low, high = _ends(rows, clip_negative)
    names = alt.Axis(labelAngle=-20, labelLimit=260, domain=False, ticks=False)
    at = alt.X("name:N", scale=alt.Scale(domain=[*rows]), axis=names, title=None)
    layers = [alt.LayerChart(layer=[*_pairs(rows, at, low, high)]), _frequency(rows, at)]
    width = max(_LEAST_WIDTH, 120 + _MODEL_WIDTH * len(rows))
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    both = alt.LayerChart(layer=layers).resolve_scale(y="independent")
    title = f"{benchmark} Performance drop: Traditional vs IDK score (higher is better)".lstrip()
    return titled(both.properties(width=width, height=_HEIGHT, autosize=fit), title)


def _ends(rows: ModelEstimates, clip_negative: bool) -> tuple[float, float]:
    estimates = [row[metric] for row in rows.values() for metric in _BARS if metric in row]
    high = max([100.0, *(112 * (estimate.mean + (estimate.se or 0)) for estimate in estimates)])
    low = min([0.0, *(100 * (estimate.mean - (estimate.se or 0)) - _ROOM for estimate in estimates)])
    return 0.0 if clip_negative or low > -_ROOM else 20.0 * (low // 20), high


def _values(rows: ModelEstimates, series: Mapping[str, str], low: float, high: float) -> Iterator[Row]:
    """A row for every estimate that there is, in percent; its bar and its error are cut off at the axis' ends."""
    for name, row in rows.items():
        for metric, label in series.items():
            if (estimate := row.get(metric)) is not None:
                ends = (100 * (estimate.mean + part * (estimate.se or 0)) for part in (-1, 0, 1))
                least, value, most = (min(max(end, low), high) for end in ends)
                shown = f"{100 * estimate.mean:.2f}"
                yield {"name": name, "series": label, "shown": shown, "value": value, "low": least, "high": most}


def _pairs(rows: ModelEstimates, at: alt.X, low: float, high: float) -> Iterator[alt.Chart]:
    labels = [*_BARS.values(), *_LINE.values()]
    legend = alt.Legend(orient="top", symbolType="square")
    colour = alt.Color("series:N", scale=alt.Scale(domain=labels, range=_COLOURS), title=None, legend=legend)
    offset = alt.XOffset("series:N", scale=alt.Scale(domain=[*_BARS.values()]))
    ticks = alt.Axis(values=[20 * i for i in range(int(low / 20), int(high / 20) + 1)], labelOverlap=False)
    y = alt.Y("value:Q", title="Score (%)", axis=ticks, scale=alt.Scale(domain=[low, high], nice=False))
    bars = alt.Chart(table([*_values(rows, _BARS, low, high)])).encode(x=at, xOffset=offset)
    yield bars.mark_bar().encode(y=y, color=colour)
    yield bars.mark_rule(color=INK).encode(y="low:Q", y2="high:Q")
    for test, end, dy in (("value >= 0", "high:Q", -7), ("value < 0", "low:Q", 9)):
        text = bars.transform_filter(f"datum.{test}").mark_text(dy=dy, fontSize=9, color=INK)
        yield text.encode(y=end, text="shown:N")
    yield alt.Chart(table([{}])).mark_rule(color=INK).encode(y=alt.datum(0))


def _frequency(rows: ModelEstimates, at: alt.X) -> alt.LayerChart:
    base = alt.Chart(table([*_values(rows, _LINE, 0, 100)])).encode(x=at)
    axis = alt.Axis(orient="right", grid=False)
    y = alt.Y("value:Q", title="IDK frequency (%)", axis=axis, scale=alt.Scale(domain=[0, 100]))
    line = base.mark_line(color=_COLOURS[2], point=alt.OverlayMarkDef(size=50, color=_COLOURS[2])).encode(y=y)
    return alt.LayerChart(layer=[line, base.mark_rule(color=_COLOURS[2]).encode(y="low:Q", y2="high:Q")])
