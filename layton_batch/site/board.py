"""The leaderboard as pages show it: a column once, cells as text, and the sentences that explain them.

Nothing here is statistics: scores, intervals and ranks come from the table; only axis positions are worked out.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from layton_batch.columns import OutputForm
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import COUNTS
from layton_batch.makers import maker_name, model_colours
from layton_batch.scoring.board_columns import BOARD, WHERE, ShownColumn, board_rows, failure_table, meanings
from layton_batch.scoring.leaderboard import (
    BORROWED_ONLY,
    FLAGS,
    NEW_ITEMS,
    NO_OWN,
    PAPER,
    RULE,
    THIS_SET,
    UNCALIBRATED,
    flags_of,
    need,
    on_this_set,
)
from layton_batch.site.pages import (
    NOTHING,
    HtmlBody,
    HtmlCell,
    HtmlColumn,
    HtmlRow,
    HtmlTable,
    dollars,
    macros,
    more_assets,
    plain_table,
    sentence,
    short_line,
    small_money,
    write,
)
from layton_batch.site.run_tables import PageManifest, failures, table
from layton_batch.text import NONE, first_of, number_text, percent, plural

_STEPS = (1, 2, 5, 10, 20, 25, 50, 100)
_MOST_TICKS = 6
_ROOM = 0.04  # of the axis, kept free at both ends, so that dots and labels fit
LeaderboardRow = Mapping[str, Any]
CELLS = {column.name: column.cell for column in BOARD}
"""Texts of the board's columns, by name."""
_FALLING = frozenset({"score", "labels", "verdicts", "items"})
"""Columns of which a first click shows the largest."""
_ALWAYS = frozenset({"rank", "model", "hints", "score", "interval", "range", "verdicts"})
"""Columns that are shown before a reader asks for all."""
_UNNAMED = frozenset({"rank", "score", "interval"})
"""Columns without a name on a phone."""
_SORTED = {"rank": "rank", "score": "score", "labels": "own_labels", "verdicts": "n_verdicts_missing"}
"""Columns of the table by which columns of the board are sorted."""
BODIES = (("board-rows", "for-new"), ("set-rows", "for-these"))
"""Id and view of the rows of each target."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A row of the leaderboard with what pages add to it. ``values``: the row in the table.

    ``maker``: its name, that of the provider where the maker is unknown; ``by``: the provider where that is another;
    ``colour``: the model's on all pages and charts of the site. ``usd``, ``tokens``: of an answer, None if unknown;
    ``notes``: marks of the footnotes that apply.
    """

    values: LeaderboardRow
    maker: str
    by: str
    colour: str
    usd: float | None
    tokens: float | None
    notes: tuple[str, ...]

    @property
    def model(self) -> str:
        return short_line(self.values["model"])

    @property
    def hints(self) -> int:
        return int(self.number("n_hints") or 0)

    @property
    def key(self) -> tuple[str, str, int]:
        """Return model, provider and hint level, as the replies name them."""
        return str(self.values["model"]), str(self.values["provider"]), self.hints

    @property
    def page(self) -> str:
        """Return the file name of the model's page: equal at every refresh, and safe for any model name."""
        name = f"{self.model}|{short_line(self.values['provider'])}|{self.hints}"
        return f"{sha256(name.encode()).hexdigest()[:12]}.html"

    @property
    def rank(self) -> str:
        return number_text(self.number("rank"), 0)

    @property
    def ranks(self) -> str:
        return CELLS["range"](self.values)

    @property
    def score(self) -> str:
        return number_text(self.number("score"))

    @property
    def interval(self) -> str:
        return CELLS["interval"](self.values)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Return the ends of the interval; None where one is unknown."""
        low, high = self.number("lower"), self.number("upper")
        return None if low is None or high is None else (low, high)

    @property
    def width(self) -> float | None:
        return self.ends and round(self.ends[1] - self.ends[0], 6)

    @property
    def cost(self) -> str:
        return NONE if self.usd is None else small_money(self.usd)

    @property
    def length(self) -> str:
        return NONE if self.tokens is None else f"{self.tokens:,.0f}"

    @property
    def failed(self) -> str:
        """Name the answers that failed, by kind; empty without any."""
        counts = ((words, self.values[name]) for words, name in COUNTS.items())
        return ", ".join(f"{count:,} {words}" for words, count in counts if count)

    def number(self, name: str) -> float | None:
        """Return a number of the row; None where it has none."""
        value = self.values.get(name)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


BoardColumn = tuple[HtmlColumn, Callable[[BoardRow], HtmlCell | str]]
"""A column of the board, and what stands in it for a row."""


@dataclass(frozen=True, slots=True)
class Board:
    """A board on one target, ``new items`` or ``this set``. ``footnotes`` are (mark, name, explanation)."""

    rows: tuple[BoardRow, ...]
    footnotes: tuple[tuple[str, str, str], ...]
    method: str
    metric: str
    target: str
    level: float

    @property
    def has_hints(self) -> bool:
        return len({row.hints for row in self.rows}) > 1

    def name(self, row: BoardRow) -> str:
        """Return the model's name, with its hint level where there are several."""
        return row.model + f"@{row.hints}" * self.has_hints

    @property
    def by_rule(self) -> bool:
        """Return whether a rule graded the answers, so that scores on these items are exact."""
        return self.method == RULE

    @property
    def has_labels(self) -> bool:
        """Return whether any row can have labels behind it."""
        labelled = any(row.values["borrowed_labels"] is not None for row in self.rows)
        return labelled and self.method not in (RULE, UNCALIBRATED)

    @property
    def columns(self) -> list[BoardColumn]:
        """Return the columns that say something of these rows."""
        return list(_columns(self))

    @property
    def explained(self) -> list[tuple[str, str]]:
        """Return the columns with what they mean."""
        return [(column.name, column.help) for column, _ in self.columns if column.help]

    # ---- sentences ---------------------------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        return WHERE[self.target]

    @property
    def score_help(self) -> str:
        """Say what a score counts."""
        counted = _METRICS.get(self.metric, f"by “{self.metric.replace('_', ' ')}”" if self.metric else "")
        return f"Percent of the items {counted}".strip() + ". Abstained, unreadable and missing answers count as wrong."

    @property
    def interval_head(self) -> str:
        return "Interval" if self.method == PAPER else f"{percent(self.level)} CI"

    @property
    def meanings(self) -> tuple[str, str]:
        """Say what the intervals hold, and what the rank ranges and the letters hold."""
        return meanings(self.method, self.target, self.level)

    @property
    def cautions(self) -> Iterator[str]:
        """Yield sentences that a reader has to know before the numbers."""
        if self.method == UNCALIBRATED:
            needed = [count if isinstance(count := row.values["labels_needed"], int) else None for row in self.rows]
            # without the command that only the maker of the board can use
            yield need(needed).partition(": `")[0].removesuffix(".") + "."
        if borrowing := sum(NO_OWN in row.notes for row in self.rows):
            yield (
                f"No label on its own answers: {borrowing:,} of {plural(len(self.rows), 'row')} ({NO_OWN}); the labels "
                "behind these scores are on other models’ answers."
            )
        if missing := [f"{row.model} ({row.values['n_missing']:,})" for row in self.rows if row.values["n_missing"]]:
            yield f"Answers are missing, and count as wrong: {first_of(missing)}."


_METRICS = {
    "both_correct": "whose answer and justification are both right",
    "answer_correct": "whose answer is right",
    "justification_correct": "whose justification is right",
}


# ---- from the tables -----------------------------------------------------------------------------------------------


def read_board(folder: RunFolder, frame: pl.DataFrame, manifest: PageManifest) -> Board:
    """Make the board of a leaderboard's rows. Raises DamagedTableError for a table that cannot be read."""
    rows = board_rows(frame)
    return Board(
        rows=_rows(folder, rows, manifest.site.colours),
        footnotes=tuple((mark, _words(flag), FLAGS.get(flag, "")) for flag, mark in _footnotes(rows).items()),
        method=str(rows[0]["method"]) if rows else manifest.scoring.method or "",
        metric=str(rows[0]["metric"]) if rows else manifest.scoring.metric,
        target=THIS_SET if rows and rows[0]["target"] == THIS_SET else NEW_ITEMS,
        level=manifest.scoring.level,
    )


def this_set(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the board for exactly these items; empty where it is for these already, or nothing is known of these."""
    is_other = pl.col("target").ne_missing(THIS_SET) & pl.col("set_score").is_not_null()
    return on_this_set(frame) if frame.filter(is_other).height else frame.clear()


def _rows(folder: RunFolder, rows: Sequence[LeaderboardRow], chosen: Mapping[str, str]) -> tuple[BoardRow, ...]:
    families = table(folder, "predictions", ("model", "family")).unique(maintain_order=True).drop_nulls()
    names = {model: short_line(family) for model, family in families.iter_rows()}
    makers = {row["model"]: maker_name(names.get(row["model"]) or short_line(row["provider"])) for row in rows}
    colours = model_colours(makers, chosen)
    spent, marks = _spent(folder), _footnotes(rows)
    board_rows = []
    for row in rows:
        model, maker, provider = row["model"], makers[row["model"]], maker_name(short_line(row["provider"]))
        usd, tokens = spent.get(str(model), (None, None))
        notes = tuple(marks[flag] for flag in flags_of(row["flags"]))
        by = "" if maker == provider else provider
        board_rows.append(BoardRow(row, maker, by, colours[model], usd, tokens, notes))
    return tuple(board_rows)


def _spent(folder: RunFolder) -> dict[str, tuple[float | None, float]]:
    """Return each model's dollars and output tokens per answer, without answers that another run paid for."""
    spent: dict[str, tuple[float | None, float]] = {}
    names = ("model", "stage", "requests", "output_tokens", "cost_usd")
    for model, stage, requests, tokens, usd in table(folder, "cost", names).iter_rows():
        if stage == "predict" and requests:
            cost = dollars(usd)
            spent[model] = (None if cost is None else cost / requests, (tokens or 0) / requests)
    return spent


def _footnotes(rows: Sequence[LeaderboardRow]) -> dict[str, str]:
    """Return a mark for each flag, in the order in which a reader meets them; a star for rows without own labels."""
    flags = list(dict.fromkeys(flag for row in rows for flag in flags_of(row["flags"])))
    letters = (string.ascii_lowercase[at % 26] + (str(at // 26) if at >= 26 else "") for at in range(len(flags)))
    return {flag: NO_OWN if flag == BORROWED_ONLY else next(letters) for flag in flags}


def _words(name: str) -> str:
    return short_line(name.replace("_", " "))


def failures_by_kind(folder: RunFolder, board: Board) -> HtmlTable | None:
    """Count the failures of each model by kind; None unless a rule graded."""
    counts = failures(folder, board.metric) if board.by_rule else {}
    rows = [(row.model, counts.get(str(row.values["model"]), {})) for row in board.rows]
    return plain_table(failure_table(rows), "How often each kind of failure occurs, by model")


# ---- tables --------------------------------------------------------------------------------------------------------


def board_table(caption: str, board: Board, here: Board | None = None) -> HtmlTable:
    """Return the table; with the board ``here`` on this set, both, of which a switch shows one."""
    bodies = [
        HtmlBody(
            [HtmlRow([cell(row) for _, cell in shown.columns], {"maker": row.maker}) for row in shown.rows],
            name,
            view if here else "",
        )
        for shown, (name, view) in zip([board, here] if here else [board], BODIES, strict=False)
    ]
    return HtmlTable(caption, [column for column, _ in board.columns], bodies, kind="board", sorted_by="rank")


_FIRST = ("rank", "model", "score", "interval", "plot", "range", "cost")


def first_rows(caption: str, board: Board, count: int, address: str) -> HtmlTable:
    """Return the first rows of the board for a page elsewhere, which sees the board's pages at ``address``. Of the
    footnotes only the star stays."""
    shown = [entry for entry in board.columns if entry[0].key in _FIRST]

    def elsewhere(cell: HtmlCell | str, row: BoardRow) -> HtmlCell | str:
        if isinstance(cell, str) or not cell.link:
            return cell
        star = macros("cells.html").star(NO_OWN) if NO_OWN in row.notes else NOTHING
        return replace(cell, link=address + cell.link, after=star)

    rows = [HtmlRow([elsewhere(cell(row), row) for _, cell in shown]) for row in board.rows[:count]]
    return HtmlTable(caption, [column for column, _ in shown], [HtmlBody(rows)], kind="board")


def _columns(board: Board) -> Iterator[BoardColumn]:
    """Yield the columns that say something of these rows: those of a terminal, the drawing and costs."""
    rows, cells, values = board.rows, macros("cells.html"), [row.values for row in board.rows]
    ranked = sum(row["rank"] is not None for row in values)
    drawn: Mapping[str, Callable[[BoardRow], HtmlCell]] = {
        "model": _model_cell,
        "interval": lambda row: _sorted(row.interval, row.width),
        "range": lambda row: _ranks_cell(row, ranked),
    }
    for shared in BOARD if rows else ():
        if OutputForm.PAGE in shared.surfaces and shared.shown(values):
            yield _head(shared, board), drawn.get(shared.name) or partial(_cell, shared)
        if shared.name == "interval":
            ticks, plot = _plot(rows)
            yield HtmlColumn("Score and interval, drawn", "plot", label="", drawing=cells.axis(ticks)), plot
    if any(row.tokens is not None for row in rows):
        words = "What one answer of the model cost by its batch API, without the jury."
        yield HtmlColumn("Cost an answer", "cost", help=words, label=""), lambda row: _sorted(row.cost, row.usd)
        words = "Output tokens of one answer, reasoning among them."
        yield (
            HtmlColumn("Output tokens", "tokens", help=words, is_rest=True),
            lambda row: _sorted(row.length, row.tokens),
        )


def _head(shared: ShownColumn, board: Board) -> HtmlColumn:
    """Return a column of a terminal's board for a page."""
    words = shared.words.format(interval=board.interval_head, on="").replace("\n", " ") or shared.name
    is_score = shared.name == "score"
    return HtmlColumn(
        sentence(words), shared.name, help=board.score_help if is_score else shared.help,
        is_text=shared.is_text, is_head=shared.name == "model", is_falling=shared.name in _FALLING,
        is_rest=shared.name not in _ALWAYS, label="" if shared.name in _UNNAMED else None,
    )  # fmt: skip


def _cell(shared: ShownColumn, row: BoardRow) -> HtmlCell | str:
    text = shared.cell(row.values)
    return _sorted(text, row.number(_SORTED[shared.name])) if shared.name in _SORTED else text


_ENDS = ("score", "lower", "upper", "new_score", "new_lower", "new_upper", "set_score", "set_lower", "set_upper")
"""Range of an axis: it has room for both targets, so that it is the same for both."""


def _plot(rows: Sequence[BoardRow]) -> tuple[list[tuple[str, str]], Callable[[BoardRow], HtmlCell]]:
    """Return place and label of each tick of the axis on which scores and intervals are drawn, and the cell of a row.

    The axis is linear, with a tick at every multiple of a step.
    """
    ends = [end for row in rows for name in _ENDS if (end := row.number(name)) is not None] or [0.0, 100.0]
    low, high = min(ends), max(ends)
    room, widest = max((high - low) * _ROOM, 0.5), (high - low) / _MOST_TICKS
    start, end = low - room, high + room
    step = next((step for step in _STEPS if step >= widest), math.ceil(widest))

    def at(value: float) -> float:
        return 100 * (value - start) / (end - start)

    multiples = range(math.ceil(start / step), math.floor(end / step) + 1)
    ticks = [(_place(at(step * multiple)), f"{step * multiple:g}") for multiple in multiples]

    def cell(row: BoardRow) -> HtmlCell:
        score, places = row.number("score"), ("", "", "")
        if score is not None:
            lowest, highest = (at(score if value is None else value) for value in map(row.number, ("lower", "upper")))
            places = _place(lowest), _place(highest - lowest), _place(at(score))
        return HtmlCell(after=macros("cells.html").plot(ticks, *places))

    return ticks, cell


def _place(value: float) -> str:
    return f"{min(max(value, 0.0), 100.0):.2f}%"


def _sorted(text: str, value: float | None) -> HtmlCell:
    return HtmlCell(text, sort="" if value is None else f"{value:.10g}")


def _model_cell(row: BoardRow) -> HtmlCell:
    cells = macros("cells.html")
    return HtmlCell(
        row.model,
        sort=row.model,
        link=f"models/{row.page}",
        before=cells.dye(row.colour),
        after=cells.after_model(row.notes, row.maker, row.by),
    )


def _ranks_cell(row: BoardRow, ranked: int) -> HtmlCell:
    """Draw the rank range: each rank has a slot of its own width; the bar covers the slots from best to worst."""
    rank, best, worst = (row.number(name) for name in ("rank", "rank_best", "rank_worst"))
    if best is None or worst is None:
        return HtmlCell(sort="", after=macros("cells.html").ranks(row.ranks, "", "", ""))
    places = ("", "", "")
    if rank is not None and ranked > 1:
        slot = 100 / ranked
        places = (_place((best - 1) * slot), _place((worst - best + 1) * slot), _place((rank - 0.5) * slot))
    drawn = macros("cells.html").ranks(row.ranks, *places)
    return HtmlCell(sort=f"{best * 1_000_000 + worst:.0f}", after=drawn)


# ---- a run's site --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RunSite:
    """The site of a run, written into the folder ``building``. ``board``: on new items, or the only one; ``here``: the
    one on this set, if that is another. ``item_ids``: of all items, also of those that only predictions have.

    ``is_by_rule``: a rule graded answers; ``variables``: of the templates of all pages.
    """

    folder: RunFolder
    building: Path
    manifest: PageManifest
    board: Board
    here: Board | None
    item_ids: Sequence[str]
    title: str
    date: str
    is_by_rule: bool
    variables: Mapping[str, object]

    def write(self, name: str, template: str = "", *, loads: bool = False, **values: object) -> None:
        """Write a page with tables, charts and controls. ``template``: by default called as the page; ``loads``: its
        script loads other files of the site."""
        write(self.building / name, template or name, **self.variables, **more_assets(loads=loads), **values)
