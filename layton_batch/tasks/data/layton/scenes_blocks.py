"""Picture riddles about solid things: a pile of crates, shadows of towers, a toy cube."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

from layton_batch.tasks.data.layton import isometric
from layton_batch.tasks.data.layton.canvas import (
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
from layton_batch.tasks.data.layton.isometric import Pile, View
from layton_batch.tasks.data.layton.visual_riddle import VisualRiddle

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


def _crate_riddle() -> VisualRiddle:
    total = sum(map(sum, _CRATES))
    hidden = isometric.hidden_cubes(_CRATES)
    columns = sum(map(len, _CRATES))
    return VisualRiddle(
        "Counting",
        50,
        "In the corner of a cellar somebody has piled up crates, all of the same size. Every crate stands on the floor "
        "or exactly on top of another, and there are no gaps against the walls or between the crates.\n\nYou are "
        "standing where the picture was drawn. Of how many crates can you see nothing at all, not even a part of one "
        "face?",
        (
            "Count all the crates first, stack by stack. The top of every stack can be seen in the picture.",
            "Then count the crates that you can see. A crate that shows just one face, or part of one, is seen.",
            f"There are {columns} stacks and {total} crates altogether.",
        ),
        f"Of {hidden} crates. There are {total} crates in the pile. {total - hidden} of them show at least part of a "
        f"face, and the other {hidden} are completely hidden by those in front of and above them.",
        str(hidden),
        "The top of every stack is visible and there are no gaps, so the height of every stack is known. Adding up the "
        f"{columns} stacks gives {total} crates. Going over the picture, {total - hidden} different crates show at "
        f"least part of one face. So {total} − {total - hidden} = {hidden} crates cannot be seen at all.",
        _draw_crates,
    )


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


def _tower_riddle() -> VisualRiddle:
    letter = shadow_castle()
    return VisualRiddle(
        "Shadows",
        50,
        "Four toy castles A to D are built of wooden cubes. Lamp 1 shines on a castle from the front left and lamp 2 "
        "from the front right, as the small plan in the upper middle of the picture shows. Each lamp is far away and "
        "at the height of the castle, so that the castle throws a sharp shadow straight behind it.\n\nThe two frames "
        "show the outlines of the two shadows of one and the same castle, each as seen from its lamp. Which castle is "
        "it?",
        (
            "From far away, a lamp sees in each direction only the tallest of the stacks that stand one behind another.",
            "For lamp 1, take the castle's three rows of stacks that run from the lower left to the upper right, and note "
            "the tallest stack in each.",
            "Lamp 1 rules out one castle. Watch left and right carefully with lamp 2: one castle would throw its shadow "
            "the wrong way round.",
        ),
        f"Castle {letter}. From lamp 1 its outline is 3, 1 and 2 cubes high, and from lamp 2 it is 2, 3 and 1. The "
        "others fail: A and D fit only lamp 1, and B fits only lamp 2.",
        letter,
        "An outline shows the tallest stack of each row that runs away from the lamp. Lamp 1 needs the heights 3, 1, 2 "
        "from left to right, which A, C and D have, while B gives 3, 2, 1. Lamp 2 needs 2, 3, 1: A gives 3, 2, 1 and D "
        f"gives the mirror image 1, 3, 2. Only castle {letter} fits both.",
        _draw_towers,
    )


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


def _cube_riddle() -> VisualRiddle:
    symbol = opposite_of_star()
    return VisualRiddle(
        "Dice",
        60,
        "The picture shows one and the same toy cube three times; in between it has been turned. Each of its six faces "
        "bears a different symbol: a star, a cross, a disc, a ring, a square and a group of four dots.\n\nWhich symbol "
        "is on the face opposite the star?",
        (
            "Compare the two upper pictures. They have two symbols in common. How was the cube turned between them?",
            "The upper pictures show four neighbouring faces, so you can say what lies opposite the disc. Two symbols, "
            "the star and the square, are left for the two faces that neither upper picture shows.",
            "So the star is opposite either the cross or the four dots. The third picture tells which, if you mind left "
            "and right.",
        ),
        f"The {symbol}. The upper pictures show the disc, the dots and the ring following one another around the sides, "
        "with the cross on top. The star and the square fill the bottom and the last side, and only with the star at "
        "the bottom do square, ring and star meet at a corner in the same order as in the third picture.",
        f"The {symbol}",
        "In both upper pictures the cross is on top, and the dots move from the right face to the left, so the cube was "
        "turned a quarter about its upright axis. Around the sides come disc, dots, ring, so the disc is opposite the "
        "ring. The star and the square are on the bottom and on the side opposite the dots. In the third picture, square "
        "on top, ring on the left and star on the right meet at a corner, and this order fits only if the star is at "
        f"the bottom, so it is opposite the {symbol}.",
        _draw_toy_cube,
    )


def riddles() -> tuple[VisualRiddle, ...]:
    return (_crate_riddle(), _tower_riddle(), _cube_riddle())
