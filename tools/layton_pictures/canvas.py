"""Drawing at three times the final size, so that every edge is smooth once the picture is scaled down."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 640, 480
SCALE = 3
MAX_JPEG_BYTES = 28_500

PAPER = "#faf6ec"
INK = "#2f3640"
SOFT = "#8d8a80"
PALE = "#e9e1cf"
WHITE = "#ffffff"
BLUE = "#5b8fb9"
RED = "#cf6a5d"
GREEN = "#7fae7a"
GOLD = "#e3b34c"
VIOLET = "#9a85b8"
TEAL = "#5fa8a3"
ROSE = "#e2a3a0"
BROWN = "#a67c52"
COLOURS = (BLUE, RED, GREEN, GOLD, VIOLET, TEAL, ROSE, BROWN)

Point = tuple[float, float]


def turned(point: Point, centre: Point, degrees: float) -> Point:
    """The point turned clockwise, as seen on the screen, about the centre."""
    angle = math.radians(degrees)
    dx, dy = point[0] - centre[0], point[1] - centre[1]
    return (
        centre[0] + dx * math.cos(angle) - dy * math.sin(angle),
        centre[1] + dx * math.sin(angle) + dy * math.cos(angle),
    )


def on_circle(centre: Point, radius: float, clock_degrees: float) -> Point:
    """The point on a circle at an angle counted like a clock hand's: 0 is up, 90 is right."""
    return turned((centre[0], centre[1] - radius), centre, clock_degrees)


def star_points(centre: Point, radius: float, tips: int = 5, inner: float = 0.45) -> list[Point]:
    """The outline of a star that stands on two of its tips."""
    step = 180 / tips
    return [on_circle(centre, radius * (inner if k % 2 else 1), k * step) for k in range(2 * tips)]


class Canvas:
    """A sheet of 640 x 480 units with the origin at the top left; all lengths are in these units."""

    def __init__(self, background: str = PAPER) -> None:
        self._image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), background)
        self._draw = ImageDraw.Draw(self._image)

    def line(self, points: Sequence[Point], colour: str = INK, width: float = 3) -> None:
        """A line through the points, with round joints and ends."""
        scaled = _scaled(points)
        pixels = max(1, round(width * SCALE))
        self._draw.line(scaled, fill=colour, width=pixels, joint="curve")
        radius = (pixels - 1) / 2
        for x, y in scaled:
            self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)

    def polygon(self, points: Sequence[Point], fill: str | None, outline: str | None = INK, width: float = 2.5) -> None:
        if fill is not None:
            self._draw.polygon(_scaled(points), fill=fill)
        if outline is not None:
            self.line([*points, points[0]], outline, width)

    def circle(
        self, centre: Point, radius: float, fill: str | None, outline: str | None = INK, width: float = 2.5
    ) -> None:
        x, y, r = centre[0] * SCALE, centre[1] * SCALE, radius * SCALE
        self._draw.ellipse((x - r, y - r, x + r, y + r), fill=fill, outline=outline, width=round(width * SCALE))

    def box(
        self,
        corners: tuple[float, float, float, float],
        fill: str | None,
        outline: str | None = INK,
        width: float = 2.5,
        radius: float = 0,
    ) -> None:
        """A rectangle from (left, top) to (right, bottom) with rounded corners."""
        left, top, right, bottom = (round(value * SCALE) for value in corners)
        self._draw.rounded_rectangle(
            (left, top, right, bottom), radius=radius * SCALE, fill=fill, outline=outline, width=round(width * SCALE)
        )

    def arc(self, centre: Point, radius: float, start: float, end: float, colour: str = INK, width: float = 3) -> None:
        """An arc of a circle, clockwise between two angles counted like a clock hand's."""
        steps = max(2, math.ceil(abs(end - start) / 4))
        angles = [start + (end - start) * k / steps for k in range(steps + 1)]
        self.line([on_circle(centre, radius, angle) for angle in angles], colour, width)

    def text(self, at: Point, text: str, size: float = 20, colour: str = INK, anchor: str = "mm") -> None:
        font = ImageFont.load_default(size=size * SCALE)
        self._draw.text((at[0] * SCALE, at[1] * SCALE), text, fill=colour, font=font, anchor=anchor)

    def arrow(self, start: Point, end: Point, colour: str = INK, width: float = 3, head: float = 11) -> None:
        angle = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        wings = [turned((end[0] - head, end[1] + side), end, angle) for side in (-head * 0.55, head * 0.55)]
        neck = turned((end[0] - head * 0.8, end[1]), end, angle)
        self.line([start, neck], colour, width)
        self._draw.polygon(_scaled([end, *wings]), fill=colour)

    def image(self) -> Image.Image:
        """The finished picture, scaled down to 640 x 480 pixels."""
        return self._image.resize((WIDTH, HEIGHT), Image.Resampling.BOX)

    def jpeg(self) -> bytes:
        """The finished picture as a JPEG of at most ``MAX_JPEG_BYTES``, in the best quality that fits."""
        picture = self.image()
        for quality in (85, 80, 75, 70, 65, 60):
            buffer = io.BytesIO()
            picture.save(buffer, "JPEG", quality=quality, optimize=True, progressive=True)
            if buffer.tell() <= MAX_JPEG_BYTES:
                return buffer.getvalue()
        raise ValueError(f"the picture needs more than {MAX_JPEG_BYTES} bytes even at low quality: draw it more simply")


def _scaled(points: Sequence[Point]) -> list[tuple[float, float]]:
    return [(x * SCALE, y * SCALE) for x, y in points]
