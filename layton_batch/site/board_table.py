"""The leaderboard table as a page shows it: cells as text, and where the marks of the plot stand.

Nothing here is statistics: scores, intervals and ranks come from the table; only axis positions are worked out.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from layton_batch.files.leaderboard_columns import COUNTS
from layton_batch.scoring.leaderboard import (
    ASSUMES,
    BORROWED_ONLY,
    FLAGS,
    METHOD_WORDS,
    NEW_ITEMS,
    NO_OWN,
    OTHER_HINTS,
    RULE,
    THIS_SET,
    alike,
    flags_of,
    interval_text,
    on_this_set,
    ranks_text,
    verdicts_text,
)
from layton_batch.scoring.uncalibrated import UNCALIBRATED, need
from layton_batch.site.pages import short_line
from layton_batch.site.run_tables import BoardSettings
from layton_batch.text import NONE, number_text, percent, plural

_STEPS = (1, 2, 5, 10, 20, 25, 50, 100)
_MOST_TICKS = 6
_ROOM = 0.04  # of the axis, kept free at both ends, so that dots and labels fit
_MOST_KINDS = 8  # of failure that have a column of their own


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """Positions in percent of the plot's width."""

    at: str
    low: str
    high: str
    width: str


@dataclass(frozen=True, slots=True)
class PlotTick:
    at: str
    label: str


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One line. ``notes``: letters of the footnotes that apply; sort values stand beside the text they sort."""

    model: str
    provider: str
    hints: int
    rank: str
    spread: str
    alike: str
    score: str
    interval: str
    labels: str
    verdicts: str
    summary: str
    items: int
    counts: tuple[int, ...]
    notes: tuple[str, ...]
    sort_rank: str
    sort_spread: str
    sort_score: str
    sort_interval: str
    sort_labels: str
    sort_verdicts: str
    plot: PlotPoint | None
    spread_plot: PlotPoint | None


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures by kind: the kinds, and their counts for each model in the board's order."""

    kinds: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Board:
    """A board on one target. ``count_names`` are the heads of ``ShownRow.counts``; ``footnotes`` are (letter, name,
    explanation).

    ``cautions``: sentences that a reader has to know before the numbers.
    ``target``: ``new items`` or ``this set``; ``where`` says it in a sentence. ``interval_head``, ``range_head``: what
    the columns of the interval and of the rank range are called. ``has_labels``: whether any row can have labels behind
    it; ``has_other_hints``: whether labels of its model's answers at another hint level are among these;
    ``lacks_verdicts``: whether a row has fewer verdicts than judges were asked for; ``by_rule``: scores on these items
    are exact; ``same_items``: every row rests on as many items.
    """

    rows: tuple[ShownRow, ...]
    failures: Failures
    ticks: tuple[PlotTick, ...]
    count_names: tuple[str, ...]
    footnotes: tuple[tuple[str, str, str], ...]
    has_hints: bool
    by_rule: bool
    same_items: bool
    has_labels: bool
    lacks_verdicts: bool
    has_other_hints: bool
    method: str
    metric: str
    level: str
    target: str
    where: str
    interval_head: str
    range_head: str
    meaning: str
    range_meaning: str
    cautions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """A linear scale from ``start`` to ``end``, with a tick at every multiple of ``step``."""

    start: float
    end: float
    step: float

    def at(self, value: float) -> float:
        return 100 * (value - self.start) / (self.end - self.start)


LeaderboardRow = Mapping[str, Any]
NOTHING_FAILED: Mapping[str, Mapping[str, int]] = {}


def show_board(
    board: pl.DataFrame, settings: BoardSettings, failures: Mapping[str, Mapping[str, int]] = NOTHING_FAILED
) -> Board:
    """Prepare the leaderboard for its page. ``failures``: counts by model and kind, for boards graded by rule."""
    rows = board.to_dicts()
    method = str(rows[0]["method"]) if rows else settings.method
    metric = str(rows[0]["metric"]) if rows else settings.metric
    target = THIS_SET if rows and rows[0]["target"] == THIS_SET else NEW_ITEMS
    counts = {words: name for words, name in COUNTS.items() if any(row[name] for row in rows)}
    letters = _footnotes(rows)
    ranked = sum(row["rank"] is not None for row in rows)
    axis = _axis([end for row in rows for name in _ENDS if (end := _number(row[name])) is not None])
    groups = alike([(_whole(row["rank_best"]), _whole(row["rank_worst"])) for row in rows])
    needed = [_whole(row.get("labels_needed")) for row in rows]
    return Board(
        rows=tuple(
            _row(row, group, counts.values(), letters, axis, ranked) for row, group in zip(rows, groups, strict=True)
        ),
        failures=_failures(rows, failures),
        ticks=_ticks(axis) if rows else (),
        count_names=tuple(counts),
        footnotes=tuple((letter, _words(flag), FLAGS.get(flag, "")) for flag, letter in letters.items()),
        has_hints=len({row["n_hints"] for row in rows}) > 1,
        by_rule=method == RULE,
        same_items=len({row["n_items"] for row in rows}) < 2,
        has_labels=any(row["borrowed_labels"] is not None for row in rows) and method not in (RULE, UNCALIBRATED),
        lacks_verdicts=any(row["n_verdicts_missing"] for row in rows),
        has_other_hints=OTHER_HINTS in letters,
        method=METHOD_WORDS.get(method, short_line(method)),
        metric=_words(metric),
        level=percent(settings.level),
        target=target,
        where=WHERE[target],
        interval_head=_interval_head(method, settings.level),
        range_head="Rank range" if method == "paper" else f"{percent(settings.level)} rank range",
        meaning=_meaning(method, target, settings.level, needed),
        range_meaning=_range_meaning(method, target, settings.level),
        cautions=tuple(_cautions(rows, method, needed)),
    )


_ENDS = ("score", "lower", "upper", "new_score", "new_lower", "new_upper", "set_score", "set_lower", "set_upper")
"""Range of an axis: it has room for both targets, so that it is the same for both."""
WHERE = {NEW_ITEMS: "on new items of this kind", THIS_SET: "on exactly this set of items"}


def board_on_this_set(board: pl.DataFrame) -> pl.DataFrame:
    """The board for exactly these items; empty where it is for these already, or nothing is known of these."""
    is_other = pl.col("target").ne_missing(THIS_SET) & pl.col("set_score").is_not_null()
    return on_this_set(board) if board.filter(is_other).height else board.clear()


def _failures(rows: Sequence[LeaderboardRow], counts_by_model: Mapping[str, Mapping[str, int]]) -> Failures:
    """Count the most frequent kinds of failure; all other kinds share one column."""
    mine = [(row["model"], counts_by_model[str(row["model"])]) for row in rows if row["model"] in counts_by_model]
    times: Counter[str] = Counter()
    for _, counts in mine:
        times.update(counts)
    kinds = [kind for kind, _ in times.most_common()]
    groups = [[kind] for kind in kinds[:_MOST_KINDS]] + ([kinds[_MOST_KINDS:]] if kinds[_MOST_KINDS:] else [])
    return Failures(
        tuple(_words(group[0]) if i < _MOST_KINDS else "other" for i, group in enumerate(groups)),
        tuple(
            (short_line(model), tuple(sum(counts.get(kind, 0) for kind in group) for group in groups))
            for model, counts in mine
        ),
    )


def _interval_head(method: str, level: float) -> str:
    if method == "paper":
        return "Interval"
    return f"{percent(level)} CI (over items)" if method == UNCALIBRATED else f"{percent(level)} CI"


def _meaning(method: str, target: str, level: float, needed: Sequence[int | None]) -> str:
    if method == UNCALIBRATED:
        return (
            f"{need(needed)} The {percent(level)} CI is a binomial interval (Wilson) over items: it holds what the "
            "jury would say of such items, right or wrong."
        )
    if method == "paper":
        return (
            "The interval is the range between the 2.5th and 97.5th percentile of the layton-eval paper's bootstrap: "
            "it holds for exactly these items, there is none for new ones, and it takes the rates found in the human "
            "labels as certain, so it is narrower than a 95 % interval should be."
        )
    if method == RULE and target == THIS_SET:
        return "Every answer was graded by rule, so scores and ranks are exact on this set of items."
    if method == RULE:
        return (
            "Every answer was graded by rule, so the score is exact on this set of items. "
            f"The {percent(level)} CI holds the score on new items of the same kind with that probability."
        )
    subject = {
        NEW_ITEMS: "the score on new items of the same kind",
        THIS_SET: "the share of exactly these items that a person would judge correct; it says nothing of other items",
    }
    return (
        f"The {percent(level)} CI holds {subject[target]}, with that probability. Each interval holds singly. {ASSUMES}"
    )


def _cautions(rows: Sequence[LeaderboardRow], method: str, needed: Sequence[int | None]) -> Iterator[str]:
    if method == UNCALIBRATED:
        yield need(needed)
    borrowing = sum(BORROWED_ONLY in flags_of(row["flags"]) for row in rows)
    if borrowing:
        yield (
            f"{borrowing:,} of {plural(len(rows), 'row')} ({NO_OWN}) {'has' if borrowing == 1 else 'have'} no label on "
            "answers of their own: the labels behind these scores are on other models’ answers."
        )


def _range_meaning(method: str, target: str, level: float) -> str:
    letters = f"Models that share a letter under “{ALIKE}” cannot be told apart by their rank ranges."
    if method == "paper":
        return f"The rank range runs from the best to the worst rank that overlapping intervals leave open. {letters}"
    if method == UNCALIBRATED:
        return (
            f"The rank range holds the ranks by the jury's word on new items of this kind of all models at once, with "
            f"{percent(level)} probability. {letters}"
        )
    if method == RULE and target == THIS_SET:
        return letters
    held = f"The rank range holds the ranks {WHERE[target]} of all models at once, with {percent(level)} probability."
    return f"{held} {letters}"


ALIKE = "Alike"
"""The head of the letters."""


def _row(
    row: LeaderboardRow, group: str, counts: Collection[str], letters: Mapping[str, str], axis: PlotAxis, ranked: int
) -> ShownRow:
    score, lower, upper = (_number(row[name]) for name in ("score", "lower", "upper"))
    rank, best, worst = (_number(row[name]) for name in ("rank", "rank_best", "rank_worst"))
    own, borrowed = (_number(row[name]) for name in ("own_labels", "borrowed_labels"))
    interval = _interval(row)
    return ShownRow(
        model=short_line(row["model"]),
        provider=short_line(row["provider"]),
        hints=int(_number(row["n_hints"]) or 0),
        rank=number_text(rank, 0),
        spread=ranks_text(row),
        alike=group,
        score=number_text(score),
        interval=interval,
        labels=NONE if own is None or borrowed is None else f"{own:.0f} · {borrowed:.0f}",
        verdicts=verdicts_text(row),
        summary=NONE
        if score is None
        else f"{score:.1f}, interval {interval}, rank {best or 0:.0f} to {worst or 0:.0f}",
        items=int(_number(row["n_items"]) or 0),
        counts=tuple(int(_number(row[name]) or 0) for name in counts),
        notes=tuple(letters[flag] for flag in flags_of(row["flags"])),
        sort_rank=_sortable(rank),
        sort_spread="" if best is None or worst is None else f"{best * 1_000_000 + worst:.0f}",
        sort_score=_sortable(score),
        sort_interval="" if lower is None or upper is None else f"{upper - lower:.6g}",
        sort_labels=_sortable(own),
        sort_verdicts=_sortable(_number(row["n_verdicts_missing"])),
        plot=_mark(axis, score, lower, upper),
        spread_plot=_spread_mark(rank, best, worst, ranked),
    )


def _interval(row: LeaderboardRow) -> str:
    half = _number(row["half_width"])
    return f"±{half:.1f}" if row["method"] == "paper" and half is not None else interval_text(row)


def _sortable(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def _mark(axis: PlotAxis, score: float | None, lower: float | None, upper: float | None) -> PlotPoint | None:
    if score is None:
        return None
    low, high = axis.at(score if lower is None else lower), axis.at(score if upper is None else upper)
    return PlotPoint(_place(axis.at(score)), _place(low), _place(high), _place(high - low))


def _spread_mark(rank: float | None, best: float | None, worst: float | None, ranked: int) -> PlotPoint | None:
    """Each rank has a slot of its own width; the bar covers the slots from best to worst."""
    if rank is None or best is None or worst is None or ranked < 2:
        return None
    low, high = (best - 1) * 100 / ranked, worst * 100 / ranked
    return PlotPoint(_place((rank - 0.5) * 100 / ranked), _place(low), _place(high), _place(high - low))


def _place(value: float) -> str:
    return f"{min(max(value, 0.0), 100.0):.2f}%"


def _axis(values: Sequence[float]) -> PlotAxis:
    low, high = (min(values), max(values)) if values else (0.0, 100.0)
    room = max((high - low) * _ROOM, 0.5)
    step = next((step for step in _STEPS if (high - low) / step <= _MOST_TICKS), math.ceil((high - low) / _MOST_TICKS))
    return PlotAxis(low - room, high + room, step)


def _ticks(axis: PlotAxis) -> tuple[PlotTick, ...]:
    first, last = math.ceil(axis.start / axis.step), math.floor(axis.end / axis.step)
    values = [axis.step * index for index in range(first, last + 1)]
    return tuple(PlotTick(_place(axis.at(value)), f"{value:g}") for value in values)


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _footnotes(rows: Sequence[LeaderboardRow]) -> dict[str, str]:
    """A footnote mark for each flag, in the order in which a reader meets them; a star for rows without own labels."""
    flags = list(dict.fromkeys(flag for row in rows for flag in flags_of(row["flags"])))
    letters = map(_letter, range(len(flags)))
    return {flag: NO_OWN if flag == BORROWED_ONLY else next(letters) for flag in flags}


def _letter(index: int) -> str:
    letters = string.ascii_lowercase
    return letters[index] if index < len(letters) else f"{letters[index % 26]}{index // 26}"


def _words(name: str) -> str:
    return short_line(name.replace("_", " "))
