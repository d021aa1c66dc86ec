"""Charts of a board, drawn by Altair from finished tables: for a page, and as files that stand alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import altair as alt
from markupsafe import Markup

from layton_batch import drawing
from layton_batch.drawing import BLUE, GRID, INK, Axis, Row, named_points, table, titled
from layton_batch.makers import maker_colour
from layton_batch.scoring.history import BoardSnapshot
from layton_batch.site.item_rates import ItemRates
from layton_batch.site.model_facts import ModelFacts, small_money
from layton_batch.site.pages import short_line
from layton_batch.stats.distributions import two_sided_t_quantile
from layton_batch.text import shortened

WIDTH, ROW_WIDTH, ROW_HEIGHT = 340, 250, 22
"""Pixels of the plotting area across, beside names too, and of one row: with its names a chart fits a phone."""
LONGEST_NAME = 24
MOST_MODELS, MOST_NAMES, MOST_LINES, MOST_AXES = 200, 25, 5, 12
"""Limits of a chart: models, names beside dots, lines that are shown at first, categories."""
LEAST_AXES, LEAST_ITEMS = 3, 5
"""Least numbers for a radar: of categories, and of items in each. An interval needs as many items."""

BAND, RANGE = "#a9c6e6", "#8f949b"
LINES = (
    "#2f7de1", "#c15f3c", "#158a6b", "#b06a00", "#8664b8", "#b0557a", "#3f8590", "#8a7a25", "#77787c", "#5c8a00",
)  # fmt: skip
"""Colours of models where each is a line: they stand out from a white and from a black page."""
PAGE_COLOURS = {
    "white": "var(--paper)", "#000": "var(--ink)", INK: "var(--ink)", GRID: "var(--rule)", BLUE: "var(--accent)",
    BAND: "var(--band)", RANGE: "var(--soft)",
}  # fmt: skip
"""What the page's style sheet, light or dark, puts in the place of a colour of the file."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart. ``name``: of its files; ``words``: what it shows, in a sentence or two; ``svg``: the file; ``view``: of
    which target its scores are (``new`` or ``these``), empty where it has none.

    ``legend``: name and colour of each model that a reader can choose; the first ``chosen`` of them are at first.
    ``page``: the picture with all of them where the file has only those; ``marks``: their numbers by description.
    """

    name: str
    title: str
    words: str
    svg: str
    view: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    chosen: int = 0
    page: str = ""
    marks: Mapping[str, int] = field(default_factory=dict)

    @property
    def png(self) -> bytes:
        """Return the picture as PNG."""
        return drawing.png(self.svg)

    @property
    def inline(self) -> Markup:
        """The picture for a page, in the colours of the page's style sheet."""
        picture = self.page or self.svg
        drawn = drawing.recoloured(picture, PAGE_COLOURS, self.title, self.marks, self.chosen)
        return Markup(drawn)  # noqa: S704  a parsed SVG, written anew


@dataclass(frozen=True, slots=True)
class ChartModel:
    """A row of the board as charts need it, in percent; ``ends``: lower and upper, None where unknown."""

    name: str
    model: str
    hints: int
    score: float
    ends: tuple[float, float] | None
    usd: float | None
    tokens: float | None
    colour: str = BLUE


def standings(
    rows: Sequence[Mapping[str, object]], facts: Sequence[ModelFacts], colours: Mapping[str, str]
) -> list[ChartModel]:
    """Return the rows that have a score, in the board's order. ``colours``: the manifest's, by maker."""
    several = len({row["n_hints"] for row in rows}) > 1
    scored = []
    for row, fact in zip(rows, facts, strict=True):
        score = _number(row["score"])
        if score is None:
            continue
        name = short_line(row["model"]) + (f"@{row['n_hints']}" if several else "")
        hints = int(_number(row["n_hints"]) or 0)
        colour = maker_colour(fact.maker, colours)
        scored.append(
            ChartModel(name, short_line(row["model"]), hints, score, _ends(row), fact.usd, fact.tokens, colour)
        )
    return scored


@dataclass(frozen=True, slots=True)
class _View:
    """For which target a chart's scores are: ``key`` on the page, what its files' names and its title say of it, and
    the column of the score."""

    key: str
    file: str = ""
    title: str = ""
    score: str = "score"


_ONLY, _NEW = _View(""), _View("new", title=" (new items)")
_THESE = _View("these", "_this_set", " (this set)", "set_score")


def charts(
    board: Sequence[ChartModel], here: Sequence[ChartModel], rates: ItemRates, snapshots: Sequence[BoardSnapshot]
) -> list[Chart]:
    """Draw every chart for which the tables hold something; those of scores twice where there is the board ``here`` on
    this set beside that on new items."""
    if not board:
        return []
    views = [(_NEW, board), (_THESE, here)] if here else [(_ONLY, board)]
    words = f"Share right by {rates.corrected_judge}, the mean of all models"
    drawn: list[Chart | None] = [
        *(_scores(rows, view) for view, rows in views),
        *(_cost(rows, view) for view, rows in views),
        *(_tokens(rows, view) for view, rows in views),
        _bars(rates.by_category, "categories", "Score by category", f"{words}."),
        _radar(board, rates),
        _bars(rates.by_picarats, "difficulty", "Score by picarats", f"{words}, by how many picarats an item is worth."),
        _spread(rates),
        *(_hints(rows, view) for view, rows in views),
        *(_history(snapshots, view) for view, _ in views),
    ]
    return [chart for chart in drawn if chart is not None]


def _cost(board: Sequence[ChartModel], view: _View) -> Chart | None:
    axis = "US dollars an answer"
    return _against(board, view, "cost", "Score against cost", axis, lambda row: row.usd, small_money)


def _tokens(board: Sequence[ChartModel], view: _View) -> Chart | None:
    axis = "Output tokens an answer"
    return _against(board, view, "tokens", "Score against length", axis, lambda row: row.tokens, "{:,.0f}".format)


def _chart(
    name: str, title: str, words: str, layers: Sequence[alt.Chart | alt.LayerChart], view: _View = _ONLY, **size: int
) -> Chart:
    picture = titled(alt.LayerChart(layer=list(layers)).properties(**size), title + view.title)
    return Chart(name + view.file, title + view.title, words, drawing.svg(picture), view.key)


# ---- rows ----------------------------------------------------------------------------------------------------------


def _scores(board: Sequence[ChartModel], view: _View) -> Chart:
    rows: list[Row] = [
        {
            "at": index,
            "name": shortened(row.name, LONGEST_NAME),
            "score": row.score,
            "label": f"{row.name}: {row.score:.1f}" + (f" ({row.ends[0]:.1f}–{row.ends[1]:.1f})" if row.ends else ""),
            "colour": row.colour,
            **dict(zip(("low", "high"), row.ends or (None, None), strict=True)),
        }
        for index, row in enumerate(board[:MOST_MODELS])
    ]
    base = alt.Chart(table(rows)).encode(y=_row_axis(len(rows)), description="label:N")
    x = alt.X("low:Q", title="Score (%)", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    layers = [
        base.transform_filter("datum.low !== null").mark_bar(color=BAND, height=10).encode(x=x, x2="high:Q"),
        base.mark_circle(size=60, opacity=1).encode(x="score:Q", color=alt.Color("colour:N", scale=None)),
        _row_names(base),
    ]
    words = "Score in percent; band: its interval; colours: makers."
    size = {"width": ROW_WIDTH, "height": ROW_HEIGHT * len(rows)}
    return _chart("scores", "Scores with intervals", words, layers, view, **size)


def _bars(groups: Mapping[str, Sequence[float]], name: str, title: str, words: str) -> Chart | None:
    """Draw a bar a group of items: the mean of its rates, and the 95 % interval over items where there are enough."""
    if len(groups) < 2:
        return None
    rows: list[Row] = []
    for index, (group, rates) in enumerate(list(groups.items())[:MOST_MODELS]):
        mean = 100 * sum(rates) / len(rates)
        variance = sum((100 * rate - mean) ** 2 for rate in rates) / max(len(rates) - 1, 1)
        enough = len(rates) >= LEAST_ITEMS
        half = two_sided_t_quantile(0.95, len(rates) - 1) * math.sqrt(variance / len(rates)) if enough else 0.0
        rows.append(
            {
                "at": index,
                "name": shortened(group, LONGEST_NAME),
                "mean": mean,
                "low": max(mean - half, 0),
                "high": min(mean + half, 100),
                "count": f"n = {len(rates):,}",
                "label": f"{group}: {mean:.1f} % of {len(rates):,}",
            }
        )
    base = alt.Chart(table(rows)).encode(y=_row_axis(len(rows)))
    x = alt.X("mean:Q", title="Right (%)", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(tickCount=5))
    layers = [
        base.mark_bar(color=BAND, height=14).encode(x=x, description="label:N"),
        base.transform_filter("datum.low < datum.high")
        .mark_rule(color=RANGE, strokeWidth=1.5, aria=False)
        .encode(x="low:Q", x2="high:Q"),
        _row_names(base),
        base.mark_text(align="left", dx=8, color=INK).encode(x=alt.value(ROW_WIDTH), text="count:N"),
    ]
    words = f"{words} n: items. Thin line: 95 % interval over items of the kind, from {LEAST_ITEMS} items on."
    return _chart(name, title, words, layers, width=ROW_WIDTH, height=ROW_HEIGHT * len(rows))


def _row_axis(count: int) -> alt.Y:
    """Return the axis of rows by number: two models may be shown by the same shortened name."""
    return alt.Y("at:O", axis=None, scale=alt.Scale(domain=list(range(count))))


def _row_names(base: alt.Chart) -> alt.Chart:
    names: alt.Chart = base.mark_text(align="right", dx=-8, color=INK).encode(x=alt.value(0), text="name:N")
    return names


# ---- points --------------------------------------------------------------------------------------------------------


def _against(
    board: Sequence[ChartModel], view: _View, name: str, title: str, axis: str,
    quantity: Callable[[ChartModel], float | None], text: Callable[[float], str],
) -> Chart | None:  # fmt: skip
    points = [(value, row) for row in board if (value := quantity(row)) is not None and value > 0][:MOST_MODELS]
    if len(points) < 2:
        return None
    values, scores = [value for value, _ in points], [row.score for _, row in points]
    room = max((max(scores) - min(scores)) * 0.05, 0.5)
    across = Axis(axis, min(values) / 1.4, max(values) * 1.4, WIDTH, log=True, form="~g")
    up = Axis("Score (%)", min(scores) - room, max(scores) + room, 280)
    labels = [f"{row.name}: {row.score:.1f}, {text(value)}" for value, row in points]
    rows: list[Row] = [
        {"x": value, "y": row.score, "name": row.name * (at < MOST_NAMES), "label": labels[at], "colour": row.colour}
        for at, (value, row) in enumerate(points)
    ]
    front: list[Row] = [{"x": x, "y": y} for x, y in pareto(list(zip(values, scores, strict=True)))]
    line = alt.Chart(table(front)).mark_line(color=BLUE, strokeWidth=1.5, strokeDash=[4, 3], aria=False)
    layers = [line.encode(x=across.x(), y=up.y()), named_points(rows, across, up)]
    best = "cheaper" if name == "cost" else "shorter"
    words = f"The broken line joins the models that no {best} one beats. The scale across is logarithmic."
    if len(points) > MOST_NAMES:
        words += f" Names of the first {MOST_NAMES} models; the legend has all."
    chart = _chart(name, title, words, layers, view, width=across.length, height=up.length)
    legend = tuple((row.name, row.colour) for _, row in points)
    return replace(chart, legend=legend, chosen=len(points), marks={label: at for at, label in enumerate(labels)})


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no point with less of the first value equals or beats in the second."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front


# ---- categories and items ------------------------------------------------------------------------------------------


def _radar(board: Sequence[ChartModel], rates: ItemRates) -> Chart | None:
    enough = [name for name, shares in rates.by_category.items() if len(shares) >= LEAST_ITEMS]
    axes = enough[:MOST_AXES]
    models = [name for name in dict.fromkeys(row.model for row in board) if name in rates.by_model][:MOST_MODELS]
    if len(axes) < LEAST_AXES or not models:
        return None
    turns = [2 * math.pi * index / len(axes) for index in range(len(axes))]

    def ring(name: str, shares: Sequence[float], label: str = "") -> list[Row]:
        corners = [*zip(shares, turns, strict=True), (shares[0], turns[0])]
        return [
            {"x": share * math.sin(turn), "y": share * math.cos(turn), "name": name, "order": order, "label": label}
            for order, (share, turn) in enumerate(corners)
        ]

    shares = {name: [rates.by_model[name].get(axis, 0.0) for axis in axes] for name in models}
    labels = {
        name: f"{name}: " + ", ".join(f"{axis} {share:.0%}" for axis, share in zip(axes, shares[name], strict=True))
        for name in models
    }
    web = [row for part in (0.25, 0.5, 0.75, 1.0) for row in ring(f"{part}", [part] * len(axes))]
    shapes = [row for name in models for row in ring(name, shares[name], labels[name])]
    rim: list[Row] = [
        {**corner, "name": shortened(axis, 16), "side": _side(turn)}
        for corner, axis, turn in zip(ring("", [1.08] * len(axes)), axes, turns, strict=False)
    ]
    x, y = (alt.X("x:Q", axis=None, scale=_ROUND), alt.Y("y:Q", axis=None, scale=_ROUND))
    names = alt.Chart(table(rim)).encode(x=x, y=y, text="name:N")
    layers = [
        alt.Chart(table(web)).mark_line(color=GRID, strokeWidth=1, aria=False).encode(x=x, y=y, detail="name:N",
                                                                                     order="order:Q"),
        *(
            names.transform_filter(f"datum.side === '{side}'").mark_text(align=side, color=INK)
            for side in ("left", "center", "right")
        ),
    ]  # fmt: skip
    words = (
        f"Share right by {rates.corrected_judge}, from 0 in the middle to 100 % at the rim. Categories of at least "
        f"{LEAST_ITEMS} items."
    )
    lines = _Lines(shapes, labels, {"x": x, "y": y, "order": "order:Q"})
    return _line_chart("radar", "Categories by model", words, layers, lines, width=240, height=240)


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
    layers = [bars.encode(x=x, x2="high:Q", y=y, y2=alt.datum(0), description="label:N")]
    words = f"Items (up) by the share of models that are right, by {rates.judge} (across)."
    return _chart("items", "Items by how many models get them right", words, layers, width=WIDTH, height=200)


# ---- lines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lines:
    """A line for each model. ``rows``: its points, with ``name`` and ``label``; ``labels``: its description by name, in
    the legend's order; ``encoding``: where the points are."""

    rows: Sequence[Row]
    labels: Mapping[str, str]
    encoding: Mapping[str, alt.X | alt.Y | str]

    def drawn(self, names: Sequence[str], *, with_legend: bool) -> alt.Chart:
        """Return the lines of some models, in the colours of all."""
        colours = {name: LINES[at % len(LINES)] for at, name in enumerate(self.labels)}
        scale = alt.Scale(domain=list(names), range=[colours[name] for name in names])
        place = alt.Legend(
            title=None, orient="bottom", columns=2, labelLimit=180, symbolType="stroke", symbolStrokeWidth=3
        )
        rows = [row for row in self.rows if row["name"] in set(names)]
        lines: alt.Chart = (
            alt.Chart(table(rows))
            .mark_line(strokeWidth=2)
            .encode(
                color=alt.Color("name:N", scale=scale, legend=place if with_legend else None),
                description="label:N",
                **self.encoding,
            )
        )
        return lines


def _line_chart(
    name: str, title: str, words: str, under: Sequence[alt.Chart], lines: _Lines, view: _View = _ONLY, **size: int
) -> Chart:
    """Draw the first models with a legend for the file, and all models for the page, where a reader chooses."""
    names = list(lines.labels)
    first = names[:MOST_LINES]
    left_out = f" The file has the first {len(first)} of {len(names)} models." if len(names) > len(first) else ""
    chart = _chart(name, title, words + left_out, [*under, lines.drawn(first, with_legend=True)], view, **size)
    picture = alt.LayerChart(layer=[*under, lines.drawn(names, with_legend=False)]).properties(**size)
    return replace(
        chart,
        page=drawing.svg(titled(picture, chart.title)),
        legend=tuple((name, LINES[at % len(LINES)]) for at, name in enumerate(names)),
        chosen=len(first),
        marks={label: at for at, label in enumerate(lines.labels.values())},
    )


def _score_axis() -> alt.Y:
    return alt.Y("score:Q", title="Score (%)", scale=alt.Scale(zero=False))


def _hints(board: Sequence[ChartModel], view: _View) -> Chart | None:
    """Draw scores by hint level, of the models that were asked at several levels."""
    levels = {name: [row for row in board if row.model == name] for name in dict.fromkeys(row.model for row in board)}
    several = [name for name, rows in levels.items() if len({row.hints for row in rows}) > 1][:MOST_MODELS]
    if not several:
        return None
    points = {name: sorted((row.hints, row.score) for row in levels[name]) for name in several}
    labels = {
        name: f"{name}: " + ", ".join(f"{score:.1f} with {hints}" for hints, score in points[name]) for name in several
    }
    rows: list[Row] = [
        {"name": name, "hints": hints, "score": score, "label": labels[name]}
        for name in several
        for hints, score in points[name]
    ]
    x = alt.X("hints:O", title="Hints", axis=alt.Axis(labelAngle=0))
    words = "Scores of models by how many hints they were given. Elsewhere, @1 behind a name is 1 hint."
    lines = _Lines(rows, labels, {"x": x, "y": _score_axis()})
    return _line_chart("hints", "Scores by hints", words, [], lines, view, width=WIDTH, height=240)


def _history(snapshots: Sequence[BoardSnapshot], view: _View) -> Chart | None:
    if len(snapshots) < 2 or snapshots[-1].at <= snapshots[0].at:
        return None
    names = [name for name, row in snapshots[-1].lines() if row[view.score] is not None][:MOST_MODELS]
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for snapshot in snapshots:
        for name, row in snapshot.lines():
            score = _number(row[view.score])
            if name in points and score is not None:
                points[name].append((1000 * snapshot.at, score))
    if not names:
        return None
    labels = {
        short_line(name): f"{short_line(name)}: " + ", ".join(f"{score:.1f}" for _, score in points[name])
        for name in names
    }
    rows: list[Row] = [
        {"name": short_line(name), "at": at, "score": score, "label": labels[short_line(name)]}
        for name in names
        for at, score in points[name]
    ]
    ends = [1000 * snapshots[0].at, 1000 * snapshots[-1].at]
    axis = alt.Axis(values=ends, format="%Y-%m-%d", labelFlush=True, grid=False)
    x = alt.X("at:T", title=None, scale=alt.Scale(type="utc", domain=ends), axis=axis)
    words = "Scores of today’s models on each board that the run ended with."
    lines = _Lines(rows, labels, {"x": x, "y": _score_axis()})
    return _line_chart("history", "Scores over refreshes", words, [], lines, view, width=WIDTH, height=240)


def _ends(row: Mapping[str, object]) -> tuple[float, float] | None:
    low, high = (_number(row.get(name)) for name in ("lower", "upper"))
    return None if low is None or high is None else (low, high)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
