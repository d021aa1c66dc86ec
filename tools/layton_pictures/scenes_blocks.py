"""Picture riddles about solid things: a pile of crates, shadows of towers, a toy cube."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

from tools.layton_pictures import isometric
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
    star_points,
)
from tools.layton_pictures.isometric import Pile, View
from tools.layton_pictures.visual_riddle import Scene

# ---- crates in the corner of a cellar

_CRATES: Pile = ((4, 3, 3, 1), (4, 3, 1, 1), (2, 2, 1, 1), (2, 1, 1, 1))


def _draw_crates() -> Canvas:
    canvas = Canvas()
    view, reach, height = View((320.0, 232.0), 56.0), 4.9, 4.7
    corners = {name: view.project(at) for name, at in {
        "far": (0, 0, 0), "left": (0, reach, 0), "right": (reach, 0, 0), "near": (reach, reach, 0),
        "far top": (0, 0, height), "left top": (0, reach, height), "right top": (reach, 0, height),
    }.items()}  # fmt: skip
    walls = (("far", "left", "left top", "far top", "#e4dfd3"), ("far", "right", "right top", "far top", "#d8d2c3"))
    for a, b, c, d, colour in walls:
        canvas.polygon([corners[a], corners[b], corners[c], corners[d]], colour, SOFT, 1.5)
    canvas.polygon([corners[name] for name in ("far", "left", "near", "right")], "#efe9dc", SOFT, 1.5)
    isometric.draw_pile(canvas, _CRATES, view)
    return canvas


# ---- four towers, two lamps

_TOWERS: dict[str, Pile] = {
    "A": ((1, 1, 1), (2, 1, 1), (3, 1, 2)),
    "B": ((1, 1, 1), (3, 2, 1), (2, 1, 1)),
    "C": ((1, 1, 1), (3, 1, 2), (2, 1, 1)),
    "D": ((1, 1, 2), (3, 1, 2), (1, 1, 1)),
}
_TOWER_ELEVATION = 46.0
_SHADOWS = ((3, 1, 2), (2, 3, 1))


def shadow_castle() -> str:
    """The one castle that throws both shadows."""
    fitting = [
        letter
        for letter, pile in _TOWERS.items()
        if (isometric.shadow_from_left(pile), isometric.shadow_from_right(pile)) == _SHADOWS
    ]
    (letter,) = fitting
    return letter


def _draw_shadow(canvas: Canvas, left: float, lamp: int, heights: tuple[int, ...], colour: str) -> None:
    canvas.box((left, 22, left + 180, 186), WHITE, PALE, 2, radius=8)
    cell, floor = 34, 146
    for column, height in enumerate(heights):
        x = left + 39 + cell * column
        canvas.box((x, floor - cell * height, x + cell, floor), "#4a4f57", None)
    canvas.line([(left + 20, floor), (left + 160, floor)], SOFT, 2)
    canvas.text((left + 90, 167), f"what lamp {lamp} sees", 15, colour)


def _draw_lamps(canvas: Canvas) -> None:
    isometric.draw_pile(canvas, ((1, 1, 1), (1, 1, 1), (1, 1, 1)), View((320, 58), 32, _TOWER_ELEVATION))
    for lamp, side, colour in ((1, -1, BLUE), (2, 1, RED)):
        canvas.circle((320 + side * 82, 160), 13, colour, INK, 1.5)
        canvas.text((320 + side * 82, 160), str(lamp), 16, WHITE)
        canvas.arrow((320 + side * 68, 152), (320 + side * 42, 137), colour, 3, 10)


def _draw_towers() -> Canvas:
    canvas = Canvas()
    _draw_shadow(canvas, 20, 1, _SHADOWS[0], BLUE)
    _draw_shadow(canvas, 440, 2, _SHADOWS[1], RED)
    _draw_lamps(canvas)
    canvas.line([(20, 206), (620, 206)], PALE, 3)
    for index, (letter, pile) in enumerate(_TOWERS.items()):
        x = 88 + 155 * index
        isometric.draw_pile(canvas, pile, View((x, 308), 34, _TOWER_ELEVATION))
        canvas.text((x, 455), letter, 24)
    return canvas


# ---- three views of one toy cube

_SYMBOLS = ("star", "cross", "disc", "ring", "square", "dots")
_VIEWS = (("cross", "disc", "dots"), ("cross", "dots", "ring"), ("square", "ring", "star"))

Cube = tuple[str, ...]  # the symbols on top, bottom, left face, its opposite, right face, its opposite


def _positions(cube: Cube) -> Iterator[Cube]:
    """All twenty-four ways to put a cube down."""
    seen, todo = {cube}, [cube]
    while todo:
        top, bottom, left, back, right, far = todo.pop()
        yield (top, bottom, left, back, right, far)
        for turned in ((top, bottom, right, far, back, left), (left, back, bottom, top, right, far)):
            if turned not in seen:
                seen.add(turned)
                todo.append(turned)


def opposite_of_star() -> str:
    """The symbol opposite the star on every cube that can be seen in all three views."""
    opposites = set()
    for cube in permutations(_SYMBOLS):
        seen = {(position[0], position[2], position[4]) for position in _positions(cube)}
        if all(view in seen for view in _VIEWS):
            opposites.add(cube[cube.index("star") ^ 1])
    (symbol,) = opposites
    return symbol


def _draw_symbol(canvas: Canvas, symbol: str, place: Callable[[float, float], Point]) -> None:
    """One symbol on a face; ``place`` takes face coordinates from -1 to 1."""

    def area(points: list[Point], colour: str) -> None:
        canvas.polygon([place(x, y) for x, y in points], colour, INK, 1.8)

    def disc(x: float, y: float, radius: float, colour: str) -> None:
        area([(x + dx, y + dy) for dx, dy in star_points((0, 0), radius, 20, 1)], colour)

    if symbol == "star":
        area(star_points((0, 0), 0.72, 4, 0.36), GOLD)
    elif symbol == "cross":
        quarter = [(-0.2, -0.62), (0.2, -0.62), (0.2, -0.2)]
        points = list(quarter)
        for _ in range(3):
            quarter = [(-y, x) for x, y in quarter]
            points += quarter
        area(points, RED)
    elif symbol == "square":
        area([(-0.48, -0.48), (0.48, -0.48), (0.48, 0.48), (-0.48, 0.48)], GREEN)
    elif symbol == "dots":
        for x, y in ((-0.4, -0.4), (0.4, -0.4), (-0.4, 0.4), (0.4, 0.4)):
            disc(x, y, 0.2, VIOLET)
    else:
        disc(0, 0, 0.58, BLUE if symbol == "disc" else TEAL)
        if symbol == "ring":
            disc(0, 0, 0.3, WHITE)


def _draw_cube(canvas: Canvas, view: View, symbols: tuple[str, ...]) -> None:
    shades = (WHITE, "#efe8d8", "#e2d9c4")
    for corners, shade, symbol in zip(isometric.faces((0, 0, 0)), shades, symbols, strict=True):
        a, b, c, d = (view.project(corner) for corner in corners)
        canvas.polygon([a, b, c, d], shade, INK, 3)

        def place(u: float, v: float, a: Point = a, b: Point = b, d: Point = d) -> Point:
            right, down = (u + 1) / 2, (v + 1) / 2
            return (
                a[0] + (b[0] - a[0]) * right + (d[0] - a[0]) * down,
                a[1] + (b[1] - a[1]) * right + (d[1] - a[1]) * down,
            )

        _draw_symbol(canvas, symbol, place)


def _draw_toy_cube() -> Canvas:
    canvas = Canvas()
    for origin, symbols in zip(((165, 120), (475, 120), (320, 325)), _VIEWS, strict=True):
        _draw_cube(canvas, View(origin, 128), symbols)
    return canvas


def scenes() -> tuple[Scene, ...]:
    """The pile of crates, the castles between two lamps and the toy cube."""
    total, hidden = sum(map(sum, _CRATES)), isometric.hidden_cubes(_CRATES)
    crates = {"total": total, "hidden": hidden, "seen": total - hidden, "stacks": sum(map(len, _CRATES))}
    return (
        Scene("crates", crates, _draw_crates),
        Scene("towers", {"castle": shadow_castle()}, _draw_towers),
        Scene("cube", {"symbol": opposite_of_star()}, _draw_toy_cube),
    )
