"""Accuracy against tokens used: the points, and the picture of them. A model is a point, its rounds the error bar."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.rome_rules.rounds import Rounds
from layton_batch.tasks.scene import Circle, Line, Names, Scene, Shape, Text, shortened

WIDTH, HEIGHT = 860, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 150.0, 52.0, 62.0
_END, _FLOOR = WIDTH - _RIGHT, HEIGHT - _BOTTOM
_INK, _GRID, _POINT = "#555555", "#e3e3e3", "#0072b2"
_LONGEST_NAME, _DECADES = 24, 4.0


@dataclass(frozen=True, slots=True)
class Round:
    """One model's one round: accuracy in percent, output tokens an answer (mean over the questions)."""

    model: str
    accuracy: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Point:
    """A model over its rounds."""

    model: str
    accuracy: Rounds
    tokens: Rounds

    def to_json(self) -> dict[str, JsonValue]:
        """A row for other plotting programs; the standard deviations are null for one round."""
        return {
            "model": self.model,
            "rounds": len(self.accuracy.values),
            "accuracy": self.accuracy.mean,
            "accuracy_std": self.accuracy.std,
            "tokens": self.tokens.mean,
            "tokens_std": self.tokens.std,
        }


def points(rounds: Iterable[Round]) -> list[Point]:
    """One point a model, the most accurate first. Raises DataError for values that cannot be drawn."""
    by_model: dict[str, list[Round]] = {}
    for one in rounds:
        if not (math.isfinite(one.accuracy) and math.isfinite(one.tokens)) or one.tokens < 0:
            raise DataError(f"model {one.model!r}: accuracy {one.accuracy} and tokens {one.tokens} cannot be drawn")
        by_model.setdefault(one.model, []).append(one)
    found = [
        Point(model, Rounds.of([one.accuracy for one in mine]), Rounds.of([one.tokens for one in mine]))
        for model, mine in by_model.items()
    ]
    return sorted(found, key=lambda point: (-point.accuracy.mean, point.tokens.mean, point.model))


def scatter_scene(found: Sequence[Point], title: str) -> Scene:
    """The picture: tokens on a logarithmic axis, accuracy in percent, a standard deviation up and down."""
    xs, ys = _token_axis(found), _accuracy_axis(found)
    return Scene(WIDTH, HEIGHT, title, [*_frame(xs, ys, title), *_dots(found, xs, ys)])


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 1)


def _token_axis(found: Sequence[Point]) -> _Axis:
    """In powers of ten; an answer takes one token at least."""
    logs = [math.log10(max(1.0, point.tokens.mean)) for point in found] or [2.0, 4.0]
    return _Axis(min(logs) - 0.15, max(logs) + 0.15, _LEFT, _END)


def _accuracy_axis(found: Sequence[Point]) -> _Axis:
    lows = [point.accuracy.mean - (point.accuracy.std or 0.0) for point in found] or [0.0]
    highs = [point.accuracy.mean + (point.accuracy.std or 0.0) for point in found] or [100.0]
    low, high = math.floor(min(lows) / 5) * 5.0, math.ceil(max(highs) / 5) * 5.0
    return _Axis(low, high if high > low else low + 5, _FLOOR, _TOP)


def _frame(xs: _Axis, ys: _Axis, title: str) -> Iterator[Shape]:
    yield Text(_LEFT, 28, title, 15, "start")
    for at, label in _token_ticks(xs):
        yield Line(at, _TOP, at, _FLOOR, _GRID)
        yield Text(at, _FLOOR + 17, label)
    for at, label in _accuracy_ticks(ys):
        yield Line(_LEFT, at, _END, at, _GRID)
        yield Text(_LEFT - 8, at + 4, label, anchor="end")
    yield Line(_LEFT, _TOP, _LEFT, _FLOOR, _INK)
    yield Line(_LEFT, _FLOOR, _END, _FLOOR, _INK)
    yield Text((_LEFT + _END) / 2, _FLOOR + 42, "Output tokens an answer (logarithmic)", 12)
    yield Text(20, (_TOP + _FLOOR) / 2, "Accuracy (%)", 12, upwards=True)


def _token_ticks(axis: _Axis) -> Iterator[tuple[float, str]]:
    """At 1, 2 and 5 of every power of ten; at the powers alone where those would stand too close."""
    firsts = (1, 2, 5) if axis.high - axis.low < _DECADES else (1,)
    for power in range(math.floor(axis.low), math.ceil(axis.high) + 1):
        for first in firsts:
            value = first * 10.0**power
            if axis.low <= math.log10(value) <= axis.high:
                yield axis.at(math.log10(value)), f"{value:,.0f}"


def _accuracy_ticks(axis: _Axis) -> Iterator[tuple[float, str]]:
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200) if (axis.high - axis.low) / step <= 10)
    first = math.ceil(axis.low / step) * step
    for place in range(int((axis.high - first) / step) + 1):
        value = first + place * step
        yield axis.at(value), f"{value:g}"


def _dots(found: Sequence[Point], xs: _Axis, ys: _Axis) -> Iterator[Shape]:
    """The points with their error bars, then the names beside them."""
    places = [(xs.at(math.log10(max(1.0, point.tokens.mean))), ys.at(point.accuracy.mean)) for point in found]
    names = Names(places, _TOP - 8, _FLOOR)
    written: list[Shape] = []
    for (x, y), point in zip(places, found, strict=True):
        mean, std = point.accuracy.mean, point.accuracy.std or 0.0
        low, high = ys.at(mean - std), ys.at(mean + std)
        name = shortened(point.model, _LONGEST_NAME)
        if low != high:
            yield Line(x, low, x, high, _POINT, 1.5)
        yield Circle(x, y, 4.5, _POINT, f"{name}: {point.accuracy.shown()} %, {point.tokens.mean:,.0f} tokens")
        written += names.beside(x, y, name)
    yield from written
