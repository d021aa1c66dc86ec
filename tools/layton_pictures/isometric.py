"""Piles of equal cubes seen from above one edge, what of them can be seen, and the shadows they throw.

A pile is a height map: ``pile[y][x]`` cubes stand on cell (x, y). On the picture x runs to the lower right and y to
the lower left, so every cube shows its top, its left face (towards growing y) and its right face (towards growing x).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image, ImageDraw

from tools.layton_pictures.canvas import INK, Canvas, Point

Pile = tuple[tuple[int, ...], ...]
Cube = tuple[int, int, int]
Space = tuple[float, float, float]

TOP, LEFT, RIGHT = "#f2e3bd", "#d0a868", "#b3854a"
ISOMETRIC = math.degrees(math.atan(math.sqrt(0.5)))


@dataclass(frozen=True, slots=True)
class View:
    """A parallel projection; ``origin`` is the grid's far corner on the floor, ``elevation`` the camera's in degrees.

    At the isometric elevation the edges of different cubes fall on one another; a little off it they do not, which
    makes heights easier to tell apart.
    """

    origin: Point
    edge: float
    elevation: float = ISOMETRIC

    def project(self, at: Space) -> Point:
        """Where a corner of the grid lies on the picture."""
        x, y, z = at
        angle = math.radians(self.elevation)
        across = self.edge / math.sqrt(2)
        return (
            self.origin[0] + (x - y) * across,
            self.origin[1] + (x + y) * across * math.sin(angle) - z * self.edge * math.cos(angle),
        )


def cubes(pile: Pile) -> Iterator[Cube]:
    """All cubes, the ones farther away first, so that painting them in order hides what is hidden."""
    cells = [(x, y) for y, row in enumerate(pile) for x in range(len(row))]
    for x, y in sorted(cells, key=sum):
        for z in range(pile[y][x]):
            yield x, y, z


def faces(cube: Cube) -> tuple[tuple[Space, ...], tuple[Space, ...], tuple[Space, ...]]:
    """The corners of a cube's top, left and right face."""
    x, y, z = cube
    top = ((x, y, z + 1), (x + 1, y, z + 1), (x + 1, y + 1, z + 1), (x, y + 1, z + 1))
    left = ((x, y + 1, z + 1), (x + 1, y + 1, z + 1), (x + 1, y + 1, z), (x, y + 1, z))
    right = ((x + 1, y, z + 1), (x + 1, y + 1, z + 1), (x + 1, y + 1, z), (x + 1, y, z))
    return top, left, right


def draw_pile(canvas: Canvas, pile: Pile, view: View) -> None:
    for cube in cubes(pile):
        for corners, colour in zip(faces(cube), (TOP, LEFT, RIGHT), strict=True):
            canvas.polygon([view.project(corner) for corner in corners], colour, INK, 1.7)


def visible_faces(pile: Pile, elevation: float = ISOMETRIC) -> set[tuple[Cube, int]]:
    """Which faces can be seen at least in part: (cube, 0 top | 1 left | 2 right), found by painting the pile."""
    side = 600
    view = View((side / 2, side / 2), 24.0, elevation)
    picture = Image.new("I", (side, side), 0)
    pen = ImageDraw.Draw(picture)
    known: list[tuple[Cube, int]] = []
    for cube in cubes(pile):
        for index, corners in enumerate(faces(cube)):
            known.append((cube, index))
            pen.polygon([view.project(corner) for corner in corners], fill=len(known))
    counts = picture.getcolors(side * side) or []
    # at the isometric elevation a face that shows at all shows at least half of itself; less is stray pixels at an edge
    return {known[int(str(colour)) - 1] for count, colour in counts if colour and count > view.edge**2 / 8}


def hidden_cubes(pile: Pile) -> int:
    """How many cubes show no face at all."""
    return sum(1 for _ in cubes(pile)) - len({cube for cube, _ in visible_faces(pile)})


def is_unmistakable(pile: Pile, elevation: float = ISOMETRIC) -> bool:
    """Whether the top of every column can be seen, so that the picture fixes every height."""
    seen = {cube for cube, face in visible_faces(pile, elevation) if face == 0}
    return all((x, y, height - 1) in seen for y, row in enumerate(pile) for x, height in enumerate(row))


def shadow_from_left(pile: Pile) -> tuple[int, ...]:
    """Heights of the shadow thrown by a lamp at the lower left, from left to right as the lamp sees it."""
    return tuple(max(row[x] for row in pile) for x in range(len(pile[0])))


def shadow_from_right(pile: Pile) -> tuple[int, ...]:
    """The same for a lamp at the lower right."""
    return tuple(max(row) for row in reversed(pile))
