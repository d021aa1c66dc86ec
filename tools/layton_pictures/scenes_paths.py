"""Picture riddles about following lines: a maze, an island's paths, tangled strings, driving belts."""

from __future__ import annotations

import math
import random
from collections import Counter
from functools import cache

from tools.layton_pictures.canvas import (
    BLUE,
    BROWN,
    COLOURS,
    GOLD,
    GREEN,
    INK,
    PALE,
    PAPER,
    RED,
    SOFT,
    TEAL,
    VIOLET,
    WHITE,
    Canvas,
    Point,
    star_points,
)
from tools.layton_pictures.visual_riddle import Scene

# ---- the beetle in the maze

Cell = tuple[int, int]
Passage = frozenset[Cell]

_COLUMNS, _ROWS, _CELL, _CORNER = 15, 10, 36, (50.0, 60.0)
_BEETLE: Cell = (7, 5)
# letter: the border cell and the step that leads out of it
_EXITS: dict[str, tuple[Cell, Cell]] = {
    "A": ((2, 0), (0, -1)),
    "B": ((10, 0), (0, -1)),
    "C": ((14, 4), (1, 0)),
    "D": ((12, 9), (0, 1)),
    "E": ((4, 9), (0, 1)),
    "F": ((0, 6), (-1, 0)),
}
_WAY_OUT = "B"


def _neighbours(cell: Cell) -> list[Cell]:
    x, y = cell
    around = ((x + 1, y), (x, y + 1), (x - 1, y), (x, y - 1))
    return [(a, b) for a, b in around if 0 <= a < _COLUMNS and 0 <= b < _ROWS]


def _carve(seed: int) -> set[Passage]:
    """Passages that join every cell to every other in exactly one way."""
    generator = random.Random(seed)
    passages: set[Passage] = set()
    seen, trail = {_BEETLE}, [_BEETLE]
    while trail:
        fresh = [cell for cell in _neighbours(trail[-1]) if cell not in seen]
        if fresh:
            cell = fresh[int(generator.random() * len(fresh))]
            passages.add(frozenset((trail[-1], cell)))
            seen.add(cell)
            trail.append(cell)
        else:
            trail.pop()
    return passages


def _route(passages: set[Passage], goal: Cell) -> list[Passage]:
    """The passages from the beetle to a cell, or none if there is no way."""
    came: dict[Cell, list[Passage]] = {_BEETLE: []}
    todo = [_BEETLE]
    for cell in todo:
        for other in _neighbours(cell):
            step = frozenset((cell, other))
            if step in passages and other not in came:
                came[other] = [*came[cell], step]
                todo.append(other)
    return came.get(goal, [])


@cache
def maze() -> frozenset[Passage]:
    """A maze in which all ways to the other exits are walled up, well away from the beetle."""
    passages = _carve(23)
    right = set(_route(passages, _EXITS[_WAY_OUT][0]))
    for letter, (cell, _) in _EXITS.items():
        wrong = [step for step in _route(passages, cell) if step not in right]
        if letter != _WAY_OUT and wrong:
            passages.discard(wrong[len(wrong) * 2 // 3])
    return frozenset(passages)


def reachable_exits() -> list[str]:
    return [letter for letter, (cell, _) in _EXITS.items() if _route(set(maze()), cell)]


def _maze_walls() -> list[tuple[Point, Point]]:
    left, top = _CORNER
    doors = {frozenset((cell, (cell[0] + dx, cell[1] + dy))) for cell, (dx, dy) in _EXITS.values()}
    open_sides = doors | maze()
    walls = []
    for x in range(-1, _COLUMNS):
        for y in range(-1, _ROWS):
            px, py = left + (x + 1) * _CELL, top + (y + 1) * _CELL
            if y >= 0 and frozenset(((x, y), (x + 1, y))) not in open_sides:
                walls.append(((px, py - _CELL), (px, py)))
            if x >= 0 and frozenset(((x, y), (x, y + 1))) not in open_sides:
                walls.append(((px - _CELL, py), (px, py)))
    return walls


def _draw_beetle(canvas: Canvas, centre: Point) -> None:
    x, y = centre
    for dy in (-5, 1, 7):
        canvas.line([(x - 11, y + dy + 2), (x + 11, y + dy + 2)], INK, 1.5)
    canvas.circle((x, y - 8), 5, INK, None)
    canvas.circle((x, y + 1), 9, RED, INK, 1.5)
    canvas.line([(x, y - 7), (x, y + 9)], INK, 1.5)


def _draw_maze() -> Canvas:
    canvas = Canvas()
    left, top = _CORNER
    canvas.box((left, top, left + _COLUMNS * _CELL, top + _ROWS * _CELL), "#f1ead8", None)
    for wall in _maze_walls():
        canvas.line(wall, "#4f6f52", 5)
    for letter, ((x, y), (dx, dy)) in _EXITS.items():
        at = (left + (x + 0.5 + 0.9 * dx) * _CELL, top + (y + 0.5 + 0.9 * dy) * _CELL)
        canvas.text(at, letter, 24)
    _draw_beetle(canvas, (left + (_BEETLE[0] + 0.5) * _CELL, top + (_BEETLE[1] + 0.5) * _CELL))
    return canvas


# ---- the lamplighter's island

_HOUSES: dict[str, Point] = {
    "A": (105, 145), "B": (300, 80), "C": (530, 135), "D": (185, 265),
    "E": (425, 235), "F": (145, 385), "G": (345, 400), "H": (540, 345),
}  # fmt: skip
_PATHS = tuple((pair[0], pair[1]) for pair in ["AB", "BC", "AD", "BD", "BE", "CE", "DF", "DE", "EG", "FG", "GH", "CH"])
_START = "C"


def last_house() -> str:
    """Where a walk along every path once must end: the only other house with an odd number of paths."""
    ends = Counter(house for path in _PATHS for house in path)
    odd = {house for house, count in ends.items() if count % 2}
    (other,) = odd - {_START}
    return other


def _draw_island() -> Canvas:
    canvas = Canvas("#cfe3ea")
    coast = []
    for k in range(120):
        angle = 2 * math.pi * k / 120
        reach = 1 + 0.03 * math.sin(5 * angle) + 0.03 * math.cos(3 * angle)
        coast.append((322 + 295 * reach * math.cos(angle), 240 + 224 * reach * math.sin(angle)))
    canvas.polygon(coast, "#e6edd3", "#b9c79a", 4)
    for index, (a, b) in enumerate(_PATHS):
        (ax, ay), (bx, by) = _HOUSES[a], _HOUSES[b]
        bend = (14, -12, 9, -16)[index % 4] / 100
        middle = ((ax + bx) / 2 - (by - ay) * bend, (ay + by) / 2 + (bx - ax) * bend)
        curve = [_bezier((ax, ay), middle, (bx, by), t / 16) for t in range(17)]
        canvas.line(curve, "#c5a26b", 9)
        canvas.line(curve, "#ecd9ae", 5)
    for house, (x, y) in _HOUSES.items():
        canvas.polygon([(x - 24, y - 6), (x, y - 30), (x + 24, y - 6)], RED, INK, 2)
        canvas.box((x - 19, y - 6, x + 19, y + 24), WHITE, INK, 2)
        canvas.text((x, y + 9), house, 22)
    return canvas


def _bezier(a: Point, b: Point, c: Point, t: float) -> Point:
    u = 1 - t
    return (u * u * a[0] + 2 * u * t * b[0] + t * t * c[0], u * u * a[1] + 2 * u * t * b[1] + t * t * c[1])


# ---- kites whose strings are tangled

_KITES = 5
# layer by layer: the left one of two neighbouring places whose strings cross, and whether the string from it is on top
_LAYERS: tuple[tuple[tuple[int, bool], ...], ...] = (
    ((1, True), (3, False)),
    ((0, True), (2, True)),
    ((1, False), (3, True)),
    ((0, False), (2, False)),
    ((1, True), (3, False)),
    ((2, True),),
)
_TOP, _BOTTOM = 118.0, 392.0
_STAR_KITE = 1


def child_with_star() -> int:
    """The number of the child, counted from 1 at the left, who holds the kite with the star."""
    place = _STAR_KITE
    for layer in _LAYERS:
        moves = {left + side: left + 1 - side for left, _ in layer for side in (0, 1)}
        place = moves.get(place, place)
    return place + 1


def _string(start: float, end: float, top: float, bottom: float) -> list[Point]:
    steps = 14
    return [
        (start + (end - start) * (1 - math.cos(math.pi * k / steps)) / 2, top + (bottom - top) * k / steps)
        for k in range(steps + 1)
    ]


def _place(index: int) -> float:
    return 80 + 120 * index


def _draw_strings(canvas: Canvas) -> None:
    height = (_BOTTOM - _TOP) / len(_LAYERS)
    for number, layer in enumerate(_LAYERS):
        top, bottom = _TOP + number * height, _TOP + (number + 1) * height
        for index in set(range(_KITES)) - {left + side for left, _ in layer for side in (0, 1)}:
            canvas.line(_string(_place(index), _place(index), top, bottom), INK, 3)
        for left, from_left_on_top in layer:
            falling = _string(_place(left), _place(left + 1), top, bottom)
            rising = _string(_place(left + 1), _place(left), top, bottom)
            under, over = (rising, falling) if from_left_on_top else (falling, rising)
            canvas.line(under, INK, 3)
            canvas.line(over[5:-5], PAPER, 10)
            canvas.line(over, INK, 3)


def _draw_kites() -> Canvas:
    canvas = Canvas()
    _draw_strings(canvas)
    for index in range(_KITES):
        x = _place(index)
        canvas.polygon([(x, 18), (x + 38, 58), (x, 118), (x - 38, 58)], COLOURS[index], INK, 2.5)
        canvas.line([(x, 18), (x, 118)], INK, 1.2)
        canvas.line([(x - 38, 58), (x + 38, 58)], INK, 1.2)
        if index == _STAR_KITE:
            canvas.polygon(star_points((x, 60), 22), GOLD, INK, 2)
        canvas.circle((x, 412), 20, "#f3d3b5", INK, 2)
        canvas.text((x, 412), str(index + 1), 22)
        canvas.polygon([(x - 22, 468), (x - 12, 434), (x + 12, 434), (x + 22, 468)], BLUE, INK, 2)
    return canvas


# ---- belts in the mill

_WHEELS: dict[str, tuple[Point, float]] = {
    "A": ((85, 150), 56), "B": ((255, 80), 36), "C": ((415, 215), 62), "D": ((565, 90), 38),
    "E": ((560, 375), 58), "F": ((265, 320), 34), "G": ((95, 400), 56),
}  # fmt: skip
_BELTS: tuple[tuple[str, str, bool], ...] = (
    # from, to, crossed
    ("A", "B", False),
    ("B", "C", True),
    ("C", "D", False),
    ("D", "E", True),
    ("B", "F", True),
    ("F", "G", False),
)


def backward_wheels() -> list[str]:
    """The wheels that turn against the first one: a crossed belt reverses, an open one does not."""
    backward = {"A": False}
    for driver, driven, crossed in _BELTS:
        backward[driven] = backward[driver] != crossed
    return sorted(wheel for wheel, reversed_ in backward.items() if reversed_)


def _draw_belt(canvas: Canvas, driver: str, driven: str, crossed: bool, colour: str) -> None:
    (a, ra), (b, rb) = _WHEELS[driver], _WHEELS[driven]
    heading = math.atan2(b[1] - a[1], b[0] - a[0])
    sign = -1 if crossed else 1
    spread = math.acos((ra - sign * rb) / math.dist(a, b))
    for side in (spread, -spread):
        angle = heading + side
        start = (a[0] + ra * math.cos(angle), a[1] + ra * math.sin(angle))
        end = (b[0] + sign * rb * math.cos(angle), b[1] + sign * rb * math.sin(angle))
        canvas.line([start, end], colour, 5)


def _draw_mill() -> Canvas:
    canvas = Canvas()
    for letter, (centre, radius) in _WHEELS.items():
        canvas.circle(centre, radius + 2, GREEN if letter == "A" else PALE, SOFT, 4)
    for belt, colour in zip(_BELTS, (BLUE, RED, VIOLET, BROWN, GOLD, TEAL), strict=True):
        _draw_belt(canvas, *belt, colour)
    for letter, (centre, radius) in _WHEELS.items():
        canvas.circle(centre, radius * 0.4, WHITE, SOFT, 2)
        canvas.text(centre, letter, min(24, radius * 0.62))
    centre, radius = _WHEELS["A"]
    canvas.arc(centre, radius * 0.68, -60, 50, INK, 3)
    canvas.arrow((centre[0] + 28, centre[1] - 25), (centre[0] + 34, centre[1] - 10), INK, 3, 12)
    return canvas


def scenes() -> tuple[Scene, ...]:
    """The maze, the island, the tangled kites and the mill."""
    (gate,) = reachable_exits()
    return (
        Scene("maze", {"gate": gate}, _draw_maze),
        Scene("island", {"start": _START, "last": last_house()}, _draw_island),
        Scene("kites", {"child": child_with_star()}, _draw_kites),
        Scene("mill", {"wheels": ", ".join(backward_wheels())}, _draw_mill),
    )
