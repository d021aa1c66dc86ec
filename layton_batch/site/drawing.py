"""Pictures as SVG: shapes that take their colours from the page, and the same as files that stand alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

WIDTH = 760
_LETTER = 6.6  # pixels of an average letter of 12 px
_FILE_STYLE = Markup(
    "<style>text{{font:12px 'DejaVu Sans',Arial,sans-serif;fill:#1b1f24}}.title{{font-size:15px}}"
    ".soft{{fill:#565f6b;stroke:#fff;stroke-width:3px;paint-order:stroke}}"
    ".grid{{stroke:#e4e4dd}}.thin{{stroke:#8f949b;stroke-width:1.5}}.band{{fill:#a9c6e6}}.mark{{fill:#1d5a9e}}"
    ".front{{fill:none;stroke:#1d5a9e;stroke-width:1.5;stroke-dasharray:4 3}}.web{{fill:none;stroke:#e4e4dd}}"
    ".s0{{stroke:#1d5a9e;color:#1d5a9e}}.s1{{stroke:#b0362c;color:#b0362c}}.s2{{stroke:#1b7a4a;color:#1b7a4a}}"
    ".s3{{stroke:#8f6400;color:#8f6400}}.s4{{stroke:#6c4ba8;color:#6c4ba8}}.shape{{fill:none;stroke-width:2}}"
    ".key{{stroke-width:3}}</style>"
).format()

_PATH = Markup('<{} class="{}" points="{}"/>')
_LINE = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
_BAR = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2"><title>{}</title></rect>')
_DOT = Markup('<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>')
_TEXT = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
_INLINE = Markup('<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {:.0f} {:.0f}">{}</svg>')
_FILE = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-16 -36 {:.0f} {:.0f}" width="{:.0f}" height="{:.0f}">{}'
    '<rect x="-16" y="-36" width="100%" height="100%" fill="#ffffff"/><text class="title" x="0" y="-12">{}</text>'
    "{}</svg>"
)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels; ``log`` where values span powers of ten."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, here = (math.log10(one) if self.log else one for one in (self.low, self.high, value))
        share = (here - low) / (high - low) if high > low else 0.5  # two refreshes of one moment: in the middle
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the scale."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1, 2, 5) if math.log10(self.high / self.low) < 2 else (1,)
            found = [step * 10.0**power for power in powers for step in steps]
        else:
            step = nice_step((self.high - self.low) / 6)
            first = math.ceil(self.low / step - 1e-9)
            found = [step * index for index in range(first, math.floor(self.high / step + 1e-9) + 1)]
        return [one for one in found if self.low <= one * (1 + 1e-12) and one <= self.high * (1 + 1e-12)]


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-12)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def scale(values: Sequence[float], start: float, end: float, *, log: bool = False) -> Scale:
    """A scale that holds the values with a little room."""
    low, high = min(values), max(values)
    if log:
        return Scale(low / 1.4, high * 1.4, start, end, log=True)
    room = max((high - low) * 0.05, 0.5)
    return Scale(low - room, high + room, start, end)


@dataclass(slots=True)
class Picture:
    """Shapes in the order in which they are drawn. Every text is escaped; classes are ours alone."""

    title: str
    height: float
    width: float = WIDTH
    _parts: list[Markup] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self._parts.append(_LINE.format(kind, x1, y1, x2, y2))

    def bar(self, x: float, y: float, width: float, height: float, kind: str, told: str = "") -> None:
        self._parts.append(_BAR.format(kind, x, y, max(width, 0.0), height, told))

    def dot(self, x: float, y: float, told: str = "", radius: float = 4) -> None:
        self._parts.append(_DOT.format(x, y, radius, told))

    def path(self, points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        name = "polygon" if closed else "polyline"
        self._parts.append(_PATH.format(name, kind, places))

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        self._parts.append(_TEXT.format(kind, x, y, anchor, words))

    @property
    def inline(self) -> Markup:
        """For a page, whose style sheet colours it."""
        return _INLINE.format(self.title, self.width, self.height, Markup("").join(self._parts))

    @property
    def file(self) -> bytes:
        """A file that stands alone, on white under its title."""
        width, height = self.width + 32, self.height + 52
        parts = Markup("").join(self._parts)
        return _FILE.format(width, height, width, height, _FILE_STYLE, self.title, parts).encode("utf-8", "replace")


def clipped(words: str, pixels: float) -> str:
    """As much of a name as fits."""
    most = max(int(pixels / _LETTER), 2)
    return words if len(words) <= most else words[: most - 1] + "…"


def free_places(points: Sequence[tuple[float, float]], names: Sequence[str], width: float) -> list[tuple[float, str]]:
    """For every point the height and the side (``start`` or ``end``) of its name, so that names do not overlap as far
    as there is room."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    found: list[tuple[float, str]] = []
    for (x, y), name in zip(points, names, strict=True):
        size = _LETTER * len(name) + 10
        sides = ("end", "start") if x + size > width else ("start", "end")
        boxes = [
            (
                y + rise,
                side,
                (x + 7, y + rise - 6, x + size, y + rise + 6)
                if side == "start"
                else (x - size, y + rise - 6, x - 7, y + rise + 6),
            )
            for rise in (0, 12, -12, 24, -24, 36, -36)
            for side in sides
        ]
        inside = [one for one in boxes if one[2][0] >= 0 and one[2][2] <= width] or boxes
        place, side, box = next((one for one in inside if not any(_meet(one[2], other) for other in taken)), inside[0])
        taken.append(box)
        found.append((place, side))
    return found


def _meet(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
