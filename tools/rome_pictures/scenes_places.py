"""Questions about places: a road map, a town with districts, a metro plan, a walk along a path, a shelf twice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tools.layton_pictures.canvas import (
    BLUE,
    BROWN,
    GOLD,
    GREEN,
    INK,
    PALE,
    RED,
    ROSE,
    SOFT,
    TEAL,
    WHITE,
    Canvas,
    Point,
    star_points,
)
from tools.rome_pictures.visual_question import VisualQuestion

_TOWNS: dict[str, Point] = {
    "Amsel": (110, 110), "Birkau": (330, 80), "Corda": (320, 250), "Dornach": (540, 140), "Elmsen": (150, 380),
    "Fennik": (530, 390),
}  # fmt: skip
_ROADS = (("Amsel", "Birkau"), ("Birkau", "Corda"), ("Corda", "Elmsen"), ("Dornach", "Fennik"), ("Amsel", "Elmsen"),
          ("Birkau", "Dornach"))  # fmt: skip
_HUB = "Corda"
_DISTRICTS = (
    ("Old Harbour", PALE, (40, 40, 320, 235)),
    ("Hilltop", "#dfe8d8", (320, 40, 600, 235)),
    ("Mill Quarter", "#e8dcd8", (40, 235, 320, 440)),
    ("Gardens", "#d8e4e8", (320, 235, 600, 440)),
)
_LANDMARKS: dict[str, Point] = {"Fish Market": (120, 180), "Rope Walk": (240, 110), "Observatory": (470, 130),
                                "Weir House": (170, 350), "Palm Court": (470, 340)}  # fmt: skip
_STARRED = "Rope Walk"
_LINES = {
    "Green Line": (GREEN, ("Ostrow", "Pell", "Quay", "Rowan")),
    "Red Line": (RED, ("Sable", "Tarn", "Umber", "Vale")),
}
_RINGED = "Tarn"
_STATIONS = ("D", "A", "E", "C", "B")
_PATH: tuple[Point, ...] = ((70, 380), (180, 300), (120, 130), (300, 90), (360, 260), (500, 380), (560, 130))
_SHELF = ("lamp", "kite", "drum", "boat", "bell")
_GONE = "boat"


def questions() -> tuple[VisualQuestion, ...]:
    """All of this module, in the order of the file."""
    return (_neighbours(), _landmark(), _station(), _walk(), _difference())


def _neighbours() -> VisualQuestion:
    names = [other for road in _ROADS if _HUB in road for other in road if other != _HUB]
    return VisualQuestion(
        f"Which towns on the map does a road join to {_HUB} without passing through another town? Name all of them.",
        " and ".join(names), "key_items_matching", {"key_items": [[name] for name in names]}, "spatial", (_draw_roads,),
    )  # fmt: skip


def _draw_roads() -> Canvas:
    canvas = Canvas()
    for start, end in _ROADS:
        canvas.line([_TOWNS[start], _TOWNS[end]], BROWN, width=6)
    for name, (x, y) in _TOWNS.items():
        canvas.circle((x, y), 13, WHITE, width=4)
        canvas.text((x, y - 30), name, size=24)
    return canvas


def _landmark() -> VisualQuestion:
    x, y = _LANDMARKS[_STARRED]
    district = next(name for name, _, (left, top, right, bottom) in _DISTRICTS if left < x < right and top < y < bottom)
    return VisualQuestion(
        "The map shows a town's districts and landmarks. Where is the star? Name the landmark it stands beside and the "
        "district.",
        f"{_STARRED}, {district}", "location_matching",
        {"location_fine_grained": [_STARRED], "location_coarse_grained": [district]}, "geo", (_draw_town,),
    )  # fmt: skip


def _draw_town() -> Canvas:
    canvas = Canvas()
    for name, colour, corners in _DISTRICTS:
        canvas.box(corners, colour, SOFT, width=3)
        canvas.text(((corners[0] + corners[2]) / 2, corners[3] - 18), name, size=22, colour=SOFT)
    for name, (x, y) in _LANDMARKS.items():
        canvas.box((x - 8, y - 8, x + 8, y + 8), BLUE)
        canvas.text((x, y - 24), name, size=20)
    x, y = _LANDMARKS[_STARRED]
    canvas.polygon(star_points((x + 34, y + 4), 17), RED)
    return canvas


def _station() -> VisualQuestion:
    line = next(name for name, (_, stations) in _LINES.items() if _RINGED in stations)
    return VisualQuestion(
        "You get off the metro at the station with the ring around it. Where are you? Name the station and its line.",
        f"{_RINGED}, {line}", "location_matching",
        {"location_fine_grained": [_RINGED], "location_coarse_grained": [line]}, "geo", (_draw_metro,),
    )  # fmt: skip


def _draw_metro() -> Canvas:
    canvas = Canvas()
    for row, (name, (colour, stations)) in enumerate(_LINES.items()):
        y = 150 + 190 * row
        canvas.line([(90, y), (570, y)], colour, width=12)
        canvas.text((90, y - 56), name, size=24, colour=colour, anchor="lm")
        for place, station in enumerate(stations):
            x = 110.0 + 145 * place
            if station == _RINGED:
                canvas.circle((x, y), 30, None, INK, width=5)
            canvas.circle((x, y), 13, WHITE, width=4)
            canvas.text((x, y + 48), station, size=22)
    return canvas


def _walk() -> VisualQuestion:
    return VisualQuestion(
        "Follow the path from the flag to the star. In which order do you pass the stations A to E?",
        ", ".join(_STATIONS), "ordered_list_matching", {"order": list(_STATIONS)}, "spatial", (_draw_walk,),
    )  # fmt: skip


def _draw_walk() -> Canvas:
    canvas = Canvas()
    canvas.line(_PATH, TEAL, width=8)
    x, y = _PATH[0]
    canvas.line([(x, y), (x, y - 56)], width=4)
    canvas.polygon([(x, y - 56), (x + 38, y - 44), (x, y - 32)], RED)
    canvas.polygon(star_points(_PATH[-1], 22), GOLD)
    for name, point in zip(_STATIONS, _PATH[1:-1], strict=True):
        canvas.circle(point, 21, WHITE, width=4)
        canvas.text(point, name, size=24)
    return canvas


def _difference() -> VisualQuestion:
    rest = tuple(name for name in _SHELF if name != _GONE)
    return VisualQuestion(
        "Every box on the shelf has a label. Which box is there in <image 1> and gone in <image 2>?",
        f"the {_GONE} box", "key_items_matching", {"key_items": [_GONE]}, "multi-image",
        (partial(_draw_shelf, _SHELF), partial(_draw_shelf, rest[::-1])),
    )  # fmt: skip


def _draw_shelf(names: Sequence[str]) -> Canvas:
    canvas = Canvas()
    canvas.line([(40, 330), (600, 330)], BROWN, width=12)
    for place, name in enumerate(names):
        x = 100.0 + 110 * place
        canvas.box((x - 46, 230, x + 46, 322), (GOLD, ROSE, GREEN, BLUE, TEAL)[_SHELF.index(name)], radius=6)
        canvas.text((x, 276), name, size=26)
    return canvas
