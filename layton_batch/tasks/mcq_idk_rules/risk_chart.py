"""The risk-coverage view: how much a model answers, and how often it is wrong when it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from layton_batch.tasks.mcq_idk_rules.abstention import Selective
from layton_batch.tasks.scene import Circle, Line, Names, Scene, Shape, Text, shortened

_WIDTH, _HEIGHT, _TOP, _BOTTOM, _LEFT, _RIGHT = 800, 480, 40, 58, 62, 40
_INK, _GRID, _POINT, _LEVEL = "#222222", "#bbbbbb", "#0072b2", "#9a5b00"
_STEPS, _LONGEST_NAME, _RIGHT_FROM = 40, 32, 0.7


def risk_chart(rows: Sequence[tuple[str, Selective]], benchmark: str) -> Scene:
    """A point for every (name, view) that answers anything: coverage to the right, risk upwards, both in percent.

    The curves join points of equal idk_score; the uppermost is a score of 0, where a model
    might as well abstain throughout. Lower and further right is better. Unreadable replies only lack in coverage.
    """
    seen = ((name, view.coverage, view.risk) for name, view in rows)
    points = [(name, coverage, risk) for name, coverage, risk in seen if coverage is not None and risk is not None]
    top = max([0.5, *(risk for _, _, risk in points)])
    high = min(1.0, 0.1 * int(top * 10 + 1.5))
    title = f"{benchmark} Risk and coverage (curves: equal score where a mistake costs 1)".lstrip()
    shapes: list[Shape] = [*_frame(title, high), *_levels(high)]
    places = [(_x(coverage), _y(risk, high)) for _, coverage, risk in points]
    names, written = Names(places, _TOP - 8, _HEIGHT - _BOTTOM, size=10), list[Shape]()
    for (x, y), (name, coverage, risk) in zip(places, points, strict=True):
        told = f"{name}: {100 * coverage:.1f} % answered, {100 * risk:.1f} % of them wrong"
        shapes.append(Circle(x, y, 4.5, _POINT, told))
        written += names.beside(x, y, shortened(name, _LONGEST_NAME), on_left=coverage > _RIGHT_FROM)
    shapes += written
    return Scene(_WIDTH, _HEIGHT, title, shapes)


def _x(coverage: float) -> float:
    return _LEFT + coverage * (_WIDTH - _LEFT - _RIGHT)


def _y(risk: float, high: float) -> float:
    return _HEIGHT - _BOTTOM - risk / high * (_HEIGHT - _TOP - _BOTTOM)


def _frame(title: str, high: float) -> Iterator[Shape]:
    yield Text(_WIDTH / 2, 22, title, 13)
    for i in range(6):
        yield Text(_x(i / 5), _HEIGHT - _BOTTOM + 18, f"{20 * i}", 10)
    for i in range(round(high * 10) + 1):
        y = _y(i / 10, high)
        yield Line(_LEFT, y, _WIDTH - _RIGHT, y, _GRID, 1, dotted=True)
        yield Text(_LEFT - 7, y + 4, f"{10 * i}", 10, "end")
    yield Line(_LEFT, _TOP, _LEFT, _HEIGHT - _BOTTOM, _INK)
    yield Line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM, _INK)
    yield Text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, "Coverage: items answered (%)", 11)
    yield Text(18, (_TOP + _HEIGHT - _BOTTOM) / 2, "Risk: answers that are wrong (%)", 11, upwards=True)


def _levels(high: float) -> Iterator[Shape]:
    """score = coverage (1 - 2 risk), solved for the risk."""
    for tenth in (0, 2, 4, 6, 8):
        score = tenth / 10
        path = []
        for i in range(_STEPS + 1):
            coverage = max(score, 0.01) + (1 - max(score, 0.01)) * i / _STEPS
            risk = (1 - score / coverage) / 2
            if 0 <= risk <= high:
                path.append((_x(coverage), _y(risk, high)))
        for (x1, y1), (x2, y2) in pairwise(path):
            yield Line(x1, y1, x2, y2, _LEVEL, 0.75)
        if path:
            yield Text(path[-1][0] + 4, path[-1][1] + 4, f"{score:g}", 9, "start", _LEVEL)
