"""The charts of a board: what each shows, drawn by Altair from finished tables, for a page and as files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import altair as alt
from markupsafe import Markup

from layton_batch import drawing
from layton_batch.drawing import (
    BAND,
    BLUE,
    GRID,
    INK,
    LABEL,
    NAME,
    SOFT,
    Axis,
    Row,
    named_points,
    specification,
    table,
    titled,
)
from layton_batch.errors import file_error
from layton_batch.scoring.history import BoardSnapshot, snapshots
from layton_batch.site.board import Board, BoardRow
from layton_batch.site.item_rates import ItemRates, item_rates
from layton_batch.site.pages import short_line, small_money
from layton_batch.site.run_site import RunSite
from layton_batch.stats.distributions import two_sided_t_quantile
from layton_batch.text import shortened

WIDE, NARROW = (860, 360), (300, 300)
"""Pixels of the plotting area of a chart that has two forms: across a page, and on a phone."""
WIDTH, ROW_WIDTH, ROW_HEIGHT = 340, 250, 22
"""Pixels of the plotting area across, beside names too, and of one row: with its names a chart fits a phone."""
LONGEST_NAME = 24
MOST_MODELS, MOST_NAMES, MOST_LINES, MOST_AXES, MOST_COLUMNS = 200, 25, 5, 12, 24
"""Limits of a chart: models, names beside dots, lines that are shown at first, axes of a radar, columns of a grid."""
LEAST_AXES, LEAST_ITEMS = 5, 5
"""Least numbers for a radar: of categories, and of items in each."""
FOLDER = "charts"
SHARED = "share"
"""Name of the picture that stands for the board where its address is shared."""
_PAGE_COLOURS = {
    "white": "var(--paper)", "#000": "var(--ink)", INK: "var(--ink)", GRID: "var(--rule)", BLUE: "var(--accent)",
    BAND: "var(--band)", SOFT: "var(--soft)",
}  # fmt: skip
"""Variables of the page's style sheet, light or dark, that replace colours of the file."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart. ``name``: of its files; ``words``: what it shows, in a sentence or two; ``view``: of which target its
    scores are (``new`` or ``these``), empty where it has none.

    ``forms``: Vega-Lite documents by ending of the file's name: ``""`` is the chart as a file; ``-page`` has all models
    where the file has the first; ``-narrow`` is for a phone.
    ``legend``: name and colour of each model that a reader can choose; the first ``chosen`` of them are at first.
    ``marks``: their numbers by description. ``wide``, ``narrow``: its pictures for a page, once they are drawn.
    """

    name: str
    title: str
    words: str
    forms: Mapping[str, str]
    view: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    chosen: int = 0
    marks: Mapping[str, int] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)

    @property
    def wide(self) -> Markup:
        return self._inline(self.pictures.get("-page", self.pictures[""]))

    @property
    def narrow(self) -> Markup:
        """Return the picture for a phone; empty where the other one is for phones too."""
        return self._inline(self.pictures["-narrow"]) if "-narrow" in self.pictures else Markup()

    def _inline(self, picture: str) -> Markup:
        html = drawing.recoloured(picture, _PAGE_COLOURS, self.title, self.marks, self.chosen)
        return Markup(html)  # noqa: S704  an SVG element that ElementTree wrote


@dataclass(frozen=True, slots=True)
class _View:
    """For which target a chart's scores are: ``key`` on the page, what its files' names and its title say of it, and
    the column of the score. ``rows``: those of its board that have a score."""

    rows: Sequence[BoardRow]
    key: str = ""
    file: str = ""
    title: str = ""
    score: str = "score"
    has_hints: bool = False

    def name(self, row: BoardRow) -> str:
        """Return the model's name, with its hint level where there are several."""
        return row.model + f"@{row.hints}" * self.has_hints


_NO_VIEW = _View(())


def write_charts(site: RunSite, earlier: Path) -> list[Chart]:
    """Write the page of charts and the files of each chart.

    ``earlier``: the site before, whose pictures are taken where their data are the same. Raises FileError, and
    DamagedTableError for a table that cannot be read.
    """
    folder, building, board, here = site.folder, site.building, site.board, site.here
    views = [_view(board, "new", "", " (new items)"), _view(here, "these", "_this_set", " (this set)")] if here else []
    described = _describe(views or [_view(board)], item_rates(folder, board.metric), snapshots(folder.history))
    try:
        (building / FOLDER).mkdir()
        _draw(building, earlier, SHARED, _share_card(_view(board), site.title))
        drawn = [_drawn(chart, building, earlier) for chart in described]
    except OSError as error:
        raise file_error(f"cannot write {building / FOLDER}: {error.strerror or error}", error) from error
    site.write("charts.html", charts=drawn)
    return drawn


def _view(board: Board, key: str = "", file: str = "", title: str = "") -> _View:
    rows = [row for row in board.rows if row.number("score") is not None]
    return _View(rows, key, file, title, "set_score" if key == "these" else "score", board.has_hints)


def _describe(views: Sequence[_View], rates: ItemRates, boards: Sequence[BoardSnapshot]) -> list[Chart]:
    """Describe every chart for which the tables hold something; those of scores for each target."""
    words = f"Share right by {rates.corrected_judge}, the mean of all models"
    colours = {row.model: row.colour for row in views[0].rows}
    described: list[Chart | None] = [
        *map(_scores, views),
        *(_against(view, lambda row: row.usd, _COST) for view in views),
        *(_against(view, lambda row: row.tokens, _LENGTH) for view in views),
        _bars(rates.by_category, "categories", "Score by category", f"{words}."),
        _grid(colours, rates),
        _radar(colours, rates),
        _bars(rates.by_picarats, "difficulty", "Score by picarats", f"{words}, by how many picarats an item is worth."),
        _spread(rates),
        *map(_hints, views),
        *(_history(boards, view, colours) for view in views),
    ]
    return [chart for chart in described if chart is not None]


def _drawn(chart: Chart, site: Path, earlier: Path) -> Chart:
    pictures = {ending: _draw(site, earlier, chart.name + ending, form) for ending, form in chart.forms.items()}
    return replace(chart, pictures=pictures)


def _draw(site: Path, earlier: Path, name: str, document: str) -> str:
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


def _share_card(view: _View, title: str) -> str:
    """Describe the picture that stands for the board where its address is shared: the first models with intervals."""
    layers, size = _score_rows(replace(view, rows=view.rows[:8]), 380, 28)
    return _form(f"{title}: score with interval", layers, **size)


def _form(title: str, layers: Sequence[alt.Chart], *, width: int, height: int) -> str:
    return specification(titled(alt.LayerChart(layer=list(layers), width=width, height=height), title))


# ---- rows ----------------------------------------------------------------------------------------------------------


def _scores(view: _View) -> Chart:
    layers, size = _score_rows(view, ROW_WIDTH, ROW_HEIGHT)
    title = f"Scores with intervals{view.title}"
    form = _form(title, layers, **size)
    return Chart(f"scores{view.file}", title, "Score in percent; band: its interval.", {"": form}, view.key)


def _score_rows(view: _View, width: int, height: int) -> tuple[list[alt.Chart], dict[str, int]]:
    rows: list[Row] = [
        {
            "at": index,
            "name": shortened(view.name(row), LONGEST_NAME),
            "score": row.number("score"),
            "label": f"{view.name(row)}: {row.score}" + (f" ({row.ends[0]:.1f}–{row.ends[1]:.1f})" if row.ends else ""),
            "colour": row.colour,
            **dict(zip(("low", "high"), row.ends or (None, None), strict=True)),
        }
        for index, row in enumerate(view.rows[:MOST_MODELS])
    ]
    base = alt.Chart(table(rows)).encode(y=_row_axis(len(rows)), description=LABEL)
    x = alt.X("low:Q", title="Score (%)", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    layers = [
        base.transform_filter("datum.low !== null").mark_bar(color=BAND, height=10).encode(x=x, x2=alt.X2("high:Q")),
        base.mark_circle(size=60, opacity=1).encode(x=alt.X("score:Q"), color=alt.Color("colour:N", scale=None)),
        _row_names(base),
    ]
    return layers, {"width": width, "height": height * len(rows)}


def _bars(groups: Mapping[str, Sequence[float]], name: str, title: str, words: str) -> Chart | None:
    """Draw a bar a group of items: the mean of its rates, and the 95 % interval over items; hollow without one."""
    if len(groups) < 2:
        return None
    rows: list[Row] = []
    for index, (group, rates) in enumerate(list(groups.items())[:MOST_MODELS]):
        mean, half = 100 * sum(rates) / len(rates), _half_width(rates)
        low, high = (None, None) if half is None else (max(mean - half, 0), min(mean + half, 100))
        span = "" if low is None else f" ({low:.1f}–{high:.1f})"
        rows.append(
            {
                "at": index,
                "name": shortened(group, LONGEST_NAME),
                "mean": mean,
                "low": low,
                "high": high,
                "count": f"n = {len(rates):,}",
                "label": f"{group}: {mean:.1f} %{span} of {len(rates):,}",
            }
        )
    base = alt.Chart(table(rows)).encode(y=_row_axis(len(rows)))
    x = alt.X("mean:Q", title="Right (%)", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(tickCount=5))
    has_interval = "datum.low !== null"
    layers = [
        base.transform_filter(has_interval)
        .mark_bar(color=BAND, height=14, stroke=BAND, strokeWidth=1.5)
        .encode(x=x, description=LABEL),
        base.transform_filter(f"!({has_interval})")
        .mark_bar(color="white", height=14, stroke=BAND, strokeWidth=1.5)
        .encode(x=x, description=LABEL),
        base.transform_filter(has_interval)
        .mark_rule(color=SOFT, strokeWidth=1.5, aria=False)
        .encode(x="low:Q", x2=alt.X2("high:Q")),
        _row_names(base),
        base.mark_text(align="left", dx=8, color=INK).encode(x=alt.value(ROW_WIDTH), text=alt.Text("count:N")),
    ]
    words = f"{words} n: items. Thin line: 95 % interval over items of the kind; a hollow bar has none."
    return Chart(name, title, words, {"": _form(title, layers, width=ROW_WIDTH, height=ROW_HEIGHT * len(rows))})


def _half_width(rates: Sequence[float]) -> float | None:
    """Return half of the 95 % interval of the mean of rates, in percent; None where their spread tells nothing."""
    if len(set(rates)) < 2:
        return None
    mean = sum(rates) / len(rates)
    variance = sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1)
    return 100 * two_sided_t_quantile(0.95, len(rates) - 1) * math.sqrt(variance / len(rates))


def _row_axis(count: int) -> alt.Y:
    """Return the axis of rows by number: two models may be shown by the same shortened name."""
    return alt.Y("at:O", axis=None, scale=alt.Scale(domain=list(range(count))))


def _row_names(base: alt.Chart) -> alt.Chart:
    names: alt.Chart = base.mark_text(align="right", dx=-8, color=INK).encode(x=alt.value(0), text=NAME)
    return names


# ---- points --------------------------------------------------------------------------------------------------------


_COST = ("cost", "Score against cost", "US dollars an answer", "cheaper", small_money)
_LENGTH = ("tokens", "Score against length", "Output tokens an answer", "shorter", "{:,.0f}".format)
"""Names of a chart's file, of the chart, of its axis, and of what less of it is, and how its values are written."""


def _against(
    view: _View, quantity: Callable[[BoardRow], float | None], names: tuple[str, str, str, str, Callable[[float], str]]
) -> Chart | None:
    """Draw scores against a quantity."""
    points = [(value, row) for row in view.rows if (value := quantity(row) or 0) > 0][:MOST_MODELS]
    if len(points) < 2:
        return None
    name, title, axis, less, text = names
    values, scores = [value for value, _ in points], [row.number("score") or 0.0 for _, row in points]
    labels = [f"{view.name(row)}: {row.score}, {text(value)}" for value, row in points]
    rows: list[Row] = [
        {"x": value, "y": score, "name": view.name(row) * (at < MOST_NAMES), "label": label, "colour": row.colour}
        for at, ((value, row), score, label) in enumerate(zip(points, scores, labels, strict=True))
    ]
    front = pareto(list(zip(values, scores, strict=True)))
    room = max((max(scores) - min(scores)) * 0.05, 0.5)
    forms = {}
    for ending, (width, height) in {"": WIDE, "-narrow": NARROW}.items():
        across = Axis(axis, min(values) / 1.4, max(values) * 1.4, width, log=True)
        up = Axis("Score (%)", min(scores) - room, max(scores) + room, height)
        corners = alt.Chart(table([{"x": x, "y": y} for x, y in front])).encode(x=across.x(), y=up.y())
        line = corners.mark_line(color=BLUE, strokeWidth=1.5, strokeDash=[4, 3], aria=False)
        layers = [line, *named_points(rows, across, up, front)]
        forms[ending] = _form(title + view.title, layers, width=width, height=height)
    words = f"The broken line joins the models that no {less} one beats. The scale across is logarithmic."
    if len(points) > MOST_NAMES:
        words += f" Names of the first {MOST_NAMES} models; the legend has all."
    legend = tuple((view.name(row), row.colour) for _, row in points)
    marks = {label: at for at, label in enumerate(labels)}
    return Chart(name + view.file, title + view.title, words, forms, view.key, legend, len(points), marks)


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no point with less of the first value equals or beats in the second."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front


# ---- categories and items ------------------------------------------------------------------------------------------


def _grid(models: Mapping[str, str], rates: ItemRates) -> Chart | None:
    """Draw how each model does in each category, as a grid of shares."""
    columns = [name for name in models if name in rates.by_model][:MOST_COLUMNS]
    categories = list(rates.by_category)[:MOST_MODELS]
    if len(columns) < 2 or len(categories) < 2:
        return None
    cells: list[Row] = [
        {
            "at": row, "column": column, "share": 100 * share, "text": f"{100 * share:.0f}",
            "label": f"{model}, {category}: {100 * share:.1f} % of {len(rates.by_category[category]):,}",
        }
        for column, model in enumerate(columns)
        for row, category in enumerate(categories)
        if (share := rates.by_model[model].get(category)) is not None
    ]  # fmt: skip
    names: list[Row] = [
        {"at": row, "name": f"{shortened(category, LONGEST_NAME)} ({len(rates.by_category[category]):,})"}
        for row, category in enumerate(categories)
    ]
    heads: list[Row] = [{"column": at, "name": shortened(model, LONGEST_NAME)} for at, model in enumerate(columns)]
    x = alt.X("column:O", axis=None, scale=alt.Scale(domain=list(range(len(columns)))))
    base = alt.Chart(table(cells)).encode(x=x, y=_row_axis(len(categories)))
    shade = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 100], range=[0.06, 1]), legend=None)
    layers = [
        base.mark_rect(color=BAND, stroke="white", strokeWidth=2).encode(opacity=shade, description=LABEL),
        base.mark_text(color=INK, fontSize=10, aria=False).encode(text=alt.Text("text:N")),
        _row_names(alt.Chart(table(names)).encode(y=_row_axis(len(categories)))),
        alt.Chart(table(heads)).mark_text(align="left", angle=315, dx=4, dy=-6, color=INK)
        .encode(x=x, y=alt.value(0), text=NAME),
    ]  # fmt: skip
    title = "Score by category and model"
    words = (
        f"Share right in percent by {rates.corrected_judge}; in brackets: items of the category. Few items say little."
    )
    if len(models) > len(columns):
        words += f" The first {len(columns)} models."
    size = {"width": max(30 * len(columns), 120), "height": ROW_HEIGHT * len(categories)}
    return Chart("grid", title, words, {"": _form(title, layers, **size)})


def _radar(models: Mapping[str, str], rates: ItemRates) -> Chart | None:
    axes = [name for name, shares in rates.by_category.items() if len(shares) >= LEAST_ITEMS][:MOST_AXES]
    names = [name for name in models if name in rates.by_model][:MOST_MODELS]
    if len(axes) < LEAST_AXES or not names:
        return None
    turns = [2 * math.pi * index / len(axes) for index in range(len(axes))]

    def ring(name: str, shares: Sequence[float], label: str = "") -> list[Row]:
        corners = [*zip(shares, turns, strict=True), (shares[0], turns[0])]
        return [
            {"x": share * math.sin(turn), "y": share * math.cos(turn), "name": name, "order": order, "label": label}
            for order, (share, turn) in enumerate(corners)
        ]

    shares = {name: [rates.by_model[name].get(axis, 0.0) for axis in axes] for name in names}
    labels = {
        name: f"{name}: " + ", ".join(f"{axis} {share:.0%}" for axis, share in zip(axes, shares[name], strict=True))
        for name in names
    }
    web = [row for part in (0.25, 0.5, 0.75, 1.0) for row in ring(f"{part}", [part] * len(axes))]
    rim: list[Row] = [
        {**corner, "name": shortened(axis, 16), "side": _side(turn)}
        for corner, axis, turn in zip(ring("", [1.08] * len(axes)), axes, turns, strict=False)
    ]
    x, y = (alt.X("x:Q", axis=None, scale=_ROUND), alt.Y("y:Q", axis=None, scale=_ROUND))
    rims = alt.Chart(table(rim)).encode(x=x, y=y, text=NAME)
    web_lines = alt.Chart(table(web)).mark_line(color=GRID, strokeWidth=1, aria=False)
    under = [
        web_lines.encode(x=x, y=y, detail=alt.Detail("name:N"), order=alt.Order("order:Q")),
        *(
            rims.transform_filter(f"datum.side === '{side}'").mark_text(align=side, color=INK)
            for side in ("left", "center", "right")
        ),
    ]
    words = (
        f"Share right by {rates.corrected_judge}, from 0 in the middle to 100 % at the rim. Categories of at least "
        f"{LEAST_ITEMS} items."
    )
    rows = [row for name in names for row in ring(name, shares[name], labels[name])]
    order = alt.Order("order:Q")
    return _line_chart(
        "radar", "Categories by model", words, rows, labels, models, under, width=240, height=240, x=x, y=y, order=order
    )


_ROUND = alt.Scale(domain=[-1.15, 1.15], nice=False)


def _side(turn: float) -> str:
    """Return the alignment of a name at the rim, so that the name grows away from the web."""
    if abs(math.sin(turn)) < 0.2:
        return "center"
    return "left" if math.sin(turn) > 0 else "right"


def _spread(rates: ItemRates) -> Chart | None:
    """Draw how many items which share of the models got right."""
    if len(rates.by_item) < 2:
        return None
    counts = [0] * 10
    for rate in rates.by_item:
        counts[min(int(rate * 10), 9)] += 1
    rows: list[Row] = [
        {"low": 10 * index, "high": 10 * index + 10, "count": count, "label": f"{count:,} items"}
        for index, count in enumerate(counts)
    ]
    x = alt.X("low:Q", title="Models right (%)", scale=alt.Scale(domain=[0, 100]))
    y = alt.Y("count:Q", title="Items", axis=alt.Axis(tickMinStep=1))
    bars = alt.Chart(table(rows)).mark_bar(color=BAND, stroke="white", strokeWidth=2)
    layers = [bars.encode(x=x, x2=alt.X2("high:Q"), y=y, y2=alt.Y2Datum(0), description=LABEL)]
    title = "Items by how many models get them right"
    words = f"Items (up) by the share of models that are right, by {rates.judge} (across)."
    return Chart("items", title, words, {"": _form(title, layers, width=WIDTH, height=200)})


# ---- lines ---------------------------------------------------------------------------------------------------------


def _line_chart(
    name: str,
    title: str,
    words: str,
    rows: Sequence[Row],
    labels: Mapping[str, str],
    colours: Mapping[str, str],
    under: Sequence[alt.Chart] = (),
    view: _View = _NO_VIEW,
    *,
    width: int,
    height: int,
    **encoding: Any,
) -> Chart:
    """Draw a line for each model: the first ones with a legend for the file, and all for the page, where a reader
    chooses.

    ``rows``: the points, with ``name`` and ``label``; ``labels``: a line's description by name, in the legend's order;
    ``encoding``: where the points are.
    """
    names, title = list(labels), title + view.title
    first = names[:MOST_LINES]

    def lines(shown: Sequence[str], legend: alt.Legend | None) -> alt.Chart:
        scale = alt.Scale(domain=list(shown), range=[colours.get(model, BLUE) for model in shown])
        colour = alt.Color("name:N", scale=scale, legend=legend)
        chart = alt.Chart(table([row for row in rows if row["name"] in set(shown)])).mark_line(strokeWidth=2)
        encoded: alt.Chart = chart.encode(color=colour, description=LABEL, **encoding)
        return encoded

    place = alt.Legend(title=None, orient="bottom", columns=2, labelLimit=180, symbolType="stroke", symbolStrokeWidth=3)
    left_out = f" The file has the first {len(first)} of {len(names)} models." if len(names) > len(first) else ""
    forms = {
        "": _form(title, [*under, lines(first, place)], width=width, height=height),
        "-page": _form(title, [*under, lines(names, None)], width=width, height=height),
    }
    legend = tuple((model, colours.get(model, BLUE)) for model in names)
    marks = {label: at for at, label in enumerate(labels.values())}
    return Chart(name + view.file, title, words + left_out, forms, view.key, legend, len(first), marks)


def _score_axis() -> alt.Y:
    return alt.Y("score:Q", title="Score (%)", scale=alt.Scale(zero=False))


def _hints(view: _View) -> Chart | None:
    """Draw scores by hint level, of the models that were asked at several levels."""
    points: dict[str, dict[int, float]] = {}
    for row in view.rows:
        points.setdefault(row.model, {})[row.hints] = row.number("score") or 0.0
    several = {name: sorted(levels.items()) for name, levels in points.items() if len(levels) > 1}
    if not several:
        return None
    labels = {
        name: f"{name}: " + ", ".join(f"{score:.1f} with {hints}" for hints, score in levels)
        for name, levels in list(several.items())[:MOST_MODELS]
    }
    rows: list[Row] = [
        {"name": name, "hints": hints, "score": score, "label": label}
        for name, label in labels.items()
        for hints, score in several[name]
    ]
    x = alt.X("hints:O", title="Hints", axis=alt.Axis(labelAngle=0))
    words = "Scores of models by how many hints they were given. Elsewhere, @1 behind a name is 1 hint."
    colours = {row.model: row.colour for row in view.rows}
    return _line_chart(
        "hints", "Scores by hints", words, rows, labels, colours, view=view, width=WIDTH, height=240, x=x,
        y=_score_axis(),
    )  # fmt: skip


def _history(boards: Sequence[BoardSnapshot], view: _View, colours: Mapping[str, str]) -> Chart | None:
    if len(boards) < 2 or boards[-1].at <= boards[0].at:
        return None
    today = dict([(name, row) for name, row in boards[-1].lines() if row[view.score] is not None][:MOST_MODELS])
    points: dict[str, list[tuple[int, float]]] = {name: [] for name in today}
    for snapshot in boards:
        for name, row in snapshot.lines():
            if name in points and (score := row[view.score]) is not None:
                points[name].append((_milliseconds(snapshot), score))
    if not points:
        return None
    labels = {
        short_line(name): f"{short_line(name)}: " + ", ".join(f"{score:.1f}" for _, score in over_time)
        for name, over_time in points.items()
    }
    rows: list[Row] = [
        {"name": short_line(name), "at": at, "score": score, "label": labels[short_line(name)]}
        for name, over_time in points.items()
        for at, score in over_time
    ]
    ends = [_milliseconds(boards[0]), _milliseconds(boards[-1])]
    axis = alt.Axis(values=ends, format="%Y-%m-%d", labelFlush=True, grid=False)
    x = alt.X("at:T", title=None, scale=alt.Scale(type="utc", domain=ends), axis=axis)
    words = "Scores of today’s models on each board that the run ended with."
    by_name = {short_line(name): colours.get(short_line(row["model"]), BLUE) for name, row in today.items()}
    return _line_chart(
        "history", "Scores over refreshes", words, rows, labels, by_name, view=view, width=WIDTH, height=240, x=x,
        y=_score_axis(),
    )  # fmt: skip


def _milliseconds(snapshot: BoardSnapshot) -> int:
    return round(1000 * snapshot.at)
