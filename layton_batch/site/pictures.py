"""Pictures of charts: drawn if their data changed since the site before, else taken from that site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from layton_batch import drawing
from layton_batch.drawing import BAND, BLUE, GRID, INK, SOFT
from layton_batch.errors import file_error
from layton_batch.site.board_charts import Chart
from layton_batch.site.pages import safe_html

FOLDER = "charts"
SHARED = "share"
"""Name of the picture that stands for the board where its address is shared."""
_COLOURS = {
    "white": "var(--paper)", "#000": "var(--ink)", INK: "var(--ink)", GRID: "var(--rule)", BLUE: "var(--accent)",
    BAND: "var(--band)", SOFT: "var(--soft)",
}  # fmt: skip
"""Variables of the page's style sheet, light or dark, that replace colours of the file."""


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """A chart with its pictures for a page: ``wide``, and ``narrow`` for a phone, where that is another."""

    chart: Chart
    wide: Markup
    narrow: Markup


def draw_charts(charts: Sequence[Chart], shared: str, site: Path, earlier: Path) -> list[DrawnChart]:
    """Write the files of each chart: its data as JSON, SVG and PNG. Raises FileError.

    ``shared``: the document of the picture for shared addresses; ``earlier``: the site before, or a folder without one.
    """
    try:
        (site / FOLDER).mkdir()
        _picture(site, earlier, SHARED, shared)
        return [_drawn(chart, site, earlier) for chart in charts]
    except OSError as error:
        raise file_error(f"cannot write {site / FOLDER}: {error.strerror or error}", error) from error


def _drawn(chart: Chart, site: Path, earlier: Path) -> DrawnChart:
    pictures = {
        ending: _picture(site, earlier, chart.name + ending, document) for ending, document in chart.forms.items()
    }
    wide, narrow = pictures.get("-page", pictures[""]), pictures.get("-narrow")
    return DrawnChart(chart, _inline(chart, wide), _inline(chart, narrow) if narrow else Markup())


def _inline(chart: Chart, picture: str) -> Markup:
    drawn = drawing.recoloured(picture, _COLOURS, chart.title, chart.marks, chart.chosen)
    return safe_html(drawn)


def _picture(site: Path, earlier: Path, name: str, document: str) -> str:
    """Write a picture with its data, and return it as SVG. One that is for pages alone has no PNG."""
    data, svg, png = (Path(FOLDER, f"{name}.{ending}") for ending in ("json", "svg", "png"))
    is_known = (
        all((earlier / path).is_file() for path in (data, svg)) and (earlier / data).read_text("utf-8") == document
    )
    picture = (earlier / svg).read_text("utf-8") if is_known else drawing.svg(document)
    (site / data).write_text(document, encoding="utf-8")
    (site / svg).write_text(picture, encoding="utf-8")
    if "-" not in name:
        is_drawn = is_known and (earlier / png).is_file()
        (site / png).write_bytes((earlier / png).read_bytes() if is_drawn else drawing.png(picture))
    return picture
