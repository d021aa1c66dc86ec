"""The charts of a board: which there are, drawn from finished tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from layton_batch.clock import utc
from layton_batch.scoring.history import Snapshot
from layton_batch.site.drawing import WIDTH, Picture, Scale, clipped, free_places, scale
from layton_batch.site.item_rates import Rates
from layton_batch.site.pages import short_line
from layton_batch.site.standing import Facts, small_money

_NAMES = 210.0  # pixels kept for names at the left
_ROW = 24.0
_MOST_ROWS, _MOST_DOTS, _MOST_SHAPES, _MOST_LINES = 60, 40, 5, 5
_LEAST_AXES = 3
_LINES_HEIGHT = 300.0
_BESIDE = 90.0  # pixels kept for the names of the last points


@dataclass(frozen=True, slots=True)
class Chart:
    """``name``: of its files; ``words``: what it shows, in a sentence or two."""

    name: str
    words: str
    picture: Picture


@dataclass(frozen=True, slots=True)
class Standing:
    """One row of the board as charts need it, in percent; ``here``, ``new``: lower and upper, None where unknown."""

    name: str
    model: str
    hints: int
    score: float
    here: tuple[float, float] | None
    new: tuple[float, float] | None
    usd: float | None
    tokens: float | None


def standings(rows: Sequence[Mapping[str, object]], facts: Sequence[Facts]) -> list[Standing]:
    """The rows that have a score, in the board's order."""
    several = len({row["n_hints"] for row in rows}) > 1
    found = []
    for row, fact in zip(rows, facts, strict=True):
        score = _number(row["score"])
        if score is None:
            continue
        name = short_line(row["model"]) + (f"@{row['n_hints']}" if several else "")
        here, new = (_ends(row, prefix) for prefix in ("", "new_"))
        hints = int(_number(row["n_hints"]) or 0)
        found.append(Standing(name, short_line(row["model"]), hints, score, here, new, fact.usd, fact.tokens))
    return found


def charts(board: Sequence[Standing], rates: Rates, snapshots: Sequence[Snapshot]) -> list[Chart]:
    """All that the tables have something for."""
    if not board:
        return []
    says = f"Share right by {rates.judge}, the mean of all models"
    found: list[Chart | None] = [
        _scores(board),
        _against(board, "cost", "Score against cost", "US dollars an answer", lambda one: one.usd, small_money),
        _against(board, "tokens", "Score against length", "output tokens an answer", lambda one: one.tokens, _whole),
        _bars(rates.by_category, "categories", "Score by category", f"{says}."),
        _radar(board, rates),
        _bars(rates.by_picarats, "difficulty", "Score by picarats", f"{says}, by how many picarats an item is worth."),
        _spread(rates),
        _hints(board),
        _history(snapshots),
    ]
    return [one for one in found if one is not None]


def _scores(board: Sequence[Standing]) -> Chart:
    rows = board[:_MOST_ROWS]
    ends = [end for one in rows for pair in (one.here, one.new, (one.score, one.score)) if pair for end in pair]
    picture = Picture("Scores with intervals", len(rows) * _ROW + 30)
    across = scale(ends, _NAMES, WIDTH - 10)
    _grid_down(picture, across, 0, len(rows) * _ROW, lambda value: f"{value:g}")
    for index, one in enumerate(rows):
        y = (index + 0.5) * _ROW
        picture.text(_NAMES - 10, y + 4, clipped(one.name, _NAMES - 10), anchor="end")
        if one.new:
            picture.line(across.at(one.new[0]), y, across.at(one.new[1]), y, "thin")
        if one.here:
            picture.bar(across.at(one.here[0]), y - 5, across.at(one.here[1]) - across.at(one.here[0]), 10, "band")
        picture.dot(across.at(one.score), y, f"{one.name}: {one.score:.1f}")
    return Chart(
        "scores", "Score in percent. Band: interval on these items; thin line: on new items of the kind.", picture
    )


def _against(
    board: Sequence[Standing], name: str, title: str, axis: str, of: Callable[[Standing], float | None],
    told: Callable[[float], str],
) -> Chart | None:  # fmt: skip
    points = [(value, one) for one in board if (value := of(one)) is not None and value > 0][:_MOST_DOTS]
    if len(points) < 2:
        return None
    height = 380.0
    picture = Picture(title, height)
    across = scale([value for value, _ in points], 50, WIDTH - _BESIDE, log=True)
    up = scale([one.score for _, one in points], height - 45, 10)
    _grid_down(picture, across, 10, height - 45, told)
    _grid_across(picture, up, 50, WIDTH - 20)
    picture.text((50 + WIDTH - 20) / 2, height - 8, axis, "soft", "middle")
    front = pareto([(value, one.score) for value, one in points])
    picture.path([(across.at(x), up.at(y)) for x, y in front], "front")
    places = [(across.at(value), up.at(one.score)) for value, one in points]
    names = [clipped(one.name, 190) for _, one in points]
    for (x, y), (_, one), label, (height_of, side) in zip(
        places, points, names, free_places(places, names, WIDTH), strict=True
    ):
        value = of(one) or 0.0
        picture.dot(x, y, f"{one.name}: {one.score:.1f}, {told(value)}")
        picture.text(x + (9 if side == "start" else -9), height_of + 4, label, "soft", side)
    best = "The broken line joins the models that no cheaper one beats." if name == "cost" else (
        "The broken line joins the models that no shorter one beats.")  # fmt: skip
    return Chart(name, f"{best} The scale across is logarithmic.", picture)


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that none with less of the first has at least as much of the second."""
    found: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda one: (one[0], -one[1])):
        if not found or y > found[-1][1]:
            found.append((x, y))
    return found


def _bars(groups: Mapping[str, Sequence[float]], name: str, title: str, words: str) -> Chart | None:
    """A bar a group of items: the mean of their rates, and its 95 % interval over items where there are two or more."""
    if len(groups) < 2:
        return None
    rows = list(groups.items())[:_MOST_ROWS]
    picture = Picture(title, len(rows) * _ROW + 30)
    across = Scale(0, 100, _NAMES, WIDTH - 60)
    _grid_down(picture, across, 0, len(rows) * _ROW, lambda value: f"{value:g}")
    for index, (group, rates) in enumerate(rows):
        y = (index + 0.5) * _ROW
        mean = 100 * sum(rates) / len(rates)
        picture.text(_NAMES - 10, y + 4, clipped(group, _NAMES - 10), anchor="end")
        picture.bar(across.start, y - 7, across.at(mean) - across.start, 14, "band", f"{group}: {mean:.1f} %")
        if len(rates) > 1:
            spread = math.sqrt(sum((100 * one - mean) ** 2 for one in rates) / (len(rates) - 1) / len(rates))
            low, high = max(mean - 1.96 * spread, 0), min(mean + 1.96 * spread, 100)
            picture.line(across.at(low), y, across.at(high), y, "thin")
        picture.text(WIDTH - 50, y + 4, f"n = {len(rates):,}", "soft")
    return Chart(name, f"{words} Thin line: 95 % interval over items of the kind; n: items.", picture)


def _radar(board: Sequence[Standing], rates: Rates) -> Chart | None:
    axes = list(rates.by_category)[:12]
    models = [name for name in dict.fromkeys(one.model for one in board) if name in rates.by_model][:_MOST_SHAPES]
    if len(axes) < _LEAST_AXES or not models:
        return None
    size, x0, y0 = 150.0, 230.0, 190.0
    picture = Picture(f"Categories of the first {len(models)} models", 380)
    turns = [2 * math.pi * index / len(axes) - math.pi / 2 for index in range(len(axes))]

    def ring(shares: Sequence[float]) -> list[tuple[float, float]]:
        pairs = zip(shares, turns, strict=True)
        return [(x0 + size * share * math.cos(turn), y0 + size * share * math.sin(turn)) for share, turn in pairs]

    for part in (0.25, 0.5, 0.75, 1.0):
        picture.path(ring([part] * len(axes)), "web", closed=True)
    for (x, y), (name, turn) in zip(ring([1.08] * len(axes)), zip(axes, turns, strict=True), strict=True):
        anchor = "middle" if abs(math.cos(turn)) < 0.2 else "start" if math.cos(turn) > 0 else "end"
        picture.text(x, y + 4, clipped(name, 100), "soft", anchor)
    for index, name in enumerate(models):
        picture.path(ring([rates.by_model[name].get(axis, 0.0) for axis in axes]), f"shape s{index}", closed=True)
        picture.line(470, 40 + 22 * index, 490, 40 + 22 * index, f"key s{index}")
        picture.text(498, 44 + 22 * index, clipped(name, 250))
    return Chart("radar", f"Share right by {rates.judge}, from 0 in the middle to 100 % at the rim.", picture)


def _spread(rates: Rates) -> Chart | None:
    """How many items which share of the models got right."""
    if len(rates.by_item) < 2:
        return None
    counts = [0] * 10
    for rate in rates.by_item:
        counts[min(int(rate * 10), 9)] += 1
    height = 240.0
    picture = Picture("Items by how many models get them right", height)
    across = Scale(0, 100, 50, WIDTH - 20)
    up = Scale(0, max(counts) * 1.05, height - 45, 10)
    _grid_across(picture, up, 50, WIDTH - 20)
    for index, count in enumerate(counts):
        left, right = across.at(10 * index) + 2, across.at(10 * index + 10) - 2
        picture.bar(left, up.at(count), right - left, up.start - up.at(count), "band", f"{count:,} items")
    _labels_below(picture, across, height - 28)
    picture.text((50 + WIDTH - 20) / 2, height - 8, "models right, %", "soft", "middle")
    return Chart("items", f"Items (up) by the share of models that are right, by {rates.judge} (across).", picture)


def _hints(board: Sequence[Standing]) -> Chart | None:
    """Scores by hint level, of the first models that were asked at several."""
    levels = sorted({one.hints for one in board})
    tracks: dict[str, list[tuple[float, float]]] = {}
    for one in sorted(board, key=lambda one: one.hints):
        tracks.setdefault(one.model, []).append((one.hints, one.score))
    several = [name for name in tracks if len({level for level, _ in tracks[name]}) > 1]
    several = [name for name in dict.fromkeys(one.model for one in board) if name in several][:_MOST_LINES]
    if not several:
        return None
    picture = Picture("Scores by hints", _LINES_HEIGHT)
    _lines(picture, {name: tracks[name] for name in several}, {level: (str(level), "middle") for level in levels})
    words = "Scores of the first models by how many hints they were given. Elsewhere, @1 behind a name is 1 hint."
    return Chart("hints", words, picture)


def _lines(
    picture: Picture, tracks: Mapping[str, Sequence[tuple[float, float]]], ticks: Mapping[float, tuple[str, str]]
) -> None:
    """A line a name over the ticks, which are given by their words and the side of their words."""
    right = WIDTH - 240
    across = Scale(min(ticks), max(ticks), 60, right - 10)
    up = scale([score for track in tracks.values() for _, score in track], _LINES_HEIGHT - 35, 10)
    _grid_across(picture, up, 50, right)
    for at, (words, anchor) in ticks.items():
        picture.text(across.at(at), _LINES_HEIGHT - 14, words, "soft", anchor)
    for index, (name, track) in enumerate(tracks.items()):
        picture.path([(across.at(at), up.at(score)) for at, score in track], f"shape s{index}")
        picture.line(right + 20, 20 + 22 * index, right + 40, 20 + 22 * index, f"key s{index}")
        picture.text(right + 48, 24 + 22 * index, clipped(short_line(name), 190))


def _history(snapshots: Sequence[Snapshot]) -> Chart | None:
    if len(snapshots) < 2:
        return None
    names = [one.name for one in snapshots[-1].rows if one.score is not None][:_MOST_LINES]
    tracks = [
        [(snap.at, row.score) for snap in snapshots for row in snap.rows if row.name == name and row.score is not None]
        for name in names
    ]
    values = [score for track in tracks for _, score in track]
    if not values or snapshots[-1].at <= snapshots[0].at:
        return None
    picture = Picture("Scores over refreshes", _LINES_HEIGHT)
    ends = {snapshots[0].at: "start", snapshots[-1].at: "end"}
    _lines(picture, dict(zip(names, tracks, strict=True)), {at: (f"{utc(at):%Y-%m-%d}", ends[at]) for at in ends})
    return Chart("history", "Scores of today’s first models on each board that the run ended with.", picture)


def _grid_down(picture: Picture, across: Scale, top: float, bottom: float, told: Callable[[float], str]) -> None:
    last = -math.inf
    for tick in across.ticks():
        x, words = across.at(tick), told(tick)
        picture.line(x, top, x, bottom, "grid")
        if x - last > 7 * len(words):
            picture.text(x, bottom + 18, words, "soft", "middle")
            last = x


def _labels_below(picture: Picture, across: Scale, y: float) -> None:
    for tick in across.ticks():
        picture.text(across.at(tick), y, f"{tick:g}", "soft", "middle")


def _grid_across(picture: Picture, up: Scale, left: float, right: float) -> None:
    for tick in up.ticks():
        picture.line(left, up.at(tick), right, up.at(tick), "grid")
        picture.text(left - 8, up.at(tick) + 4, f"{tick:g}", "soft", "end")


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _ends(row: Mapping[str, object], prefix: str) -> tuple[float, float] | None:
    low, high = (_number(row.get(f"{prefix}{name}")) for name in ("lower", "upper"))
    return None if low is None or high is None else (low, high)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
