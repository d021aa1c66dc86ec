"""Questions about figures with numbers: things to count, a bar chart, a thermometer, a line in a grid, a timetable."""

from __future__ import annotations

import random

from tools.layton_pictures.canvas import (
    BLUE,
    GOLD,
    GREEN,
    INK,
    PALE,
    RED,
    SOFT,
    TEAL,
    VIOLET,
    WHITE,
    Canvas,
    Point,
    turned,
)
from tools.rome_pictures.visual_question import VisualQuestion

_SEED = 41
_COUNTS = {"triangle": 9, "circle": 7, "square": 8}
_SALES = {"Mon": 14, "Tue": 9, "Wed": 17, "Thu": 6, "Fri": 21}
_BARS = {"red": 5, "green": 11, "blue": 8, "gold": 2}
_COLOURS = {"red": RED, "green": GREEN, "blue": BLUE, "gold": GOLD}
_DEGREES = 18.0
_SLOPE, _OFFSET = 2, -1
_TRAINS = (("Lindau", "8:55", "3"), ("Torbek", "9:40", "1"), ("Marsby", "10:25", "2"), ("Elvenau", "11:10", "4"))
_AFTER = "10:00"


def questions() -> tuple[VisualQuestion, ...]:
    """All of this module, in the order of the file."""
    return (_triangles(), _weekdays(), _thermometer(), _heights(), _line_equation(), _timetable())


def _triangles() -> VisualQuestion:
    count = _COUNTS["triangle"]
    return VisualQuestion(
        "How many triangles are in the picture?", str(count), "number_matching", {"value_to_match": count},
        "recognition", (_draw_shapes,),
    )  # fmt: skip


def _draw_shapes() -> Canvas:
    canvas, choose = Canvas(), random.Random(_SEED)
    cells = [(70.0 + 100 * column, 60.0 + 90 * row) for row in range(5) for column in range(6)]
    choose.shuffle(cells)
    kinds = [kind for kind, count in _COUNTS.items() for _ in range(count)]
    for (x, y), kind in zip(cells, kinds, strict=False):
        centre = (x + choose.uniform(-12, 12), y + choose.uniform(-8, 8))
        _draw_shape(canvas, kind, centre, choose.choice((BLUE, RED, GREEN, GOLD, VIOLET, TEAL)), choose.uniform(0, 360))
    return canvas


def _draw_shape(canvas: Canvas, kind: str, centre: Point, colour: str, degrees: float) -> None:
    if kind == "circle":
        canvas.circle(centre, 26, colour)
        return
    corners = 3 if kind == "triangle" else 4
    first = (centre[0], centre[1] - 32)
    canvas.polygon([turned(first, centre, degrees + step * 360 / corners) for step in range(corners)], colour)


def _weekdays() -> VisualQuestion:
    value = _SALES["Fri"] + _SALES["Wed"] - _SALES["Thu"]
    return VisualQuestion(
        "The chart shows how many kites a shop sold on each day. How many more did it sell on Wednesday and Friday "
        "together than on Thursday?",
        str(value), "number_matching", {"value_to_match": value}, "diagrams", (_draw_sales,),
    )  # fmt: skip


def _draw_sales() -> Canvas:
    canvas = Canvas()
    base, unit = 420.0, 15.0
    for mark in range(0, 25, 5):
        canvas.line([(80, base - mark * unit), (600, base - mark * unit)], PALE, width=2)
        canvas.text((56, base - mark * unit), str(mark), size=18)
    for place, (day, sold) in enumerate(_SALES.items()):
        x = 110 + 100 * place
        canvas.box((x, base - sold * unit, x + 60, base), TEAL)
        canvas.text((x + 30, base - sold * unit - 14), str(sold), size=18)
        canvas.text((x + 30, base + 22), day, size=20)
    canvas.line([(80, base), (600, base)], width=3)
    return canvas


def _thermometer() -> VisualQuestion:
    return VisualQuestion(
        "Which temperature, in degrees Celsius, does the thermometer show?", f"{_DEGREES:g} °C", "number_matching",
        {"value_to_match": _DEGREES}, "recognition", (_draw_thermometer,),
    )  # fmt: skip


def _draw_thermometer() -> Canvas:
    canvas = Canvas()

    def height(degrees: float) -> float:
        return 370 - 7.5 * degrees

    canvas.box((300, 50, 340, 400), WHITE, radius=20, width=4)
    canvas.circle((320, 410), 36, RED, width=4)
    canvas.box((310, height(_DEGREES), 330, 400), RED, None)
    for degrees in range(0, 41, 2):
        is_long = degrees % 10 == 0
        canvas.line([(346, height(degrees)), (376 if is_long else 360, height(degrees))], width=3)
        if is_long:
            canvas.text((404, height(degrees)), str(degrees), size=22)
    canvas.text((320, 26), "°C", size=24)
    return canvas


def _heights() -> VisualQuestion:
    order = sorted(_BARS, key=lambda colour: _BARS[colour])
    return VisualQuestion(
        "The four bars are red, green, blue and gold. Name their colours from the shortest bar to the tallest.",
        ", ".join(order),
        "ordered_list_matching", {"order": list(order)}, "diagrams", (_draw_bars,),
    )  # fmt: skip


def _draw_bars() -> Canvas:
    canvas = Canvas()
    for place, (colour, size) in enumerate(_BARS.items()):
        x = 110 + 115 * place
        canvas.box((x, 420 - 32 * size, x + 80, 420), _COLOURS[colour])
    canvas.line([(70, 420), (590, 420)], width=4)
    return canvas


def _line_equation() -> VisualQuestion:
    sign = "+" if _OFFSET > 0 else "-"
    equation = f"y = {_SLOPE}x {sign} {abs(_OFFSET)}"
    return VisualQuestion(
        "Every square of the grid is one unit wide. Give the equation of the straight line in the form y = mx + c.",
        equation, "key_items_matching", {"key_items": [[equation]], "remove_space": True}, "academic", (_draw_line,),
    )  # fmt: skip


def _draw_line() -> Canvas:
    canvas = Canvas(WHITE)

    def at(x: float, y: float) -> Point:
        return 320 + 45 * x, 240 - 45 * y

    for step in range(-5, 6):
        canvas.line([at(step, -5), at(step, 5)], PALE, width=2)
        canvas.line([at(-5, step), at(5, step)], PALE, width=2)
    canvas.arrow(at(-5, 0), at(5.4, 0), INK)
    canvas.arrow(at(0, -5), at(0, 5.2), INK)
    for step in (-4, -2, 2, 4):
        canvas.text((at(step, 0)[0], at(step, 0)[1] + 16), str(step), size=16, colour=SOFT)
        canvas.text((at(0, step)[0] - 16, at(0, step)[1]), str(step), size=16, colour=SOFT)
    canvas.line([at((y - _OFFSET) / _SLOPE, y) for y in (-5, 5)], RED, width=5)
    return canvas


def _timetable() -> VisualQuestion:
    late = [place for place, time, _ in _TRAINS if int(time.replace(":", "")) > int(_AFTER.replace(":", ""))]
    return VisualQuestion(
        f"To which places do trains leave after {_AFTER}? Name all of them.", " and ".join(late),
        "key_items_matching", {"key_items": [[place] for place in late]}, "diagrams", (_draw_timetable,),
    )  # fmt: skip


def _draw_timetable() -> Canvas:
    canvas = Canvas()
    canvas.box((90, 50, 550, 430), WHITE, radius=10, width=4)
    rows = (("Destination", "Departs", "Track"), *_TRAINS)
    for number, cells in enumerate(rows):
        y = 95 + 74 * number
        for x, cell in zip((205, 385, 490), cells, strict=True):
            canvas.text((x, y), cell, size=26 if number else 22, colour=INK if number else SOFT)
        if number < len(rows) - 1:
            canvas.line([(110, y + 37), (530, y + 37)], PALE, width=3)
    return canvas
