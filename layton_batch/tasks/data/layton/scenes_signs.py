"""Picture riddles about signs: a clock in a mirror, a sum of matches, a square of letters."""

from __future__ import annotations

from itertools import product

from layton_batch.tasks.data.layton.canvas import (
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
from layton_batch.tasks.data.layton.visual_riddle import VisualRiddle

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


def _clock_riddle() -> VisualRiddle:
    right_time, shown, mirrored = (
        _hours(_CLOCK_SHOWS - _FAST_BY), _hours(_CLOCK_SHOWS), _hours(12 * 60 - _CLOCK_SHOWS),
    )  # fmt: skip
    return VisualRiddle(
        "Mirror",
        30,
        "You are sitting in the barber's chair with your back to the clock on the wall. In the big mirror before you, you "
        "see what the picture shows. The dial has no numerals. The barber tells you that, so as never to be late, he keeps "
        f"the clock exactly {_FAST_BY} minutes fast.\n\nWhat is the right time?",
        (
            "A mirror swaps left and right. Twelve and six stay where they are, but what happens to three and nine?",
            "Imagine that you turn round and look at the clock itself. The short hand is then left of the middle.",
            f"The clock itself shows {shown}. Do not forget what the barber said.",
        ),
        f"It is {right_time}. In the mirror the clock seems to show {mirrored}; swap left and right and it really shows "
        f"{shown}. As it is {_FAST_BY} minutes fast, the right time is {right_time}.",
        right_time,
        f"What I see in the mirror looks like {mirrored}. A mirror swaps left and right, so on the real dial each hand is at "
        f"the mirrored place, and the clock shows {shown}. It runs {_FAST_BY} minutes fast, so the right time is "
        f"{right_time}.",
        _draw_clock,
    )


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


def _match_riddle() -> VisualRiddle:
    mended = mended_sum()
    return VisualRiddle(
        "Matchsticks",
        30,
        "The sum in the picture is laid out of matches, with digits like those of a pocket calculator. It is wrong.\n\n"
        "Move exactly one match to another place so that the sum becomes right. No match may be taken away or broken, and "
        "the equals sign must stay as it is. What does the sum say then?",
        (
            "Not all of the matches belong to digits.",
            "A plus can easily be turned into a minus. What can be done with the match that is left over?",
            "The first digit lacks just one match to become a different digit.",
        ),
        f"It says {mended}. The upright match of the plus sign goes to the upper left of the 3 and makes it a 9, while the "
        "plus becomes a minus.",
        mended,
        "As it stands, the sum says 3 + 7 = 2, which is far too large on the left, so a subtraction is needed. Taking away "
        "the upright match of the plus leaves a minus. Put at the upper left of the 3, this match makes a 9, and "
        f"{mended} is true.",
        _draw_matches,
    )


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


def _grille_riddle() -> VisualRiddle:
    words = [_MESSAGE[k : k + 4] for k in range(0, 16, 4)]
    return VisualRiddle(
        "Code",
        40,
        "With a letter that is nothing but a square of sixteen letters came a square card of the same size with four holes. "
        "Both are shown in the picture.\n\nLay the card on the letter just as it is shown and read what appears in the "
        "holes, row by row from the top and from left to right. Then turn the card clockwise by a quarter turn and read "
        "again, and so on, until you have used all four positions. What is the message?",
        (
            "Draw the card on a piece of paper, cut out the holes and try it, or do so in your mind.",
            f"In the first position the holes show the word {words[0]}.",
            "Every letter is used exactly once. After a quarter turn clockwise, a hole in the top row has moved to the "
            "column on the right.",
        ),
        f"The message is {' '.join(words)}. Each of the four positions shows one word of four letters, and together they "
        "use up the whole square.",
        " ".join(words),
        f"As the card is shown, the holes uncover {words[0]}. A quarter turn clockwise brings each hole from row r and "
        f"column c to row c and, counted from the right, column r; the letters there are {words[1]}. Two more quarter "
        f"turns give {words[2]} and {words[3]}. Every letter has been used once, so the message is {' '.join(words)}.",
        _draw_grille,
    )


def riddles() -> tuple[VisualRiddle, ...]:
    return (_clock_riddle(), _match_riddle(), _grille_riddle())
