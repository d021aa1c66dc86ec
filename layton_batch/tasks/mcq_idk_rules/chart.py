"""The published bar chart: what a model scores traditionally, with penalties, and how often it abstains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from layton_batch.tasks.mcq_idk_rules.metrics import Estimate
from layton_batch.tasks.mcq_idk_rules.table import BoardRow
from layton_batch.tasks.scene import Circle, Line, Rect, Scene, Shape, Text, shortened

# Okabe & Ito's colours, which people with any colour vision can tell apart; the darker ones are for error bars.
_BARS = (("trad_score", "Traditional score", "#56b4e9", "#0072b2"), ("idk_score", "IDK score", "#e69f00", "#9a5b00"))
_LINE = ("idk_freq", "IDK frequency", "#009e73")
_INK, _GRID = "#222222", "#bbbbbb"
_HEIGHT, _TOP, _BOTTOM, _LEFT, _RIGHT = 480, 58, 62, 58, 58
_BREAKS = re.compile(r"([-/_ :])")
_BAR, _CAP, _STEPS, _LABEL_LINES = 0.36, 4.0, 5, 3


@dataclass(frozen=True, slots=True)
class Axis:
    """The left axis, in percent: from ``low`` to ``high``."""

    low: float
    high: float

    def y(self, value: float) -> float:
        """Where a value lies, cut off at the axis' ends."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)


def bar_chart(
    rows: Sequence[BoardRow],
    benchmark: str,
    *,
    clip_negative: bool = False,
) -> Scene:
    """Two bars a model (trad_score, idk_score) with standard errors, idk_freq as a line on an axis of its own.

    ``clip_negative``: as published, the axis begins at 0 and a negative bar vanishes; otherwise it goes below.
    """
    width = max(800, 120 + 100 * len(rows))
    axis = _axis(rows, clip_negative)
    slot = (width - _LEFT - _RIGHT) / max(1, len(rows))

    def centre(i: float) -> float:
        return _LEFT + (i + 0.5) * slot

    title = f"{benchmark} Performance drop: Traditional vs IDK score (higher is better)".lstrip()
    shapes: list[Shape] = [*_frame(axis, width, title)]
    for i, row in enumerate(rows):
        shapes += _pair(row, axis, centre(i), slot)
        shapes += _name(row.name, centre(i), slot)
    shapes += _frequency(rows, centre)
    shapes += _legend(width)
    return Scene(width, _HEIGHT, title, shapes)


def _axis(rows: Sequence[BoardRow], clip_negative: bool) -> Axis:
    found = [row.estimates[metric] for row in rows for metric, *_ in _BARS if metric in row.estimates]
    high = max([100.0, *(1.12 * 100 * (one.mean + (one.se or 0)) for one in found)])
    low = min([0.0, *(100 * (one.mean - (one.se or 0)) for one in found)])
    room = 6 if low < 0 else 0  # for the label under a bar
    return Axis(0.0 if clip_negative else 20.0 * ((low - room) // 20), high)


def _frame(axis: Axis, width: int, title: str) -> Iterator[Shape]:
    right, bottom = width - _RIGHT, _HEIGHT - _BOTTOM
    yield Text(width / 2, 22, title, 13)
    value = axis.low
    while value <= axis.high:
        yield Line(_LEFT, axis.y(value), right, axis.y(value), _GRID, 1, dotted=True)
        yield Text(_LEFT - 7, axis.y(value) + 4, f"{value:.0f}", 10, "end")
        value += 20
    share = Axis(0, 100)
    for i in range(_STEPS + 1):
        part = 100 * i / _STEPS
        yield Line(right, share.y(part), right + 4, share.y(part), _INK)
        yield Text(right + 8, share.y(part) + 4, f"{part:.0f}", 10, "start")
    for x in (_LEFT, right):
        yield Line(x, _TOP, x, bottom, _INK)
    yield Line(_LEFT, axis.y(0), right, axis.y(0), _INK)
    yield Line(_LEFT, bottom, right, bottom, _INK)
    middle = (_TOP + bottom) / 2
    yield Text(18, middle, "Score (%)", 11, upwards=True)
    yield Text(width - 12, middle, "IDK frequency (%)", 11, upwards=True)


def _pair(row: BoardRow, axis: Axis, centre: float, slot: float) -> Iterator[Shape]:
    wide = _BAR * slot
    for side, (metric, _, fill, dark) in zip((-0.5, 0.5), _BARS, strict=True):
        middle = centre + side * wide
        estimate = row.estimates.get(metric)
        if estimate is None:
            yield Text(middle + 4, axis.y(0) - 6, "N/A", 9, "start", upwards=True)
            continue
        value = 100 * estimate.mean
        top, floor = sorted((axis.y(value), axis.y(0)))
        if floor > top:
            yield Rect(middle - wide / 2, top, wide, floor - top, fill)
        yield from _error_bar(estimate, axis, middle, dark)
        end = axis.y(value + (1 if value >= 0 else -1) * 100 * (estimate.se or 0))
        below = value < 0 and end < axis.y(axis.low)  # a clipped bar has its label above the axis
        yield Text(middle, end + 13 if below else end - 7, f"{value:.2f}", 9)


def _error_bar(estimate: Estimate, axis: Axis, x: float, colour: str) -> Iterator[Shape]:
    if not estimate.se:
        return
    ends = [axis.y(100 * (estimate.mean + sign * estimate.se)) for sign in (-1, 1)]
    yield Line(x, ends[0], x, ends[1], colour)
    for y in ends:
        yield Line(x - _CAP, y, x + _CAP, y, colour)


def _frequency(rows: Sequence[BoardRow], centre: Callable[[float], float]) -> Iterator[Shape]:
    metric, _, colour = _LINE
    axis = Axis(0, 100)
    points = [
        (centre(i), axis.y(100 * row.estimates[metric].mean), row.estimates[metric])
        for i, row in enumerate(rows)
        if metric in row.estimates
    ]
    for (x1, y1, _), (x2, y2, _) in pairwise(points):
        yield Line(x1, y1, x2, y2, colour, 2)
    for x, y, estimate in points:
        yield from _error_bar(estimate, axis, x, colour)
        yield Circle(x, y, 3.5, colour)


def _legend(width: int) -> Iterator[Shape]:
    x, y = width - _RIGHT - 358, 44
    for _, label, fill, _ in _BARS:
        yield Rect(x, y - 8, 20, 9, fill)
        yield Text(x + 27, y, label, 10, "start")
        x += 128
    yield Line(x, y - 4, x + 20, y - 4, _LINE[2], 2)
    yield Circle(x + 10, y - 4, 3.5, _LINE[2])
    yield Text(x + 27, y, _LINE[1], 10, "start")


def _name(label: str, x: float, slot: float) -> Iterator[Shape]:
    """The model's name under its bars, on up to three lines, broken after blanks, hyphens and the like."""
    room = max(4, int(slot / 6.8))
    lines = [""]
    for part in _BREAKS.sub(r"\1\0", label.replace("\0", " ")).split("\0"):
        if lines[-1] and len(lines[-1] + part) > room:
            lines.append("")
        lines[-1] += part
    if len(lines) > _LABEL_LINES:
        lines = [*lines[: _LABEL_LINES - 1], "".join(lines[_LABEL_LINES - 1 :])]
    for i, line in enumerate(lines):
        text = line.strip()
        yield Text(x, _HEIGHT - _BOTTOM + 17 + 13 * i, shortened(text, room), 10.5)
