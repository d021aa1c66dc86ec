"""Picture riddles about shapes: triangles in a window, a false stamp, a pile of sheets, a row of dials."""

from __future__ import annotations

from itertools import combinations, pairwise

from tools.layton_pictures.canvas import (
    BLUE,
    GOLD,
    GREEN,
    INK,
    PALE,
    RED,
    ROSE,
    TEAL,
    VIOLET,
    WHITE,
    Canvas,
    Point,
    on_circle,
    star_points,
    turned,
)
from tools.layton_pictures.visual_riddle import Scene

Segment = tuple[Point, Point]

# ---- the stained-glass window: how many triangles have the star inside?

_APEX, _LEFT, _RIGHT = (320.0, 45.0), (70.0, 440.0), (570.0, 440.0)
_STAR = (322.0, 352.0)


def _between(a: Point, b: Point, share: float) -> Point:
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share)


_BARS: tuple[Segment, ...] = (
    (_APEX, _between(_LEFT, _RIGHT, 0.30)),
    (_APEX, _between(_LEFT, _RIGHT, 0.68)),
    (_LEFT, _between(_RIGHT, _APEX, 0.42)),
)
_WINDOW: tuple[Segment, ...] = ((_APEX, _LEFT), (_APEX, _RIGHT), (_LEFT, _RIGHT), *_BARS)


def _side(a: Point, b: Point, p: Point) -> float:
    """Positive on one side of the line through a and b, negative on the other."""
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])


def _crossing(s: Segment, t: Segment) -> Point | None:
    """Where two segments meet, ends included."""
    (a, b), (c, d) = s, t
    from_a, from_b = _side(c, d, a), _side(c, d, b)
    if abs(from_a - from_b) < 1e-9:
        return None
    point = _between(a, b, from_a / (from_a - from_b))
    inside = all(min(u[k], v[k]) - 1e-6 <= point[k] <= max(u[k], v[k]) + 1e-6 for u, v in (s, t) for k in (0, 1))
    return point if inside else None


def _contains(corners: tuple[Point, Point, Point], p: Point) -> bool:
    a, b, c = corners
    signs = {_side(a, b, p) > 0, _side(b, c, p) > 0, _side(c, a, p) > 0}
    return len(signs) == 1


def triangles_around_star() -> int:
    """Every triangle has its sides on three lines that meet in three different points."""
    count = 0
    for s, t, u in combinations(_WINDOW, 3):
        a, b, c = _crossing(s, t), _crossing(t, u), _crossing(u, s)
        if a is not None and b is not None and c is not None and abs(_side(a, b, c)) > 1:
            count += _contains((a, b, c), _STAR)
    return count


def _split(cell: list[Point], bar: Segment) -> list[list[Point]]:
    """A convex pane cut by the straight line of a bar."""
    parts: list[list[Point]] = [[], []]
    for p, q in pairwise([*cell, cell[0]]):
        here, there = _side(*bar, p), _side(*bar, q)
        if here >= -1e-6:
            parts[0].append(p)
        if here <= 1e-6:
            parts[1].append(p)
        if here * there < -1e-6:
            cut = _between(p, q, here / (here - there))
            parts[0].append(cut)
            parts[1].append(cut)
    return [part for part in parts if len(part) > 2]


def _draw_window() -> Canvas:
    canvas = Canvas()
    panes = [[_APEX, _LEFT, _RIGHT]]
    for bar in _BARS:
        panes = [part for pane in panes for part in _split(pane, bar)]
    glass = ("#cfe0ec", "#f3d9d4", "#d9e8d2", "#f6e6bf", "#ded5ea", "#cfe6e3")
    for index, pane in enumerate(panes):
        canvas.polygon(pane, glass[index % len(glass)], None)
    for segment in _WINDOW:
        canvas.line(segment, INK, 5)
    canvas.polygon(star_points(_STAR, 15), GOLD, INK, 2)
    return canvas


# ---- twelve stamped tiles, one of them stamped with a mirror image

_FALSE_STAMP = 6
_TURNS = (20, 205, 110, 300, 65, 250, 155, 340, 95, 185, 275, 40)


def _stamp(canvas: Canvas, centre: Point, degrees: float, mirrored: bool) -> None:
    """A little ship's flag-and-hook sign that differs from its mirror image."""

    def put(x: float, y: float) -> Point:
        return turned((centre[0] + (-x if mirrored else x), centre[1] + y), centre, degrees)

    canvas.line([put(0, 34), put(0, -34)], BLUE, 6)
    canvas.polygon([put(0, -34), put(27, -22), put(0, -10)], RED, RED, 3)
    canvas.line([put(0, 34), put(-20, 34), put(-20, 18)], BLUE, 6)
    canvas.circle(put(17, 14), 6, GOLD, INK, 1.5)


def _draw_stamps() -> Canvas:
    canvas = Canvas()
    for index, degrees in enumerate(_TURNS):
        centre = (95 + 150 * (index % 4), 90 + 150 * (index // 4))
        canvas.circle(centre, 62, WHITE, PALE, 3)
        _stamp(canvas, centre, degrees, index == _FALSE_STAMP)
        canvas.text((centre[0] - 62, centre[1] - 52), chr(ord("A") + index), 19)
    return canvas


# ---- a pile of sheets: in which order were they laid down?

_SHEETS: tuple[tuple[str, str, Point, float, float, float], ...] = (
    # letter, colour, centre, width, height, turn; from the bottom of the pile to its top
    ("D", GREEN, (235, 300), 250, 130, 8),
    ("A", BLUE, (215, 185), 150, 200, -6),
    ("F", VIOLET, (330, 135), 210, 100, 12),
    ("C", GOLD, (440, 220), 110, 230, -10),
    ("B", ROSE, (385, 330), 200, 110, -14),
    ("E", TEAL, (300, 235), 120, 120, 24),
)
_SHEET_MARKS: dict[str, Point] = {
    "D": (150, 325), "A": (170, 145), "F": (305, 108), "C": (462, 195), "B": (425, 345), "E": (300, 235),
}  # fmt: skip


def _draw_sheets() -> Canvas:
    canvas = Canvas()
    canvas.box((40, 30, 600, 450), PALE, None, radius=18)
    for letter, colour, centre, width, height, degrees in _SHEETS:
        x, y = centre
        corners = [(x + sx * width / 2, y + sy * height / 2) for sx, sy in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        canvas.polygon([turned(corner, centre, degrees) for corner in corners], colour, INK, 2.5)
        canvas.text(_SHEET_MARKS[letter], letter, 30, INK)
    return canvas


# ---- a row of dials

_HANDS = (0, 1, 3, 6, 10)
_DOTS = (1, 3, 2, 4, 3)
_CHOICES: dict[str, tuple[int, int, bool]] = {
    # letter: hand in eighths of a turn, dots, dark rim
    "A": (7, 5, True),
    "B": (6, 5, False),
    "C": (7, 2, False),
    "D": (7, 5, False),
    "E": (0, 4, False),
}


def next_dial() -> str:
    """The choice in which the hand, the dots and the rim all go on as they began."""
    hand = (_HANDS[-1] + len(_HANDS)) % 8
    dots = _DOTS[-1] + _DOTS[1] - _DOTS[0]  # the steps of the dots come in pairs, and a new pair begins
    wanted = (hand, dots, len(_HANDS) % 2 == 0)
    return next(letter for letter, choice in _CHOICES.items() if choice == wanted)


def _dial(canvas: Canvas, centre: Point, hand: int, dots: int, dark: bool) -> None:
    canvas.circle(centre, 47, WHITE, INK if dark else GOLD, 8)
    for eighth in range(8):
        canvas.line([on_circle(centre, 33, 45 * eighth), on_circle(centre, 37, 45 * eighth)], "#c9c2b2", 2)
    canvas.arrow(centre, on_circle(centre, 32, 45 * hand), RED, 4, 12)
    canvas.circle(centre, 4, RED, None)
    for dot in range(dots):
        canvas.circle((centre[0] + 14 * (dot - (dots - 1) / 2), centre[1] + 66), 5, BLUE, None)


def _draw_dials() -> Canvas:
    canvas = Canvas()
    canvas.text((320, 32), "What comes next?", 22)
    for index, (hand, dots) in enumerate(zip(_HANDS, _DOTS, strict=True)):
        _dial(canvas, (64 + 104 * index, 116), hand % 8, dots, index % 2 == 0)
    canvas.box((535, 64, 625, 192), PALE, INK, 2, radius=10)
    canvas.text((580, 128), "?", 44)
    canvas.line([(30, 240), (610, 240)], PALE, 3)
    for index, (letter, choice) in enumerate(_CHOICES.items()):
        centre = (90 + 115 * index, 330)
        _dial(canvas, centre, *choice)
        canvas.text((centre[0], 436), letter, 24)
    return canvas


def scenes() -> tuple[Scene, ...]:
    """The window, the stamped plates, the pile of sheets and the dials."""
    order = [sheet[0] for sheet in reversed(_SHEETS)]
    places = dict(zip(("first", "second", "third", "fourth"), order, strict=False))
    return (
        Scene("window", {"count": triangles_around_star()}, _draw_window),
        Scene("stamps", {"plate": chr(ord("A") + _FALSE_STAMP)}, _draw_stamps),
        Scene("sheets", {"order": ", ".join(order), **places}, _draw_sheets),
        Scene("dials", {"dial": next_dial()}, _draw_dials),
    )
