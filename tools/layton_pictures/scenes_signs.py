"""Picture riddles about signs: a clock in a mirror, a sum of matches, a square of letters."""

from __future__ import annotations

from itertools import product

from tools.layton_pictures.canvas import (
    BLUE,
    BROWN,
    INK,
    PALE,
    RED,
    SOFT,
    WHITE,
    Canvas,
    Point,
    on_circle,
)
from tools.layton_pictures.visual_riddle import Scene

# ---- the barber's clock, seen in the mirror

_CLOCK_SHOWS = 7 * 60 + 20  # minutes past twelve, on the real dial
_FAST_BY = 10


def _hours(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02d}"


def _draw_clock() -> Canvas:
    canvas = Canvas("#e9e3d4")
    canvas.box((95, 18, 545, 462), BROWN, INK, 3, radius=34)
    canvas.box((119, 42, 521, 438), "#eef4f6", INK, 2, radius=20)
    for x in (150, 178, 462):
        canvas.line([(x, 92), (x + 34, 58)], WHITE, 7)
    centre = (320.0, 240.0)
    canvas.circle(centre, 152, WHITE, BLUE, 10)
    for tick in range(60):
        major = tick % 5 == 0
        ends = [on_circle(centre, radius, 6 * tick) for radius in (122 if major else 132, 139)]
        canvas.line(ends, INK if major else SOFT, 5 if major else 2)
    # a mirror turns every angle round
    canvas.line([centre, on_circle(centre, 78, -_CLOCK_SHOWS / 2)], INK, 9)
    canvas.line([centre, on_circle(centre, 116, -6 * _CLOCK_SHOWS)], INK, 5)
    canvas.circle(centre, 9, RED, INK, 2)
    return canvas


# ---- a sum laid out of matches

# the seven places of a digit: a top, b and c right, d bottom, e and f left, g middle
_DIGITS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
_READING = {frozenset(bars): value for value, bars in enumerate(_DIGITS)}
_SUM = (3, "+", 7, 2)

Match = tuple[int, str]  # which sign of the sum, and which place in it; sign 1 is the plus, whose upright is "v"
_PLACES: tuple[Match, ...] = (*((sign, bar) for sign in (0, 2, 3) for bar in "abcdefg"), (1, "v"))


def _laid(a: int, sign: str, b: int, total: int) -> frozenset[Match]:
    bars = [(index, bar) for index, digit in ((0, a), (2, b), (3, total)) for bar in _DIGITS[digit]]
    return frozenset([*bars, (1, "v")] if sign == "+" else bars)


def _read(matches: frozenset[Match]) -> tuple[int, str, int, int] | None:
    digits = [_READING.get(frozenset(bar for sign, bar in matches if sign == index)) for index in (0, 2, 3)]
    a, b, total = digits
    if a is None or b is None or total is None:
        return None
    return a, "+" if (1, "v") in matches else "−", b, total


def mended_sum() -> str:
    """The only true sum that moving a single match can make."""
    start, found = _laid(*_SUM), set()
    for taken, put in product(start, set(_PLACES) - start):
        reading = _read(start - {taken} | {put})
        if reading is not None:
            a, sign, b, total = reading
            if (a + b if sign == "+" else a - b) == total:
                found.add(f"{a} {sign} {b} = {total}")
    (only,) = found
    return only


def _match(canvas: Canvas, start: Point, end: Point) -> None:
    canvas.line([start, end], "#d9b67c", 9)
    tip = (start[0] + (end[0] - start[0]) * 0.97, start[1] + (end[1] - start[1]) * 0.97)
    neck = (start[0] + (end[0] - start[0]) * 0.86, start[1] + (end[1] - start[1]) * 0.86)
    canvas.line([neck, tip], RED, 11)


def _draw_digit(canvas: Canvas, left: float, value: int) -> None:
    top, side, gap = 130.0, 88.0, 9.0
    right, middle, bottom = left + side, top + side + gap, top + 2 * (side + gap)
    bars = {
        "a": ((left + gap, top), (right - gap, top)),
        "b": ((right, top + gap), (right, middle - gap)),
        "c": ((right, bottom - gap), (right, middle + gap)),
        "d": ((left + gap, bottom), (right - gap, bottom)),
        "e": ((left, bottom - gap), (left, middle + gap)),
        "f": ((left, middle - gap), (left, top + gap)),
        "g": ((left + gap, middle), (right - gap, middle)),
    }
    for bar in _DIGITS[value]:
        _match(canvas, *bars[bar])


def _draw_matches() -> Canvas:
    canvas = Canvas("#dfe6ea")
    canvas.box((18, 40, 622, 420), WHITE, PALE, 3, radius=26)
    a, _, b, total = _SUM
    for left, value in ((56, a), (290, b), (506, total)):
        _draw_digit(canvas, left, value)
    _match(canvas, (182, 227), (252, 227))
    _match(canvas, (217, 262), (217, 192))
    for y in (212, 242):
        _match(canvas, (412, y), (482, y))
    return canvas


# ---- the card with four holes

_MESSAGE = "LOOKINTOBLUEVASE"
_HOLES: tuple[tuple[int, int], ...] = ((0, 1), (1, 0), (2, 2), (3, 3))  # row and column in the first position


def turned_holes(quarters: int) -> list[tuple[int, int]]:
    """Where the holes lie after quarter turns clockwise, in reading order."""
    holes = list(_HOLES)
    for _ in range(quarters):
        holes = [(column, 3 - row) for row, column in holes]
    return sorted(holes)


def letter_square() -> dict[tuple[int, int], str]:
    """The square that the card reads as the message in its four positions."""
    letters = iter(_MESSAGE)
    square = {hole: next(letters) for quarters in range(4) for hole in turned_holes(quarters)}
    if len(square) != len(_MESSAGE):
        raise ValueError("two positions of the card share a hole: choose other holes")
    return square


def _draw_grille() -> Canvas:
    canvas = Canvas()
    cell, top = 62.0, 110.0
    for left, title in ((40.0, "letter"), (352.0, "card")):
        canvas.text((left + 2 * cell, 66), title, 22, SOFT)
        shade = WHITE if title == "letter" else "#8fb0a9"
        canvas.box((left, top, left + 4 * cell, top + 4 * cell), shade, INK, 3)
    for (row, column), letter in letter_square().items():
        x, y = 40 + column * cell, top + row * cell
        canvas.box((x, y, x + cell, y + cell), None, PALE, 2)
        canvas.text((x + cell / 2, y + cell / 2), letter, 32)
    canvas.box((40, top, 40 + 4 * cell, top + 4 * cell), None, INK, 3)
    for row, column in _HOLES:
        x, y = 352 + column * cell, top + row * cell
        canvas.box((x + 5, y + 5, x + cell - 5, y + cell - 5), "#faf6ec", INK, 2, radius=4)
    pivot = (476.0, 412.0)
    canvas.arc(pivot, 26, -150, 120, BLUE, 4)
    canvas.arrow(on_circle(pivot, 26, 115), on_circle(pivot, 25, 155), BLUE, 4, 15)
    return canvas


def scenes() -> tuple[Scene, ...]:
    """The mirrored clock, the sum of matches and the card with holes."""
    times: dict[str, str | int] = {
        "fast": _FAST_BY,
        "right_time": _hours(_CLOCK_SHOWS - _FAST_BY),
        "shown": _hours(_CLOCK_SHOWS),
        "mirrored": _hours(12 * 60 - _CLOCK_SHOWS),
    }
    words = [_MESSAGE[start : start + 4] for start in range(0, 16, 4)]
    message = dict(zip(("first", "second", "third", "fourth"), words, strict=True))
    return (
        Scene("clock", times, _draw_clock),
        Scene("matches", {"sum": mended_sum()}, _draw_matches),
        Scene("grille", {"message": " ".join(words), **message}, _draw_grille),
    )
