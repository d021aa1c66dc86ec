"""A drawing as a list of shapes, and its two ways onto paper: SVG by itself, PNG through Pillow (an optional extra)."""

from __future__ import annotations

import functools
import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal
from unicodedata import combining

from layton_batch.errors import FileError

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

Anchor = Literal["start", "middle", "end"]
_PILLOW_ANCHOR = {"start": "ls", "middle": "ms", "end": "rs"}
_DOT, _GAP, _MOST_STEPS, _THREAD = 5.0, 9.0, 200, "#888888"
_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial.ttf")
_OVERSAMPLED = 2  # Pillow draws without antialiasing, so shapes are drawn larger and scaled down


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    fill: str


@dataclass(frozen=True, slots=True)
class Line:
    """Straight from one point to another; ``dotted`` lines are faint guides."""

    x1: float
    y1: float
    x2: float
    y2: float
    stroke: str
    width: float = 1.0
    dotted: bool = False


@dataclass(frozen=True, slots=True)
class Circle:
    """``told``: what is shown of it where a pointer can be held over it."""

    x: float
    y: float
    radius: float
    fill: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text on its baseline; ``upwards`` turns it a quarter to the left about its point. ``halo``: with a
    white edge, so that it can be read across lines."""

    x: float
    y: float
    text: str
    size: float = 11.0
    anchor: Anchor = "middle"
    fill: str = "#222222"
    upwards: bool = False
    halo: bool = False


Shape = Rect | Line | Circle | Text


@dataclass(frozen=True, slots=True)
class Scene:
    """Shapes on white, painted in order; sizes in pixels at 100 a inch."""

    width: int
    height: int
    title: str
    shapes: Sequence[Shape]


def shortened(name: str, letters: int) -> str:
    """A name in at most so many letters, its middle left out: what tells models apart is often at the end."""
    if len(name) <= letters:
        return name
    tail = (letters - 1) // 2
    return f"{name[: letters - 1 - tail]}…{name[-tail:]}"


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Names:
    """Names beside points: each as near to its point as neither a name nor another point is, between ``top`` and
    ``bottom``, with a thread to a point it had to leave. Where there is no such place, it stands beside its point."""

    def __init__(self, points: Sequence[tuple[float, float]], top: float, bottom: float, size: float = 11.0) -> None:
        self._size, self._top, self._bottom = size, top, bottom
        self._taken = [_Box(x - _DOT, x + _DOT, y - _DOT, y + _DOT) for x, y in points]

    def beside(self, x: float, y: float, name: str, *, on_left: bool = False) -> list[Shape]:
        """The name of the point at (x, y), to its right or left."""
        sign = -1 if on_left else 1
        near, far = x + sign * _GAP, x + sign * (_GAP + 0.6 * self._size * len(name))
        left, right = min(near, far), max(near, far)
        step, half = 0.5 * self._size, 0.55 * self._size
        lines = (y + turn * step * i for i in range(_MOST_STEPS) for turn in (1, -1))
        boxes = ((line, _Box(left, right, line - half, line + half)) for line in lines)
        line, box = next(
            (found for found in boxes if self._is_free(found[1])), (y, _Box(left, right, y - half, y + half))
        )
        self._taken.append(box)
        text = Text(near, line + 0.35 * self._size, name, self._size, "end" if on_left else "start", halo=True)
        return [text] if line == y else [Line(x, y, near - sign, line, _THREAD, 0.75), text]

    def _is_free(self, box: _Box) -> bool:
        inside = self._top <= box.top and box.bottom <= self._bottom
        return inside and not any(box.meets(other) for other in self._taken)


# ---- SVG -----------------------------------------------------------------------------------------------------------


def svg(scene: Scene) -> str:
    """The scene as a file of its own; text in it is escaped, whatever it holds."""
    title = _clean(scene.title)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scene.width}" height="{scene.height}" '
        f'viewBox="0 0 {scene.width} {scene.height}" role="img" aria-label="{title}" '
        f'font-family="Helvetica, Arial, sans-serif">\n<title>{title}</title>\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n'
    )
    return head + "".join(f"{_element(shape)}\n" for shape in scene.shapes) + "</svg>\n"


def _element(shape: Shape) -> str:
    match shape:
        case Rect():
            place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
            return f'<rect {place} fill="{shape.fill}"/>'
        case Line():
            place = f'x1="{_n(shape.x1)}" y1="{_n(shape.y1)}" x2="{_n(shape.x2)}" y2="{_n(shape.y2)}"'
            dots = ' stroke-dasharray="1 3"' if shape.dotted else ""
            return f'<line {place} stroke="{shape.stroke}" stroke-width="{_n(shape.width)}"{dots}/>'
        case Circle():
            place = f'cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}" fill="{shape.fill}"'
            return (
                f"<circle {place}><title>{_clean(shape.told)}</title></circle>" if shape.told else f"<circle {place}/>"
            )
        case Text():
            place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}" text-anchor="{shape.anchor}"'
            turn = f' transform="rotate(-90 {_n(shape.x)} {_n(shape.y)})"' if shape.upwards else ""
            halo = (
                ' stroke="#ffffff" stroke-width="3" stroke-linejoin="round" paint-order="stroke"' if shape.halo else ""
            )
            return f'<text {place} fill="{shape.fill}"{turn}{halo}>{_clean(shape.text)}</text>'


def _n(value: float) -> str:
    """Two decimals at most, so that the same numbers give the same bytes everywhere."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _clean(text: str) -> str:
    """Escaped, and without the characters XML has no way to write."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))


# ---- PNG -----------------------------------------------------------------------------------------------------------


def check_png() -> None:
    """Raises FileError where PNG cannot be written because Pillow is not installed."""
    try:
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise FileError("a PNG chart needs Pillow: pip install 'layton-batch[charts]'; SVG needs nothing") from error


def png(scene: Scene, *, scale: int = 2) -> bytes:
    """The scene as PNG, ``scale`` pixels to one of its own (2: 200 dots an inch). Raises FileError without Pillow."""
    check_png()
    from PIL import Image, ImageDraw

    factor = scale * _OVERSAMPLED
    image = Image.new("RGB", (scene.width * factor, scene.height * factor), "#ffffff")
    draw = ImageDraw.Draw(image)
    for shape in scene.shapes:
        _paint(image, draw, shape, factor)
    small = image.resize((scene.width * scale, scene.height * scale), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.save(out, "PNG", dpi=(100 * scale, 100 * scale), optimize=True)
    return out.getvalue()


def _paint(image: Image.Image, draw: ImageDraw.ImageDraw, shape: Shape, factor: int) -> None:
    match shape:
        case Rect():
            right, bottom = shape.x + shape.width, shape.y + shape.height
            draw.rectangle([shape.x * factor, shape.y * factor, right * factor, bottom * factor], fill=shape.fill)
        case Line(dotted=True):
            _dots(draw, shape, factor)
        case Line():
            ends = [shape.x1 * factor, shape.y1 * factor, shape.x2 * factor, shape.y2 * factor]
            draw.line(ends, fill=shape.stroke, width=round(shape.width * factor))
        case Circle():
            x, y, radius = shape.x * factor, shape.y * factor, shape.radius * factor
            draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=shape.fill)
        case Text():
            _write(image, draw, shape, factor)


def _dots(draw: ImageDraw.ImageDraw, line: Line, factor: int) -> None:
    length = max(abs(line.x2 - line.x1), abs(line.y2 - line.y1))
    steps = max(1, int(length / 4))
    half = line.width * factor / 2
    for i in range(steps + 1):
        x, y = (a + (b - a) * i / steps for a, b in ((line.x1, line.x2), (line.y1, line.y2)))
        draw.rectangle([x * factor - half, y * factor - half, x * factor + half, y * factor + half], fill=line.stroke)


@functools.cache
def _font(size: float) -> ImageFont.FreeTypeFont | None:
    """One of this machine's that knows more than English."""
    from PIL import ImageFont

    for name in _FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return None


def _simple(text: str) -> str:
    """In the letters that Pillow's own font has."""
    bare = (letter for letter in unicodedata.normalize("NFKD", text.replace("…", "\0")) if not combining(letter))
    return "".join(letter if letter.isascii() else "?" for letter in bare).replace("\0", "…")


def _write(image: Image.Image, draw: ImageDraw.ImageDraw, text: Text, factor: int) -> None:
    from PIL import Image as Pictures
    from PIL import ImageDraw as Drawing
    from PIL import ImageFont

    said = "".join(letter if letter.isprintable() else " " for letter in text.text)
    found = _font(text.size * factor)
    font = found or ImageFont.load_default(text.size * factor)
    said = said if found else _simple(said)
    x, y, anchor = text.x * factor, text.y * factor, _PILLOW_ANCHOR[text.anchor]
    if not text.upwards:
        edge = round(1.5 * factor) if text.halo else 0
        draw.text((x, y), said, font=font, fill=text.fill, anchor=anchor, stroke_width=edge, stroke_fill="#ffffff")
        return
    left, top, right, bottom = map(int, draw.textbbox((0, 0), said, font=font, anchor=anchor))
    mask = Pictures.new("L", (right - left + 2, bottom - top + 2))
    Drawing.Draw(mask).text((1 - left, 1 - top), said, font=font, fill=255, anchor=anchor)
    turned = mask.rotate(90, expand=True)
    image.paste(text.fill, (int(x) + top - 1, int(y) - right - 1), turned)
