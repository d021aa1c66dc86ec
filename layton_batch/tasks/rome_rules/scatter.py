"""Accuracy against tokens used: the points, and the picture of them. A model is a point, its rounds the error bar."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import altair as alt

from layton_batch.drawing import BLUE, Axis, Row, named_points, table, titled
from layton_batch.errors import DataError
from layton_batch.tasks.rome_rules.grades import Rounds

_ROOM = 1.6  # twice this way is more than from 2 to 5, so there is always a tick


@dataclass(frozen=True, slots=True)
class Point:
    """A model over its rounds: accuracy in percent, output tokens an answer (mean over the questions)."""

    model: str
    accuracy: Rounds
    tokens: Rounds


def scatter_chart(points: Iterable[Point], title: str) -> alt.LayerChart:
    """Tokens on a logarithmic axis, accuracy in percent, a standard deviation up and down; the most accurate model
    first. Raises DataError for values that cannot be drawn."""
    best_first = sorted(points, key=lambda point: (-point.accuracy.mean, point.tokens.mean, point.model))
    for point in best_first:
        accuracy, tokens = point.accuracy.mean, point.tokens.mean
        if not (math.isfinite(accuracy) and math.isfinite(tokens)) or tokens < 0:
            raise DataError(f"model {point.model!r}: accuracy {accuracy} and tokens {tokens} cannot be drawn")
    across, up = _token_axis(best_first), _accuracy_axis(best_first)
    rows: list[Row] = [
        {
            "x": max(1.0, point.tokens.mean),
            "y": point.accuracy.mean,
            "low": point.accuracy.mean - (point.accuracy.std or 0.0),
            "high": point.accuracy.mean + (point.accuracy.std or 0.0),
            "name": point.model,
            "label": f"{point.model}: {point.accuracy.shown()} %, {point.tokens.mean:,.0f} tokens",
        }
        for point in best_first
    ]
    base = alt.Chart(table(rows)).encode(x="x:Q", y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q")
    deviations = base.mark_rule(color=BLUE, strokeWidth=1.5, aria=False)
    layers = alt.LayerChart(layer=[deviations, named_points(rows, across, up)])
    return titled(layers.properties(width=across.length, height=up.length), title)


def _token_axis(points: Sequence[Point]) -> Axis:
    """Ticks at 1, 2 and 5 of every power of ten; an answer takes one token at least."""
    tokens = [max(1.0, point.tokens.mean) for point in points] or [100.0, 10_000.0]
    low, high = min(tokens) / _ROOM, max(tokens) * _ROOM
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    ticks = [first * 10.0**power for power in powers for first in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return Axis("Output tokens an answer (logarithmic)", low, high, 720, log=True, ticks=ticks)


def _accuracy_axis(points: Sequence[Point]) -> Axis:
    lows = [point.accuracy.mean - (point.accuracy.std or 0.0) for point in points] or [0.0]
    highs = [point.accuracy.mean + (point.accuracy.std or 0.0) for point in points] or [100.0]
    low, high = math.floor(min(lows) / 5) * 5.0, math.ceil(max(highs) / 5) * 5.0
    return Axis("Accuracy (%)", low, high if high > low else low + 5, 406)
