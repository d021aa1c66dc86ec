"""The published bar chart: what a model scores traditionally and with penalties, and how often it abstains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import altair as alt

from layton_batch.drawing import INK, Row, table, titled
from layton_batch.tasks.mcq_idk.published_table import TableRow
from layton_batch.text import shortened

# ---- scores --------------------------------------------------------------------------------------------------------


# Okabe & Ito's colours, which people with any colour vision can tell apart.
_BARS = {"trad_score": "Traditional score", "idk_score": "IDK score"}
_LINE = {"idk_freq": "IDK frequency"}
_COLOURS = ("#56b4e9", "#e69f00", "#009e73")
_LABEL_LINES, _HEIGHT = 3, 480
_PART = re.compile(r"[^-/_ :]*[-/_ :]?")


def bar_chart(rows: Sequence[TableRow], benchmark: str, *, clip_negative: bool = False) -> alt.LayerChart:
    """Two bars a model (trad_score, idk_score) with standard errors, idk_freq as a line on an axis of its own.

    ``clip_negative``: as published, the axis begins at 0 and a negative bar vanishes; otherwise it goes below.
    """
    width = max(800, 120 + 100 * len(rows))
    low, high = _ends(rows, clip_negative)
    room = max(4, int((width - 116) / max(1, len(rows)) / 6.8))
    names: list[Row] = [{"at": i, "lines": [*_lines(row.name, room)]} for i, row in enumerate(rows)]
    at = alt.X("at:O", axis=None, scale=alt.Scale(padding=0.14, domain=list(range(len(rows)))))
    under = alt.Chart(table(names)).mark_text(baseline="top", dy=8, lineHeight=13, color=INK)
    layers = [*_pairs(rows, low, high, at), under.encode(x=at, y=alt.value("height"), text="lines:N")]
    both = alt.LayerChart(layer=[alt.LayerChart(layer=layers), _frequency(rows, at)]).resolve_scale(y="independent")
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    title = f"{benchmark} Performance drop: Traditional vs IDK score (higher is better)".lstrip()
    return titled(both.properties(width=width, height=_HEIGHT, autosize=fit), title)


def _ends(rows: Sequence[TableRow], clip_negative: bool) -> tuple[float, float]:
    estimates = [row.estimates[metric] for row in rows for metric in _BARS if metric in row.estimates]
    high = max([100.0, *(1.12 * 100 * (estimate.mean + (estimate.se or 0)) for estimate in estimates)])
    low = min([0.0, *(100 * (estimate.mean - (estimate.se or 0)) for estimate in estimates)])
    room = 6 if low < 0 else 0  # for the label under a bar
    return 0.0 if clip_negative else 20.0 * ((low - room) // 20), high


def _values(rows: Sequence[TableRow], series: dict[str, str], low: float, high: float) -> Iterator[Row]:
    """A row for every estimate in percent, cut off at the axis' ends; ``shown`` is what is written at it."""
    for i, row in enumerate(rows):
        for metric, label in series.items():
            estimate = row.estimates.get(metric)
            if estimate is None:
                yield {"at": i, "series": label, "shown": "N/A", "value": None, "low": 0, "high": 0}
                continue
            ends = (100 * (estimate.mean + part * (estimate.se or 0)) for part in (-1, 0, 1))
            least, value, most = (min(max(end, low), high) for end in ends)
            shown = f"{100 * estimate.mean:.2f}"
            yield {"at": i, "series": label, "shown": shown, "value": value, "low": least, "high": most}


def _pairs(rows: Sequence[TableRow], low: float, high: float, at: alt.X) -> Iterator[alt.Chart]:
    labels = [*_BARS.values(), *_LINE.values()]
    colour = alt.Color("series:N", scale=alt.Scale(domain=labels, range=_COLOURS), title=None)
    colour = colour.legend(orient="top", symbolType="square")
    offset = alt.XOffset("series:N", scale=alt.Scale(domain=[*_BARS.values()]))
    values = [*_values(rows, _BARS, low, high)]
    base = alt.Chart(table(values)).encode(x=at, xOffset=offset)
    ticks = alt.Axis(values=[20 * i for i in range(int(low / 20), int(high / 20) + 1)], labelOverlap=False)
    y = alt.Y("value:Q", title="Score (%)", axis=ticks, scale=alt.Scale(domain=[low, high], nice=False))
    drawn = base.transform_filter("datum.value !== null")
    yield drawn.mark_bar().encode(y=y, color=colour)
    yield drawn.mark_rule(color=INK).encode(y="low:Q", y2="high:Q")
    for end in ("low:Q", "high:Q"):
        yield drawn.transform_filter("datum.low < datum.high").mark_tick(color=INK, size=8, thickness=1).encode(y=end)
    for test, end, dy in (("value >= 0", "high:Q", -7), ("value < 0", "low:Q", 9)):
        text = drawn.transform_filter(f"datum.{test}").mark_text(dy=dy, fontSize=9, color=INK)
        yield text.encode(y=end, text="shown:N")
    unknown = base.transform_filter("datum.value === null").mark_text(angle=270, align="left", dx=4, fontSize=9)
    yield unknown.encode(y="low:Q", text="shown:N")
    yield alt.Chart(table([{}])).mark_rule(color=INK).encode(y=alt.datum(0))


def _frequency(rows: Sequence[TableRow], at: alt.X) -> alt.LayerChart:
    drawn = [row for row in _values(rows, _LINE, 0, 100) if row["value"] is not None]
    base = alt.Chart(table(drawn)).encode(x=at)
    axis = alt.Axis(orient="right", grid=False, values=[0, 20, 40, 60, 80, 100])
    y = alt.Y("value:Q", title="IDK frequency (%)", axis=axis, scale=alt.Scale(domain=[0, 100]))
    line = base.mark_line(color=_COLOURS[2], point=alt.OverlayMarkDef(size=50, color=_COLOURS[2])).encode(y=y)
    return alt.LayerChart(layer=[line, base.mark_rule(color=_COLOURS[2]).encode(y="low:Q", y2="high:Q")])


def _lines(name: str, room: int) -> list[str]:
    """The name on up to three lines, broken after blanks, hyphens and the like."""
    lines = [""]
    for part in _PART.findall(name):
        if lines[-1] and len(lines[-1] + part) > room:
            lines.append("")
        lines[-1] += part
    lines = [*lines[: _LABEL_LINES - 1], "".join(lines[_LABEL_LINES - 1 :])]
    return [shortened(line.strip(), room) for line in lines]
