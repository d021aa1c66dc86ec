"""Basis of charts: one look, names beside points, and the way from a Vega-Lite chart to an SVG or PNG picture."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal
from xml.etree import ElementTree

import altair as alt
import vl_convert

from layton_batch.records import JsonValue
from layton_batch.text import shortened

INK, SOFT, GRID, BLUE, BAND = "#222222", "#8f949b", "#dddddd", "#0072b2", "#a9c6e6"
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the first one comes with vl-convert
_NAME_SIZE, _LONGEST_NAME, _DOT, _GAP, _STEPS, _LEFT_FROM = 11, 32, 6, 9, 200, 0.7

LABEL, NAME = alt.Description("label:N"), alt.Text("name:N")
"""Channels as objects: Altair reads a word such as ``label:N`` thirty times as slowly."""

Row = Mapping[str, JsonValue]
Pixel = tuple[float, float]
Box = tuple[float, float, float, float]

_SVG = "http://www.w3.org/2000/svg"
ElementTree.register_namespace("", _SVG)


@dataclass(frozen=True, slots=True)
class Axis:
    """A quantitative axis of ``length`` pixels from ``low`` to ``high``; ``log``: with a logarithmic scale."""

    title: str
    low: float
    high: float
    length: int
    log: bool = False

    def pixel(self, value: float) -> float:
        """Return the distance of a value from the axis' start, in pixels."""
        low, high, at = (math.log10(number) if self.log else number for number in (self.low, self.high, value))
        return (at - low) / (high - low) * self.length

    def x(self) -> alt.X:
        return alt.X("x:Q", scale=self._scale(), title=self.title, axis=self._axis())

    def y(self) -> alt.Y:
        return alt.Y("y:Q", scale=self._scale(), title=self.title, axis=self._axis())

    def _scale(self) -> alt.Scale:
        kind: Literal["log", "linear"] = "log" if self.log else "linear"
        return alt.Scale(domain=[self.low, self.high], nice=False, zero=False, type=kind)

    def _axis(self) -> alt.Axis:
        """Mark 1, 2 and 5 of each power of ten on a logarithmic scale: d3 draws a line for every digit."""
        if not self.log:
            return alt.Axis(tickCount=6)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)))
        ticks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
        inside = [tick for tick in ticks if self.low <= tick <= self.high]
        return alt.Axis(format=",~r", labelOverlap="greedy", labelSeparation=8, values=inside)


def table(rows: Sequence[Row]) -> alt.InlineData:
    """Rows as they stand in the specification: nothing is loaded from elsewhere."""
    return alt.InlineData(values=tuple(map(dict, rows)))  # Altair copies a list many times


def named_points(points: Sequence[Row], across: Axis, up: Axis, line: Sequence[Pixel] = ()) -> list[alt.Chart]:
    """Draw a dot for each row (``x``, ``y``, ``name``, ``label``: its description, ``colour``) and its name beside it.

    A row without a name has its dot alone. ``line``: the corners of a line, in values, that no name may touch.
    """
    names = [shortened(str(point["name"]), _LONGEST_NAME) for point in points]
    dots, corners = (
        [(across.pixel(x), up.length - up.pixel(y)) for x, y in places]
        for places in ([(float(str(point["x"])), float(str(point["y"]))) for point in points], line)
    )
    offsets = name_offsets(dots, names, across.length, up.length, list(_along(corners)))
    rows = [
        {**point, "name": name, "dx": dx, "dy": dy}
        for point, name, (dx, dy) in zip(points, names, offsets, strict=True)
    ]
    base = alt.Chart(table(rows)).encode(x=across.x(), y=up.y(), description=LABEL)
    dx, dy, align = alt.expr("datum.dx"), alt.expr("datum.dy"), alt.expr("datum.dx < 0 ? 'right' : 'left'")
    threads = base.transform_filter("datum.dy != 0").mark_rule(stroke=SOFT, x2Offset=dx, y2Offset=dy)
    texts = base.mark_text(dx=dx, dy=dy, align=align, fontSize=_NAME_SIZE, color=INK).encode(text=NAME)
    halo = texts.mark_text(dx=dx, dy=dy, align=align, fontSize=_NAME_SIZE, color=INK, stroke="white", strokeWidth=3)
    circles = base.mark_circle(size=80, opacity=1).encode(color=alt.Color("colour:N", scale=None))
    return [threads.encode(x2=alt.X2("x:Q"), y2=alt.Y2("y:Q")), circles, halo, texts]


def name_offsets(
    points: Sequence[Pixel], names: Sequence[str], width: float, height: float, line: Sequence[Pixel] = ()
) -> list[Pixel]:
    """Return the offset of every name from its point in pixels: to its side, as near above or below as there is room.

    ``line``: further places that no name may cover.
    """
    taken: list[Box] = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in points]
    taken += [(x - 2, y - 2, x + 2, y + 2) for x, y in line]
    offsets: list[Pixel] = []
    for (x, y), name in zip(points, names, strict=True):
        side = -1 if x > _LEFT_FROM * width else 1
        start, end = sorted((x + side * _GAP, x + side * (_GAP + 0.6 * _NAME_SIZE * len(name))))
        free = (dy for dy in _steps() if _is_free((start, y + dy - 6, end, y + dy + 6), taken, height))
        dy = next(free, 0.0)
        taken.append((start, y + dy - 6, end, y + dy + 6))
        offsets.append((side * _GAP, dy))
    return offsets


def _along(corners: Sequence[Pixel]) -> Iterator[Pixel]:
    """Yield places on a broken line, a few pixels apart."""
    for (x, y), (x2, y2) in pairwise(corners):
        steps = max(int(math.hypot(x2 - x, y2 - y) / 4), 1)
        yield from ((x + (x2 - x) * step / steps, y + (y2 - y) * step / steps) for step in range(2, steps - 1))


def _steps() -> Iterator[float]:
    return (sign * 0.5 * _NAME_SIZE * i for i in range(_STEPS) for sign in (1, -1))


def _is_free(box: Box, taken: Sequence[Box], height: float) -> bool:
    start, top, end, bottom = box
    inside = top >= -8 and bottom <= height
    return inside and not any(start < r and le < end and top < b and t < bottom for le, t, r, b in taken)


def layered(layers: Sequence[alt.Chart], width: int, height: int) -> alt.LayerChart:
    return alt.LayerChart(layer=list(layers), width=width, height=height)


def row_axis(count: int) -> alt.Y:
    """Return the axis of rows by number: two models may be shown by the same shortened name."""
    return alt.Y("at:O", axis=None, scale=alt.Scale(domain=list(range(count))))


def row_names(base: alt.Chart) -> alt.Chart:
    """Write each row's ``name`` at its left."""
    names: alt.Chart = base.mark_text(align="right", dx=-8, color=INK).encode(x=alt.value(0), text=NAME)
    return names


def scores_with_intervals(rows: Sequence[Row], width: int, height: int) -> alt.LayerChart:
    """Draw a dot and a band in each row: ``at`` (its number), ``name``, ``label``, ``colour``, ``score``, ``low``,
    ``high``. ``height``: of a row."""
    base = alt.Chart(table(rows)).encode(y=row_axis(len(rows)), description=LABEL, tooltip=alt.Tooltip("label:N"))
    x = alt.X("low:Q", title="Score (%)", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    layers = [
        base.transform_filter("datum.low !== null").mark_bar(color=BAND, height=10).encode(x=x, x2=alt.X2("high:Q")),
        base.mark_circle(size=60, opacity=1).encode(x=alt.X("score:Q"), color=alt.Color("colour:N", scale=None)),
        row_names(base),
    ]
    return layered(layers, width, height * len(rows))


def titled(chart: alt.LayerChart, title: str) -> alt.LayerChart:
    """The chart on white under its title, in the look that all share."""
    look: alt.LayerChart = chart.properties(title=title, padding=_PADDING, background="white", config=_look())
    return look


_PADDING = {"left": 16, "right": 16, "top": 5, "bottom": 5}  # letters of the reader's machine may be wider than ours


@cache
def _look() -> alt.Config:
    axis = alt.AxisConfig(gridColor=GRID, domainColor=INK, titleFontWeight="normal", titlePadding=10)
    heading = alt.TitleConfig(fontSize=14, fontWeight="normal", offset=14)
    return alt.Config(font=_FONT, view=alt.ViewConfig(stroke=None), axis=axis, title=heading)


def specification(chart: alt.LayerChart) -> str:
    """Return the chart as a Vega-Lite document with its data, numbers to six digits: equal on every machine."""
    return json.dumps(_printable(chart.to_dict(validate=False)))


def svg(document: str) -> str:
    """Render a :func:`specification` as an SVG file. Nothing is fetched."""
    return vl_convert.vegalite_to_svg(document, allowed_base_urls=[])


def png(picture: str) -> bytes:
    """Render an SVG file as PNG, two dots a pixel."""
    return vl_convert.svg_to_png(picture, scale=2)


def rendered(chart: alt.LayerChart, ending: str) -> bytes:
    """Render the chart as ``.svg`` or ``.png``."""
    picture = svg(specification(chart))
    return png(picture) if ending.lower() == ".png" else picture.encode()


_ENLARGED = 1.25  # a picture of a page beside its file: letters are then as large as those of the page


def recoloured(picture: str, colours: Mapping[str, str], title: str, models: Mapping[str, int], chosen: int) -> str:
    """Return an SVG file as an element of an HTML page, with other colours, larger, and without a height of its own.

    ``colours``: what replaces each colour of the file; ``title``: what a screen reader says of the picture. A mark's
    description becomes the text that is shown when a pointer rests on the mark. ``models``: a model's number, by the
    description of its marks, which then carry the number; those from ``chosen`` on are not displayed.
    """
    root = ElementTree.fromstring(picture)  # noqa: S314  written by svg() above
    for element in root.iter():
        description = element.attrib.get("aria-label")
        for name in [name for name in element.attrib if name == "role" or name.startswith("aria-")]:
            del element.attrib[name]
        for name in ("fill", "stroke"):
            if name in element.attrib:
                element.attrib[name] = colours.get(element.attrib[name], element.attrib[name])
        model = models.get(description) if description else None
        if model is not None:
            element.attrib["data-model"] = str(model)
            if model >= chosen:
                element.attrib["display"] = "none"
        if description and element.tag == f"{{{_SVG}}}path":
            ElementTree.SubElement(element, f"{{{_SVG}}}title").text = description
    root.attrib["width"] = f"{_ENLARGED * float(root.attrib['width']):.0f}"
    del root.attrib["height"]
    root.attrib.update({"class": "chart", "role": "img", "aria-label": title})
    return ElementTree.tostring(root, encoding="unicode")


def _printable(value: JsonValue) -> JsonValue:
    """Without the characters that XML has no way to write: vl-convert ends the whole process at one."""
    if isinstance(value, str):
        return "".join(letter if letter.isprintable() else " " for letter in value)
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _printable(member) for name, member in value.items()}
    return [_printable(member) for member in value] if isinstance(value, list | tuple) else value
