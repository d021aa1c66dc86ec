"""Accuracy against tokens used: the points, and the picture of them. A model is a point, its rounds the error bar."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.rome_rules.rounds import Rounds

TEMPLATE = Path(__file__).with_name("scatter.svg")
WIDTH, HEIGHT = 860, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 150.0, 52.0, 62.0
_LINE_HEIGHT = 13.0
_LONGEST_NAME = 60


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


@dataclass(frozen=True, slots=True)
class _Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class _Dot:
    x: float
    y: float
    low: float
    high: float
    label_y: float
    name: str
    title: str


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


def scatter_svg(found: Sequence[Point], title: str) -> str:
    """The picture: tokens on a logarithmic axis, accuracy in percent, a standard deviation up and down."""
    from jinja2 import Environment, StrictUndefined

    xs, ys = _token_axis(found), _accuracy_axis(found)
    environment = Environment(undefined=StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        title=_clean(title), width=WIDTH, height=HEIGHT, left=_LEFT, right=WIDTH - _RIGHT, top=_TOP,
        bottom=HEIGHT - _BOTTOM, x_ticks=list(_token_ticks(xs)), y_ticks=list(_accuracy_ticks(ys)),
        dots=_dots(found, xs, ys),
    )  # fmt: skip


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
    return _Axis(min(logs) - 0.15, max(logs) + 0.15, _LEFT, WIDTH - _RIGHT)


def _accuracy_axis(found: Sequence[Point]) -> _Axis:
    lows = [point.accuracy.mean - (point.accuracy.std or 0.0) for point in found] or [0.0]
    highs = [point.accuracy.mean + (point.accuracy.std or 0.0) for point in found] or [100.0]
    low, high = math.floor(min(lows) / 5) * 5.0, math.ceil(max(highs) / 5) * 5.0
    return _Axis(low, high if high > low else low + 5, HEIGHT - _BOTTOM, _TOP)


def _token_ticks(axis: _Axis) -> Iterator[_Tick]:
    for power in range(math.floor(axis.low), math.ceil(axis.high) + 1):
        for first in (1, 2, 5):
            value = first * 10.0**power
            if axis.low <= math.log10(value) <= axis.high:
                yield _Tick(axis.at(math.log10(value)), f"{value:,.0f}")


def _accuracy_ticks(axis: _Axis) -> Iterator[_Tick]:
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200) if (axis.high - axis.low) / step <= 10)
    first = math.ceil(axis.low / step) * step
    for place in range(int((axis.high - first) / step) + 1):
        value = first + place * step
        yield _Tick(axis.at(value), f"{value:g}")


def _dots(found: Sequence[Point], xs: _Axis, ys: _Axis) -> list[_Dot]:
    """The points with names beside them, moved down where they would cover one another."""
    dots = []
    taken: list[tuple[float, float]] = []
    for point in found:
        mean, std = point.accuracy.mean, point.accuracy.std or 0.0
        x, y = xs.at(math.log10(max(1.0, point.tokens.mean))), ys.at(mean)
        label_y = y
        while any(abs(x - other_x) < 140 and abs(label_y - other_y) < _LINE_HEIGHT for other_x, other_y in taken):
            label_y += _LINE_HEIGHT / 2
        taken.append((x, label_y))
        name = _clean(point.model)[:_LONGEST_NAME]
        title = f"{name}: {point.accuracy.shown()} %, {point.tokens.mean:,.0f} tokens"
        dots.append(_Dot(x, y, ys.at(mean - std), ys.at(mean + std), round(label_y + 4, 1), name, title))
    return dots


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join(sign if sign.isprintable() else "�" for sign in text)
