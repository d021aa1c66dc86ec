"""The charts of a board: what each shows, drawn by Altair from finished tables, for a page and as files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import altair as alt
import polars as pl
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
    layered,
    named_points,
    row_axis,
    row_names,
    scores_with_intervals,
    specification,
    table,
    titled,
)
from layton_batch.errors import file_error
from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.history import BoardSnapshot, snapshots
from layton_batch.scoring.judge_quality import read_record
from layton_batch.site import run_tables
from layton_batch.site.board import Board, BoardRow, RunSite
from layton_batch.site.pages import short_line, small_money
from layton_batch.site.run_tables import METRICS
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
_VIEWS = {"": ("", ""), "new": ("", " (new items)"), "these": ("_this_set", " (this set)")}
"""Ends of the name of a chart's files, and of its title, by the key of a target."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart. ``name``: of its files; ``words``: what it shows, in a sentence or two; ``view``: of which target its
    scores are (``new`` or ``these``), empty where it has none.

    ``forms``: drawings by ending of the file's name: ``""`` is the chart as a file; ``-page`` has all models where the
    file has the first; ``-narrow`` is for a phone.
    ``legend``: name and colour of each model that a reader can choose; the first ``chosen`` of them are at first.
    ``marks``: their numbers by description. ``wide``, ``narrow``: its pictures for a page, once they are drawn.
    """

    name: str
    title: str
    words: str
    forms: Mapping[str, alt.LayerChart]
    legend: Sequence[tuple[str, str]] = ()
    chosen: int = 0
    marks: Mapping[str, int] = field(default_factory=dict)
    view: str = ""
    pictures: Mapping[str, str] = field(default_factory=dict)

    @property
    def wide(self) -> Markup:
        return self._inline(self.pictures.get("-page", self.pictures[""]))

    @property
    def narrow(self) -> Markup:
        """Return the picture for a phone, of a chart that has one."""
        return self._inline(self.pictures["-narrow"])

    def _inline(self, picture: str) -> Markup:
        html = drawing.recoloured(picture, _PAGE_COLOURS, self.title, self.marks, self.chosen)
        return Markup(html)  # noqa: S704  an SVG element that ElementTree wrote


def write_charts(site: RunSite, earlier: Path) -> list[Chart]:
    """Write the page of charts and the files of each chart.

    ``earlier``: the site before, whose pictures are taken where their data are the same. Raises FileError, and
    DamagedTableError for a table that cannot be read.
    """
    building = site.building

    def draw(name: str, title: str, form: alt.LayerChart) -> str:
        return _draw(building, earlier, name, specification(titled(form, title)))

    charts = list(_charts(site))
    try:
        (building / FOLDER).mkdir()
        draw(SHARED, f"{site.title}: score with interval", _scores(site.board, 8, 380, 28).forms[""])
        drawn = [
            replace(
                chart, pictures={end: draw(chart.name + end, chart.title, form) for end, form in chart.forms.items()}
            )
            for chart in charts
        ]
    except OSError as error:
        raise file_error(f"cannot write {building / FOLDER}: {error.strerror or error}", error) from error
    site.write("charts.html", charts=drawn)
    return drawn


def _charts(site: RunSite) -> Iterator[Chart]:
    """Yield every chart for which the tables hold something; those of scores for each target."""
    board, here = site.board, site.here
    rates, boards = item_rates(site.folder, board.metric), snapshots(site.folder.history)
    colours = {row.model: row.colour for row in _scored(board)}
    words = f"Share right by {rates.judge}, the mean of all models"

    def on_each(draw: Callable[[Board], Chart | None]) -> Iterator[Chart | None]:
        for key, shown in {"new": board, "these": here}.items() if here else (("", board),):
            chart = draw(shown)
            file, title = _VIEWS[key]
            yield chart and replace(chart, name=chart.name + file, title=chart.title + title, view=key)

    described = [
        *on_each(_scores),
        *(chart for quantity in _QUANTITIES for chart in on_each(lambda shown: _against(shown, *quantity))),  # noqa: B023
        _bars(rates.by_category, "categories", "Score by category", f"{words}."),
        _grid(colours, rates),
        _radar(colours, rates),
        _bars(rates.by_picarats, "difficulty", "Score by picarats", f"{words}, by how many picarats an item is worth."),
        *on_each(_hints),
        *on_each(lambda shown: _history(boards, "set_score" if shown is here else "score", colours)),
    ]
    yield from (chart for chart in described if chart)


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


def _scored(board: Board) -> list[BoardRow]:
    return [row for row in board.rows if row.number("score") is not None]


# ---- rows ----------------------------------------------------------------------------------------------------------


def _scores(board: Board, most: int = MOST_MODELS, width: int = ROW_WIDTH, height: int = ROW_HEIGHT) -> Chart:
    rows: list[Row] = [
        {
            "at": at,
            "name": shortened(board.name(row), LONGEST_NAME),
            "score": row.number("score"),
            "label": f"{board.name(row)}: {row.score}"
            + (f" ({row.ends[0]:.1f}–{row.ends[1]:.1f})" if row.ends else ""),
            "colour": row.colour,
            **dict(zip(("low", "high"), row.ends or (None, None), strict=True)),
        }
        for at, row in enumerate(_scored(board)[:most])
    ]
    form = scores_with_intervals(rows, width, height)
    return Chart("scores", "Scores with intervals", "Score in percent; band: its interval.", {"": form})


def _bars(groups: Mapping[str, Sequence[float]], name: str, title: str, words: str) -> Chart | None:
    """Draw a bar a group of items: the mean of its rates, and the 95 % interval over items; hollow without one."""
    if len(groups) < 2:
        return None
    rows: list[Row] = []
    for at, (group, rates) in enumerate(list(groups.items())[:MOST_MODELS]):
        right, low, high, span = 100 * mean(rates), None, None, ""
        if len(set(rates)) > 1:  # a spread of nothing tells nothing
            half = 100 * two_sided_t_quantile(0.95, len(rates) - 1) * stdev(rates) / math.sqrt(len(rates))
            low, high = max(right - half, 0), min(right + half, 100)
            span = f" ({low:.1f}–{high:.1f})"
        label = f"{group}: {right:.1f} %{span} of {len(rates):,}"
        rows.append({"at": at, "name": shortened(group, LONGEST_NAME), "mean": right, "low": low, "high": high,
                     "count": f"n = {len(rates):,}", "label": label})  # fmt: skip
    base = alt.Chart(table(rows)).encode(y=row_axis(len(rows)))
    x = alt.X("mean:Q", title="Right (%)", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(tickCount=5))
    has_interval = "datum.low !== null"
    fill = alt.condition(has_interval, alt.value(BAND), alt.value("white"))
    layers = [
        base.mark_bar(height=14, stroke=BAND, strokeWidth=1.5).encode(x=x, description=LABEL, fill=fill),
        base.transform_filter(has_interval).mark_rule(color=SOFT, strokeWidth=1.5, aria=False)
        .encode(x="low:Q", x2=alt.X2("high:Q")),
        row_names(base),
        base.mark_text(align="left", dx=8, color=INK).encode(x=alt.value(ROW_WIDTH), text=alt.Text("count:N")),
    ]  # fmt: skip
    words += " n: items. Thin line: 95 % interval over items of the kind; a hollow bar has none."
    return Chart(name, title, words, {"": layered(layers, ROW_WIDTH, ROW_HEIGHT * len(rows))})


# ---- points --------------------------------------------------------------------------------------------------------

_QUANTITIES = (
    ("cost", "Score against cost", "US dollars an answer", "cheaper", attrgetter("usd"), small_money),
    ("tokens", "Score against length", "Output tokens an answer", "shorter", attrgetter("tokens"), "{:,.0f}".format),
)


def _against(
    board: Board, name: str, title: str, axis: str, less: str, quantity: Callable[[BoardRow], float | None],
    text: Callable[[float], str],
) -> Chart | None:  # fmt: skip
    """Draw scores against a quantity, of which ``less`` is the word for less."""
    points = [(value, row) for row in _scored(board) if (value := quantity(row) or 0) > 0][:MOST_MODELS]
    if len(points) < 2:
        return None
    rows: list[Row] = [
        {
            "x": value,
            "y": row.number("score"),
            "name": board.name(row) * (at < MOST_NAMES),
            "label": f"{board.name(row)}: {row.score}, {text(value)}",
            "colour": row.colour,
        }
        for at, (value, row) in enumerate(points)
    ]
    values, scores = zip(*((value, row.number("score") or 0.0) for value, row in points), strict=True)
    front = pareto(list(zip(values, scores, strict=True)))
    room = max((max(scores) - min(scores)) * 0.05, 0.5)
    forms = {}
    for ending, (width, height) in {"": WIDE, "-narrow": NARROW}.items():
        across = Axis(axis, min(values) / 1.4, max(values) * 1.4, width, log=True)
        up = Axis("Score (%)", min(scores) - room, max(scores) + room, height)
        corners = alt.Chart(table([{"x": x, "y": y} for x, y in front])).encode(x=across.x(), y=up.y())
        line = corners.mark_line(color=BLUE, strokeWidth=1.5, strokeDash=[4, 3], aria=False)
        forms[ending] = layered([line, *named_points(rows, across, up, front)], width, height)
    joined = f"The broken line joins the models that no {less} one beats. " if len(front) > 1 else ""
    words = f"{joined}The scale across is logarithmic."
    if len(points) > MOST_NAMES:
        words += f" Names of the first {MOST_NAMES} models; the legend has all."
    legend = [(board.name(row), row.colour) for _, row in points]
    marks = {str(row["label"]): at for at, row in enumerate(rows)}
    return Chart(name, title, words, forms, legend, len(points), marks)


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
    counts = {category: f"{len(rates.by_category[category]):,}" for category in categories}
    cells: list[Row] = [
        {"at": row, "column": column, "share": 100 * share, "text": f"{100 * share:.0f}",
         "label": f"{model}, {category}: {100 * share:.1f} % of {counts[category]}"}
        for column, model in enumerate(columns)
        for row, category in enumerate(categories)
        if (share := rates.by_model[model].get(category)) is not None
    ]  # fmt: skip
    names: list[Row] = [
        {"at": row, "name": f"{shortened(category, LONGEST_NAME)} ({count})"}
        for row, (category, count) in enumerate(counts.items())
    ]
    heads: list[Row] = [{"column": at, "name": shortened(model, LONGEST_NAME)} for at, model in enumerate(columns)]
    x = alt.X("column:O", axis=None, scale=alt.Scale(domain=list(range(len(columns)))))
    base = alt.Chart(table(cells)).encode(x=x, y=row_axis(len(categories)))
    shade = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 100], range=[0.06, 1]), legend=None)
    layers = [
        base.mark_rect(color=BAND, stroke="white", strokeWidth=2).encode(opacity=shade, description=LABEL),
        base.mark_text(color=INK, fontSize=10, aria=False).encode(text=alt.Text("text:N")),
        row_names(alt.Chart(table(names)).encode(y=row_axis(len(categories)))),
        alt.Chart(table(heads)).mark_text(align="left", angle=315, dx=4, dy=-6, color=INK)
        .encode(x=x, y=alt.value(0), text=NAME),
    ]  # fmt: skip
    words = f"Share right in percent by {rates.judge}; in brackets: items of the category. Few items say little."
    words += f" The first {len(columns)} models." * (len(models) > len(columns))
    form = layered(layers, max(30 * len(columns), 120), ROW_HEIGHT * len(categories))
    return Chart("grid", "Score by category and model", words, {"": form})


def _radar(models: Mapping[str, str], rates: ItemRates) -> Chart | None:
    axes = [name for name, shares in rates.by_category.items() if len(shares) >= LEAST_ITEMS][:MOST_AXES]
    names = [name for name in models if name in rates.by_model][:MOST_MODELS]
    if len(axes) < LEAST_AXES or not names:
        return None
    turns = [2 * math.pi * at / len(axes) for at in range(len(axes))]

    def ring(shares: Sequence[float]) -> list[Row]:
        """Place a corner on each axis, and the first once more."""
        corners = [*zip(shares, turns, strict=True), (shares[0], turns[0])]
        return [
            {"x": share * math.sin(turn), "y": share * math.cos(turn), "order": order}
            for order, (share, turn) in enumerate(corners)
        ]

    web = [{**corner, "name": f"{part}"} for part in (0.25, 0.5, 0.75, 1.0) for corner in ring([part] * len(axes))]
    rim = [
        {**corner, "name": shortened(axis, 16), "side": _side(turn)}
        for corner, axis, turn in zip(ring([1.08] * len(axes)), axes, turns, strict=False)
    ]
    scale = alt.Scale(domain=[-1.15, 1.15], nice=False)
    place = {"x": alt.X("x:Q", axis=None, scale=scale), "y": alt.Y("y:Q", axis=None, scale=scale)}
    order = alt.Order("order:Q")
    under = [
        alt.Chart(table(web)).mark_line(color=GRID, strokeWidth=1, aria=False)
        .encode(detail=alt.Detail("name:N"), order=order, **place),
        alt.Chart(table(rim)).mark_text(align=alt.expr("datum.side"), color=INK)
        .encode(text=NAME, **place),
    ]  # fmt: skip
    words = (
        f"Share right by {rates.judge}, from 0 in the middle to 100 % at the rim. Categories of at least "
        f"{LEAST_ITEMS} items."
    )
    lines: dict[str, tuple[str, list[Row]]] = {}
    for name in names:
        shares = [rates.by_model[name].get(axis, 0.0) for axis in axes]
        texts = (f"{axis} {share:.0%}" for axis, share in zip(axes, shares, strict=True))
        lines[name] = ", ".join(texts), ring(shares)
    return _lines("radar", "Categories by model", words, lines, models, under, 240, order=order, **place)


def _side(turn: float) -> str:
    """Return the alignment of a name at the rim, so that the name grows away from the web."""
    if abs(math.sin(turn)) < 0.2:
        return "center"
    return "left" if math.sin(turn) > 0 else "right"


# ---- lines ---------------------------------------------------------------------------------------------------------


def _lines(
    name: str,
    title: str,
    words: str,
    lines: Mapping[str, tuple[str, Sequence[Row]]],
    colours: Mapping[str, str],
    under: Sequence[alt.Chart] = (),
    width: int = WIDTH,
    **encoding: Any,
) -> Chart:
    """Draw a line for each model: the first ones with a legend for the file, and all for the page, where a reader
    chooses.

    ``lines``: the description and the points of each line, in the legend's order; ``encoding``: where the points are.
    """
    labels = {model: f"{model}: {text}" for model, (text, _) in lines.items()}
    legend = [(model, colours.get(model, BLUE)) for model in lines]

    def form(shown: Sequence[tuple[str, str]], key: alt.Legend | None) -> alt.LayerChart:
        scale = alt.Scale(domain=[model for model, _ in shown], range=[colour for _, colour in shown])
        rows = [{**point, "name": model, "label": labels[model]} for model, _ in shown for point in lines[model][1]]
        chart = alt.Chart(table(rows)).mark_line(strokeWidth=2)
        colour = alt.Color("name:N", scale=scale, legend=key)
        return layered([*under, chart.encode(color=colour, description=LABEL, **encoding)], width, 240)

    first = legend[:MOST_LINES]
    key = alt.Legend(title=None, orient="bottom", columns=2, labelLimit=180, symbolType="stroke", symbolStrokeWidth=3)
    words += f" The file has the first {len(first)} of {len(lines)} models." * (len(lines) > len(first))
    marks = {label: at for at, label in enumerate(labels.values())}
    return Chart(name, title, words, {"": form(first, key), "-page": form(legend, None)}, legend, len(first), marks)


def _score_axis() -> alt.Y:
    return alt.Y("score:Q", title="Score (%)", scale=alt.Scale(zero=False))


def _hints(board: Board) -> Chart | None:
    """Draw scores by hint level, of the models that were asked at several levels."""
    points: dict[str, dict[int, float]] = {}
    for row in _scored(board):
        points.setdefault(row.model, {})[row.hints] = row.number("score") or 0.0
    several = {name: sorted(levels.items()) for name, levels in points.items() if len(levels) > 1}
    if not several:
        return None
    lines: dict[str, tuple[str, list[Row]]] = {
        name: (
            ", ".join(f"{score:.1f} with {hints}" for hints, score in levels),
            [{"hints": hints, "score": score} for hints, score in levels],
        )
        for name, levels in list(several.items())[:MOST_MODELS]
    }
    x = alt.X("hints:O", title="Hints", axis=alt.Axis(labelAngle=0))
    words = "Scores of models by how many hints they were given. Elsewhere, @1 behind a name is 1 hint."
    colours = {row.model: row.colour for row in board.rows}
    return _lines("hints", "Scores by hints", words, lines, colours, x=x, y=_score_axis())


def _history(boards: Sequence[BoardSnapshot], column: str, colours: Mapping[str, str]) -> Chart | None:
    """Draw the scores of today's models on each board. ``column``: of the score."""
    if len(boards) < 2 or boards[-1].at <= boards[0].at:
        return None
    today = dict([(name, row) for name, row in boards[-1].lines() if row[column] is not None][:MOST_MODELS])
    points: dict[str, list[Row]] = {name: [] for name in today}
    for snapshot in boards:
        for name, row in snapshot.lines():
            if name in points and row[column] is not None:
                points[name].append({"at": _milliseconds(snapshot), "score": row[column]})
    if not points:
        return None
    lines = {short_line(name): (", ".join(f"{point['score']:.1f}" for point in over_time), over_time)
             for name, over_time in points.items()}  # fmt: skip
    ends = [_milliseconds(boards[0]), _milliseconds(boards[-1])]
    axis = alt.Axis(values=ends, format="%Y-%m-%d", labelFlush=True, grid=False)
    x = alt.X("at:T", title=None, scale=alt.Scale(type="utc", domain=ends), axis=axis)
    words = "Scores of today’s models on each board that the run ended with."
    by_name = {short_line(name): colours.get(short_line(row["model"]), BLUE) for name, row in today.items()}
    return _lines("history", "Scores over refreshes", words, lines, by_name, x=x, y=_score_axis())


def _milliseconds(snapshot: BoardSnapshot) -> int:
    return round(1000 * snapshot.at)


# ---- rates of right items ------------------------------------------------------------------------------------------

_ANSWER = ("item_id", "model", "n_hints", "sample")


@dataclass(frozen=True, slots=True)
class ItemRates:
    """Shares from 0 to 1. ``by_category``, ``by_picarats``: a mean over models for each item of the group;
    ``by_model``: model, category, mean over items. ``judge``: who says what is right.
    """

    judge: str
    by_category: Mapping[str, Sequence[float]]
    by_picarats: Mapping[str, Sequence[float]]
    by_model: Mapping[str, Mapping[str, float]]


def item_rates(folder: RunFolder, metric: str) -> ItemRates:
    """Read the shares from the scores. Never judged counts as wrong.

    Where there are labels, a vote counts as often as people say right at that vote, and a labelled answer by its label.
    """
    columns = (*_ANSWER, "metric", "yes", "total", "vote")
    scores = run_tables.table(folder, "scores", columns).filter(metric=metric)
    judge = "the rule" if scores.height and scores["total"].null_count() == scores.height else "the jury"
    share = pl.when(pl.col("total") > 0).then(pl.col("yes") / pl.col("total")).otherwise(pl.col("vote"))
    votes = scores.with_columns(share=share.fill_null(0.0).fill_nan(0.0).clip(0.0, 1.0))
    corrected = None if judge == "the rule" else _corrected(folder, votes, metric)
    worth = pl.col("payload").str.extract(r'"_picarats":\s*(\d+)', 1).cast(pl.Int64, strict=False)
    items = run_tables.table(folder, "items", ("item_id", "category", "payload"))
    items = items.select("item_id", "category", picarats=worth)
    best = (votes if corrected is None else corrected).join(items, on="item_id", how="left", maintain_order="left")
    by_item = best.group_by("item_id", "category", "picarats", maintain_order=True).agg(pl.col("share").mean())
    by_model: dict[str, dict[str, float]] = {}
    means = best.drop_nulls("category").group_by("model", "category", maintain_order=True).agg(pl.col("share").mean())
    for model, category, rate in means.iter_rows():
        by_model.setdefault(short_line(model), {})[short_line(category)] = rate
    return ItemRates(
        judge=judge if corrected is None else "the jury, corrected by people’s labels",
        by_category=_grouped(by_item, "category"),
        by_picarats=_grouped(by_item, "picarats"),
        by_model=by_model,
    )


def _corrected(folder: RunFolder, votes: pl.DataFrame, metric: str) -> pl.DataFrame | None:
    """Return the votes with other shares; None where no label says anything of the votes on this metric."""
    record = read_record(folder.tables)
    bins = () if record is None or record.diagnosis.metric != metric else record.diagnosis.bins
    # Jeffreys' estimate, as the intervals of the votes on the judges' page
    rows = [(vote.yes, vote.total, (vote.positives + 0.5) / (vote.labels + 1)) for vote in bins if vote.labels]
    if not rows:
        return None
    rates = pl.DataFrame(rows, {"yes": pl.Int64, "total": pl.Int64, "rate": pl.Float64}, orient="row")
    keys = (pl.col("n_hints").cast(pl.Int64).fill_null(0), pl.col("sample").cast(pl.Int64).fill_null(1))
    labels = run_tables.table(folder, "labels", (*_ANSWER, metric) if metric in METRICS else _ANSWER).with_columns(keys)
    label = pl.col(metric).cast(pl.Float64) if metric in METRICS else pl.lit(None, pl.Float64)
    labels = labels.select(*_ANSWER, label=label).unique(_ANSWER, maintain_order=True)
    votes = votes.with_columns(*keys, pl.col("yes").cast(pl.Int64), pl.col("total").cast(pl.Int64))
    rated = votes.join(rates.filter(pl.col("total") > 0), on=("yes", "total"), how="left", maintain_order="left")
    rated = rated.join(labels, on=_ANSWER, how="left", maintain_order="left")
    return rated.with_columns(share=pl.coalesce("label", "rate", "share"))


def _grouped(rates: pl.DataFrame, column: str) -> dict[str, list[float]]:
    shares: dict[str, list[float]] = {}
    for name, share in rates.drop_nulls(column).sort(column, maintain_order=True).select(column, "share").iter_rows():
        if name != "":
            shares.setdefault(short_line(name), []).append(share)
    return shares
