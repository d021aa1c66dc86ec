"""The leaderboard as pages show it: a column once, cells as text, and where the marks of its drawings stand.

Nothing here is statistics: scores, intervals and ranks come from the table; only axis positions are worked out.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape
from typing import Any

import polars as pl
from markupsafe import Markup

from layton_batch.files.leaderboard_columns import COUNTS
from layton_batch.scoring.leaderboard import (
    BORROWED_ONLY,
    FLAGS,
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
from layton_batch.scoring.uncalibrated import UNCALIBRATED
from layton_batch.site.board_words import (
    ALIKE,
    WHERE,
    cautions,
    interval_head,
    meaning,
    range_meaning,
    score_words,
)
from layton_batch.site.html_table import HtmlBody, HtmlCell, HtmlColumn, HtmlRow, plain_table, table_html
from layton_batch.site.model_facts import ModelFacts
from layton_batch.site.pages import safe_html, short_line
from layton_batch.site.run_tables import BoardSettings
from layton_batch.text import NONE, Table, columns, number_text, percent

_STEPS = (1, 2, 5, 10, 20, 25, 50, 100)
_MOST_TICKS = 6
_ROOM = 0.04  # of the axis, kept free at both ends, so that dots and labels fit
_MOST_KINDS = 8  # of failure that have a column of their own
LeaderboardRow = Mapping[str, Any]
NOTHING_FAILED: Mapping[str, Mapping[str, int]] = {}
BODIES = (("board-rows", "for-new"), ("set-rows", "for-these"))
"""Id and view of the rows of each target."""


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One line, in text. ``values``: the same in the table; ``notes``: marks of the footnotes that apply."""

    values: LeaderboardRow
    facts: ModelFacts
    model: str
    provider: str
    hints: int
    rank: str
    spread: str
    alike: str
    score: str
    interval: str
    notes: tuple[str, ...]

    @property
    def page(self) -> str:
        """Return the file name of the model's page: equal at every refresh, and safe for any model name."""
        return f"{sha256(f'{self.model}|{self.provider}|{self.hints}'.encode()).hexdigest()[:12]}.html"

    @property
    def summary(self) -> str:
        """Describe score, interval and ranks in words."""
        if self.score == NONE:
            return NONE
        best, worst = (self.values[name] or 0 for name in ("rank_best", "rank_worst"))
        return f"{self.score}, interval {self.interval}, rank {best:.0f} to {worst:.0f}"


@dataclass(frozen=True, slots=True)
class BoardColumn:
    """A column of the board: what it is called, and what stands in it."""

    column: HtmlColumn
    cell: Callable[[ShownRow], HtmlCell | str]


@dataclass(frozen=True, slots=True)
class Board:
    """A board on one target. ``footnotes`` are (mark, name, explanation); ``failures``: a table of kinds by model.

    ``cautions``: sentences that a reader has to know before the numbers.
    ``target``: ``new items`` or ``this set``; ``where`` says it in a sentence. ``has_labels``: whether any row can have
    labels behind it; ``by_rule``: scores on these items are exact.
    """

    rows: tuple[ShownRow, ...]
    columns: tuple[BoardColumn, ...]
    failures: Markup
    footnotes: tuple[tuple[str, str, str], ...]
    has_hints: bool
    by_rule: bool
    has_labels: bool
    method: str
    target: str
    where: str
    score_words: str
    interval_head: str
    range_head: str
    meaning: str
    range_meaning: str
    cautions: tuple[str, ...]

    @property
    def explained(self) -> list[tuple[str, str]]:
        """Return the columns with what they mean."""
        return [(entry.column.name, entry.column.help) for entry in self.columns if entry.column.help]


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """A linear scale from ``start`` to ``end``, with a tick at every multiple of ``step``."""

    start: float
    end: float
    step: float

    def at(self, value: float) -> float:
        return 100 * (value - self.start) / (self.end - self.start)

    def ticks(self) -> list[tuple[str, str]]:
        """Return place and label of each tick."""
        first, last = math.ceil(self.start / self.step), math.floor(self.end / self.step)
        values = [self.step * index for index in range(first, last + 1)]
        return [(_place(self.at(value)), f"{value:g}") for value in values]


def show_board(
    board: pl.DataFrame,
    settings: BoardSettings,
    facts: Sequence[ModelFacts],
    failures: Mapping[str, Mapping[str, int]] = NOTHING_FAILED,
) -> Board:
    """Prepare the leaderboard for its pages. ``failures``: counts by model and kind, for boards graded by rule."""
    rows = board.to_dicts()
    method = str(rows[0]["method"]) if rows else settings.method
    metric = str(rows[0]["metric"]) if rows else settings.metric
    target = THIS_SET if rows and rows[0]["target"] == THIS_SET else NEW_ITEMS
    marks = _footnotes(rows)
    groups = alike([(_whole(row["rank_best"]), _whole(row["rank_worst"])) for row in rows])
    needed = [_whole(row.get("labels_needed")) for row in rows]
    head = interval_head(method, settings.level)
    range_head = "Rank range" if method == "paper" else f"{percent(settings.level)} rank range"
    has_labels = any(row["borrowed_labels"] is not None for row in rows) and method not in (RULE, UNCALIBRATED)
    words = score_words(metric)
    return Board(
        rows=tuple(
            _row(row, fact, group, marks) for row, fact, group in zip(rows, facts, groups, strict=True)
        ),
        columns=tuple(
            entry
            for is_shown, entry in _columns(rows, facts, words, head, range_head, has_labels=has_labels)
            if is_shown
        ),
        failures=_failures(rows, failures),
        footnotes=tuple((mark, _words(flag), FLAGS.get(flag, "")) for flag, mark in marks.items()),
        has_hints=len({row["n_hints"] for row in rows}) > 1,
        by_rule=method == RULE,
        has_labels=has_labels,
        method=method,
        target=target,
        where=WHERE[target],
        score_words=words,
        interval_head=head,
        range_head=range_head,
        meaning=meaning(method, target, settings.level, needed),
        range_meaning=range_meaning(method, target, settings.level),
        cautions=tuple(cautions(rows, method, needed)),
    )  # fmt: skip


def board_html(caption: str, board: Board, here: Board | None = None) -> Markup:
    """Return the table; with the board ``here`` on this set, both, of which a switch shows one."""
    boards = [board, here] if here else [board]
    bodies = [
        HtmlBody(
            [HtmlRow([entry.cell(row) for entry in shown.columns], {"maker": row.facts.maker}) for row in shown.rows],
            name,
            view if here else "",
        )
        for shown, (name, view) in zip(boards, BODIES, strict=False)
    ]
    return table_html(caption, [entry.column for entry in board.columns], bodies, kind="board", sorted_by="rank")


_FIRST = ("rank", "model", "score", "interval", "plot", "spread", "cost")


def first_rows_html(caption: str, board: Board, count: int, address: str) -> Markup:
    """Return the first rows of the board for a page elsewhere, which sees the board's pages at ``address``."""
    shown = [entry for entry in board.columns if entry.column.key in _FIRST]
    rows = [HtmlRow([_elsewhere(entry.cell(row), row, address) for entry in shown]) for row in board.rows[:count]]
    return table_html(caption, [entry.column for entry in shown], [HtmlBody(rows)], kind="board")


def _elsewhere(cell: HtmlCell | str, row: ShownRow, address: str) -> HtmlCell | str:
    """Return a cell whose links are followed from elsewhere; of the footnotes only the star stays."""
    if isinstance(cell, str) or not cell.link:
        return cell
    return replace(cell, link=address + cell.link, after=safe_html(f"<sup>{NO_OWN}</sup>" * (NO_OWN in row.notes)))


def board_on_this_set(board: pl.DataFrame) -> pl.DataFrame:
    """The board for exactly these items; empty where it is for these already, or nothing is known of these."""
    is_other = pl.col("target").ne_missing(THIS_SET) & pl.col("set_score").is_not_null()
    return on_this_set(board) if board.filter(is_other).height else board.clear()


def incomplete_models(board: pl.DataFrame) -> list[tuple[str, str]]:
    """Return the models that a board has no score of yet, each with its progress."""
    waiting = board.filter(pl.col("progress").is_not_null())
    return [(short_line(model), short_line(progress)) for model, progress in waiting["model", "progress"].iter_rows()]


def _columns(
    rows: Sequence[LeaderboardRow], facts: Sequence[ModelFacts], scores: str, interval: str, ranks: str,
    *, has_labels: bool,
) -> list[tuple[bool, BoardColumn]]:  # fmt: skip
    """Define each column, and tell whether it says something of these rows."""
    axis = _axis([end for row in rows for name in _ENDS if (end := _number(row.get(name))) is not None])
    ranked = sum(row["rank"] is not None for row in rows)
    has_costs = any(fact.tokens is not None for fact in facts)
    counts = [name for name, column in COUNTS.items() if any(row[column] for row in rows)]
    labels = (
        "People’s verdicts on the model’s own answers · borrowed from other models’ answers"
        + (
            " and from this model’s answers with other hints"
            * any(OTHER_HINTS in flags_of(row["flags"]) for row in rows)
        )
        + "."
    )

    def column(
        name: str, key: str, cell: Callable[[ShownRow], HtmlCell | str], words: str = "", **more: Any
    ) -> BoardColumn:
        return BoardColumn(HtmlColumn(name, key, help=words, **more), cell)

    return [
        (True, column("Rank", "rank", lambda row: _sorted(row.rank, row.values["rank"]),
                      "By score; see the rank range for what the data leave open.", label="")),
        (True, column("Model", "model", _model_cell, is_head=True)),
        (len({row["n_hints"] for row in rows}) > 1,
         column("Hints", "hints", lambda row: str(row.hints), "How many hints the model was given.", label="hints")),
        (True, column("Score", "score", lambda row: _sorted(row.score, row.values["score"]),
                      f"{scores} Abstained, unreadable and missing answers count as wrong.", is_falling=True,
                      label="")),
        (True, column(interval, "interval", _interval_cell, "How far the score is known, on what the board is for.",
                      label="")),
        (True, column("Score and interval, drawn", "plot", lambda row: HtmlCell(after=_plot(axis, row.values)),
                      label="", drawing=_axis_drawing(axis) if rows else Markup())),
        (True, column(ranks, "spread", lambda row: _ranks_cell(row, ranked),
                      "Holds the ranks of all models at once, on what the board is for.", label="ranks")),
        (True, column(ALIKE, "alike", lambda row: row.alike,
                      "Models that share a letter cannot be told apart by their rank ranges.", is_text=True,
                      is_rest=True, label="alike")),
        (has_labels, column("Human labels (own · borrowed)", "labels", _labels_cell, labels, is_falling=True,
                            is_rest=True, label="labels")),
        (any(row["n_verdicts_missing"] for row in rows),
         column("Verdicts", "verdicts", _verdicts_cell,
                "How many of the verdicts that judges were asked for can be read: the score stands on these.",
                is_falling=True, label="verdicts")),
        (has_costs, column("Cost an answer", "cost", lambda row: _sorted(row.facts.usd_text, row.facts.usd),
                           "What one answer of the model cost by its batch API, without the jury.", label="")),
        (has_costs, column("Output tokens", "tokens", lambda row: _sorted(row.facts.tokens_text, row.facts.tokens),
                           "Output tokens of one answer, reasoning among them.", is_rest=True, label="tokens")),
        (len({row["n_items"] for row in rows}) > 1,
         column("Items", "items", lambda row: f"{row.values['n_items'] or 0:,}", "Items behind the score.",
                is_falling=True, is_rest=True, label="items")),
        (bool(counts),
         column(counts[0].capitalize() if len(counts) == 1 else "Failures", "failures",
                lambda row: _failures_cell(row, len(counts) > 1),
                "Answers that were abstained, could not be read, are missing or have no verdict; they count as wrong.",
                is_falling=True, is_rest=True, label=counts[0] if len(counts) == 1 else "failures")),
    ]  # fmt: skip


_ENDS = ("score", "lower", "upper", "new_score", "new_lower", "new_upper", "set_score", "set_lower", "set_upper")
"""Range of an axis: it has room for both targets, so that it is the same for both."""


def _row(row: LeaderboardRow, facts: ModelFacts, group: str, marks: Mapping[str, str]) -> ShownRow:
    half = _number(row["half_width"])
    interval = f"±{half:.1f}" if row["method"] == "paper" and half is not None else interval_text(row)
    return ShownRow(
        values=row,
        facts=facts,
        model=short_line(row["model"]),
        provider=short_line(row["provider"]),
        hints=int(_number(row["n_hints"]) or 0),
        rank=number_text(_number(row["rank"]), 0),
        spread=ranks_text(row),
        alike=group,
        score=number_text(_number(row["score"])),
        interval=interval,
        notes=tuple(marks[flag] for flag in flags_of(row["flags"])),
    )


# ---- cells ---------------------------------------------------------------------------------------------------------


def _sorted(text: str, value: object) -> HtmlCell:
    number = _number(value)
    return HtmlCell(text, sort="" if number is None else f"{number:.10g}")


def _model_cell(row: ShownRow) -> HtmlCell:
    notes = "".join(f'<sup><a href="#note-{escape(mark)}">{escape(mark)}</a></sup>' for mark in row.notes)
    by = f", by <bdi>{escape(row.facts.by)}</bdi>" if row.facts.by else ""
    return HtmlCell(
        row.model,
        sort=row.model,
        link=f"models/{row.page}",
        before=safe_html(f'<svg class="dye" aria-hidden="true" focusable="false"><rect width="9" height="9" rx="4.5" '
                      f'fill="{escape(row.facts.colour)}"></rect></svg> '),
        after=safe_html(f'{notes} <small class="maker"><bdi>{escape(row.facts.maker)}</bdi>{by}</small>'),
    )  # fmt: skip


def _interval_cell(row: ShownRow) -> HtmlCell:
    lower, upper = (_number(row.values[name]) for name in ("lower", "upper"))
    return HtmlCell(row.interval, sort="" if lower is None or upper is None else f"{upper - lower:.6g}")


def _ranks_cell(row: ShownRow, ranked: int) -> HtmlCell:
    """Each rank has a slot of its own width; the bar covers the slots from best to worst."""
    rank, best, worst = (_number(row.values[name]) for name in ("rank", "rank_best", "rank_worst"))
    if best is None or worst is None:
        return HtmlCell(sort="", after=safe_html(f"<span>{escape(row.spread)}</span>"))
    drawing = ""
    if rank is not None and ranked > 1:
        slot = 100 / ranked
        drawing = (
            '<svg class="spread" aria-hidden="true" focusable="false">'
            '<line class="track" x1="0" x2="100%" y1="50%" y2="50%"></line>'
            f'<rect class="slots" x="{_place((best - 1) * slot)}" width="{_place((worst - best + 1) * slot)}" y="4" '
            'height="8" rx="2"></rect>'
            f'<circle class="dot" cx="{_place((rank - 0.5) * slot)}" cy="50%" r="2.5"></circle></svg> '
        )
    return HtmlCell(sort=f"{best * 1_000_000 + worst:.0f}",
                    after=safe_html(f"{drawing}<span>{escape(row.spread)}</span>"))  # fmt: skip


def _labels_cell(row: ShownRow) -> HtmlCell:
    own, borrowed = (_number(row.values[name]) for name in ("own_labels", "borrowed_labels"))
    return _sorted(NONE if own is None or borrowed is None else f"{own:.0f} · {borrowed:.0f}", own)


def _verdicts_cell(row: ShownRow) -> HtmlCell:
    return _sorted(verdicts_text(row.values), row.values["n_verdicts_missing"])


def _failures_cell(row: ShownRow, named: bool) -> HtmlCell:
    kinds = f'<span class="unseen"> ({escape(row.facts.failed)})</span>' if named and row.facts.failed else ""
    count = row.facts.failures
    return HtmlCell(f"{count:,}", sort=str(count), tone="" if count else "zero", after=safe_html(kinds))


def _plot(axis: PlotAxis, row: LeaderboardRow) -> Markup:
    score, lower, upper = (_number(row[name]) for name in ("score", "lower", "upper"))
    lines = "".join(
        f'<line class="grid" x1="{place}" x2="{place}" y1="0" y2="100%"></line>' for place, _ in axis.ticks()
    )
    marks = ""
    if score is not None:
        low, high = axis.at(score if lower is None else lower), axis.at(score if upper is None else upper)
        marks = (
            f'<rect class="range" x="{_place(low)}" width="{_place(high - low)}" y="50%" height="12" '
            f'transform="translate(0 -6)"></rect>'
            f'<circle class="dot" cx="{_place(axis.at(score))}" cy="50%" r="3.5"></circle>'
        )
    return safe_html(f'<svg class="plot" aria-hidden="true" focusable="false">{lines}{marks}</svg>')


def _axis_drawing(axis: PlotAxis) -> Markup:
    labels = "".join(f'<text x="{place}" y="100%" dy="-3">{label}</text>' for place, label in axis.ticks())
    return safe_html(f'<svg class="axis" aria-hidden="true" focusable="false">{labels}</svg>')


def _axis(values: Sequence[float]) -> PlotAxis:
    low, high = (min(values), max(values)) if values else (0.0, 100.0)
    room = max((high - low) * _ROOM, 0.5)
    step = next((step for step in _STEPS if (high - low) / step <= _MOST_TICKS), math.ceil((high - low) / _MOST_TICKS))
    return PlotAxis(low - room, high + room, step)


def _place(value: float) -> str:
    return f"{min(max(value, 0.0), 100.0):.2f}%"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


# ---- below the table -----------------------------------------------------------------------------------------------


def _failures(rows: Sequence[LeaderboardRow], counts_by_model: Mapping[str, Mapping[str, int]]) -> Markup:
    """Count the most frequent kinds of failure; all other kinds share one column."""
    mine = [(row["model"], counts_by_model[str(row["model"])]) for row in rows if row["model"] in counts_by_model]
    times: Counter[str] = Counter()
    for _, counts in mine:
        times.update(counts)
    if not times:
        return Markup()
    kinds = [kind for kind, _ in times.most_common()]
    groups = [[kind] for kind in kinds[:_MOST_KINDS]] + ([kinds[_MOST_KINDS:]] if kinds[_MOST_KINDS:] else [])
    heads = [_words(group[0]) if i < _MOST_KINDS else "other" for i, group in enumerate(groups)]
    lines = tuple(
        (str(model), *(f"{sum(counts.get(kind, 0) for kind in group):,}" for group in groups)) for model, counts in mine
    )
    return plain_table(Table(columns("model", *heads), lines), "How often each kind of failure occurs, by model")


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
