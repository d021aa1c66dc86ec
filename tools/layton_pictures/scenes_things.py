"""Picture riddles about everyday things: three pairs of scales, and a word hidden in six little pictures."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tools.layton_pictures.canvas import (
    BLUE,
    BROWN,
    GOLD,
    GREEN,
    INK,
    PALE,
    RED,
    ROSE,
    SOFT,
    TEAL,
    VIOLET,
    WHITE,
    Canvas,
    Point,
    star_points,
)
from tools.layton_pictures.visual_riddle import Scene

# ---- three pairs of scales

_BALL, _BLOCK, _BOTTLE = Fraction(2), Fraction(3), Fraction(5)


def balls_for_two_bottles() -> int:
    balls = 2 * _BOTTLE / _BALL
    if balls.denominator != 1 or _BOTTLE != _BALL + _BLOCK or 2 * _BLOCK != 3 * _BALL:
        raise ValueError("the weights do not fit the scales in the picture")
    return int(balls)


def _ball(canvas: Canvas, x: float, y: float) -> None:
    canvas.circle((x, y - 15), 15, RED, INK, 2)


def _block(canvas: Canvas, x: float, y: float) -> None:
    canvas.box((x - 16, y - 32, x + 16, y), BLUE, INK, 2)


def _bottle(canvas: Canvas, x: float, y: float) -> None:
    outline = [(x - 15, y), (x - 15, y - 34), (x - 6, y - 44), (x - 6, y - 58), (x + 6, y - 58), (x + 6, y - 44),
               (x + 15, y - 34), (x + 15, y)]  # fmt: skip
    canvas.polygon(outline, GREEN, INK, 2)


def _question(canvas: Canvas, x: float, y: float) -> None:
    canvas.text((x, y - 30), "?", 46)


Thing = Callable[[Canvas, float, float], None]


def _scales(canvas: Canvas, centre: Point, left: list[Thing], right: list[Thing]) -> None:
    x, y = centre
    canvas.polygon([(x - 34, y + 118), (x + 34, y + 118), (x + 8, y + 100), (x - 8, y + 100)], BROWN, INK, 2)
    canvas.line([(x, y + 102), (x, y + 16)], BROWN, 8)
    canvas.line([(x - 84, y + 16), (x + 84, y + 16)], BROWN, 6)
    canvas.circle((x, y + 16), 8, GOLD, INK, 2)
    for side, things in ((-1, left), (1, right)):
        middle = x + side * 84
        canvas.line([(middle, y + 16), (middle - 54, y + 82)], SOFT, 1.5)
        canvas.line([(middle, y + 16), (middle + 54, y + 82)], SOFT, 1.5)
        for index, thing in enumerate(things):
            thing(canvas, middle + 34 * (index - (len(things) - 1) / 2), y + 80)
        canvas.line([(middle - 58, y + 83), (middle + 58, y + 83)], INK, 5)


def _draw_scales() -> Canvas:
    canvas = Canvas()
    _scales(canvas, (165, 60), [_bottle], [_ball, _block])
    _scales(canvas, (475, 60), [_block, _block], [_ball, _ball, _ball])
    canvas.box((140, 262, 500, 462), WHITE, PALE, 3, radius=20)
    _scales(canvas, (320, 325), [_bottle, _bottle], [_question])
    return canvas


# ---- six little pictures, one letter of each


def _boat(canvas: Canvas, x: float, y: float) -> None:
    canvas.polygon([(x - 52, y + 18), (x + 52, y + 18), (x + 34, y + 44), (x - 34, y + 44)], BROWN)
    canvas.line([(x, y + 18), (x, y - 48)], INK, 4)
    canvas.polygon([(x + 5, y - 46), (x + 44, y + 10), (x + 5, y + 10)], WHITE)
    canvas.polygon([(x - 5, y - 32), (x - 34, y + 10), (x - 5, y + 10)], ROSE)


def _star(canvas: Canvas, x: float, y: float) -> None:
    canvas.polygon(star_points((x, y + 2), 50), GOLD)


def _fish(canvas: Canvas, x: float, y: float) -> None:
    canvas.polygon([(x + 22, y), (x + 56, y - 28), (x + 56, y + 28)], TEAL)
    upper = [(x - 50 + 9 * k, y - 30 * (1 - ((k - 5) / 5) ** 2)) for k in range(11)]
    lower = [(px, 2 * y - py) for px, py in reversed(upper[1:-1])]
    canvas.polygon([*upper, *lower], TEAL)
    canvas.circle((x - 28, y - 6), 5, WHITE, INK, 2)
    canvas.arc((x - 24, y), 18, 45, 135, INK, 2)


def _candle(canvas: Canvas, x: float, y: float) -> None:
    canvas.box((x - 14, y - 18, x + 14, y + 40), WHITE)
    canvas.line([(x, y - 18), (x, y - 28)], INK, 3)
    canvas.polygon([(x, y - 56), (x + 10, y - 36), (x, y - 26), (x - 10, y - 36)], GOLD, RED, 2)
    canvas.box((x - 38, y + 38, x + 38, y + 47), BROWN, INK, 2.5, radius=4)


def _flag(canvas: Canvas, x: float, y: float) -> None:
    canvas.line([(x - 34, y + 50), (x - 34, y - 50)], BROWN, 6)
    canvas.polygon([(x - 31, y - 48), (x + 44, y - 40), (x + 30, y - 20), (x + 44, y + 2), (x - 31, y + 4)], RED)
    canvas.circle((x - 4, y - 21), 11, WHITE, None)


def _house(canvas: Canvas, x: float, y: float) -> None:
    canvas.box((x - 38, y - 8, x + 38, y + 46), "#f2e3bd")
    canvas.polygon([(x - 50, y - 8), (x, y - 50), (x + 50, y - 8)], RED)
    canvas.box((x - 10, y + 14, x + 10, y + 46), BROWN)
    for dx in (-25, 25):
        canvas.box((x + dx - 8, y + 4, x + dx + 8, y + 20), BLUE, INK, 2)


# name, which of its letters counts, how it is drawn
_PICTURES: tuple[tuple[str, int, Thing], ...] = (
    ("boat", 1, _boat),
    ("star", 4, _star),
    ("fish", 2, _fish),
    ("candle", 4, _candle),
    ("flag", 4, _flag),
    ("house", 5, _house),
)


def picture_word() -> str:
    return "".join(name[number - 1] for name, number, _ in _PICTURES).upper()


def _draw_pictures() -> Canvas:
    canvas = Canvas()
    for index, (_, number, thing) in enumerate(_PICTURES):
        x, y = 120 + 200 * (index % 3), 105 + 228 * (index // 3)
        canvas.box((x - 85, y - 85, x + 85, y + 122), WHITE, PALE, 3, radius=14)
        thing(canvas, x, y - 5)
        canvas.circle((x, y + 92), 20, VIOLET, None)
        canvas.text((x, y + 92), str(number), 24, WHITE)
    return canvas


def scenes() -> tuple[Scene, ...]:
    """The scales and the picture puzzle."""
    word = picture_word()
    letters = ", ".join(f"{name} ({number}: {name[number - 1].upper()})" for name, number, _ in _PICTURES)
    return (
        Scene("scales", {"count": balls_for_two_bottles()}, _draw_scales),
        Scene("pictures", {"word": word, "place": word.lower(), "letters": letters}, _draw_pictures),
    )
