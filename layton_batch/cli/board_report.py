"""A leaderboard as a table, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from layton_batch.cli.narrow_table import folded, print_table
from layton_batch.cli.terminal import console, one_line, print_json
from layton_batch.costs.cost_layout import spreadsheet_text
from layton_batch.scoring.board import FLAGS, RULE, Row

if TYPE_CHECKING:
    from rich.console import Console

FORMATS = ("table", "json", "csv", "md")
NONE = "–"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&$@])")
_AUTOLINK = re.compile(r"(?i)(:)(//)|(www)(\.)")
_COUNTS = ("abstained", "unparsed", "missing", "unjudged")
_KINDS_WIDTH, _KIND_LENGTH = 54, 24  # columns of the table of failures; of one heading
_ROOMY = 100  # columns of a terminal from which on cells stand two apart


def write_board(rows: Sequence[Row], form: str, *, wide: bool = False) -> None:
    """The board on stdout in one of FORMATS."""
    if form == "table":
        print_board(rows, wide=wide)
    elif form == "json":
        print_json([asdict(row) for row in rows])
    else:
        sys.stdout.write(board_csv(rows) if form == "csv" else board_markdown(rows))


def print_board(rows: Sequence[Row], *, wide: bool = False) -> None:
    """At most 80 columns wide, long names on two lines; ``wide``: every column, as wide as it takes."""
    if not rows:
        console().print("no model is done yet: there is no leaderboard")
        return
    if rows[0].method == "paper":
        _print_paper(rows)
    else:
        _print_calibrated(rows, wide)
        print_failures(rows)
    for line in board_notes(rows, counts=rows[0].method == "paper"):
        console().print(line, style="yellow", markup=False)


def print_failures(rows: Sequence[Row]) -> None:
    """How often each kind of failure occurs, by model in the board's order; the rarest are one column where there are
    more kinds than fit. Models without any are left out."""
    shown, others = _kinds(rows)
    if not shown:
        return
    title = "not right, by kind" if rows[0].method == RULE else "never judged, by kind"
    hints = len({row.n_hints for row in rows}) > 1
    header = ["model", *(["hints"] if hints else []), *map(_heading, shown), *(["other"] if others else [])]
    lines = []
    for row in (row for row in rows if row.failures):
        counts = [row.failures.get(kind, 0) for kind in shown]
        counts += [sum(row.failures.get(kind, 0) for kind in others)] if others else []
        lines.append([row.model, *([str(row.n_hints)] if hints else []), *map(str, counts)])
    print_table(title, header, lines)


def _kinds(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """The kinds that get a column, in the order they are met, and the rest: a third party's may be many."""
    times: Counter[str] = Counter()
    for row in rows:
        times.update(row.failures)
    shown = list(times)
    others: list[str] = []
    while sum(max(map(len, _heading(kind).split("\n"))) + 1 for kind in shown) > _KINDS_WIDTH:
        others.append(shown.pop(shown.index(min(shown, key=times.__getitem__))))
    return shown, others


def _heading(kind: str) -> str:
    return one_line(kind)[:_KIND_LENGTH].replace("_", "\n", 1) or NONE


def board_notes(rows: Sequence[Row], *, counts: bool = True) -> list[str]:
    """What a reader has to know of some rows, in words; models of which the same is to be said share a line.

    ``counts``: also how many replies are of which kind, where no table of failures says so.
    """
    told: dict[str, list[str]] = {}
    for row in rows:
        counted = [f"{count} {name}" for name in _COUNTS if counts and (count := _count(row, name))]
        said = [", ".join(counted) + "."] if counted else []
        said += [FLAGS.get(flag, one_line(flag)) for flag in row.flags.split(", ") if flag]
        if said:
            told.setdefault(" ".join(said), []).append(one_line(row.model))
    return [f"{_whom(models, len(rows))}: {words}" for words, models in told.items()]


def _whom(models: Sequence[str], all_: int) -> str:
    return "all models" if len(models) == all_ > 1 else ", ".join(models)


def _print_paper(rows: Sequence[Row]) -> None:
    from rich.table import Table
    from rich.text import Text

    title = f"Leaderboard · {rows[0].metric.replace('_', ' ')} · paper"
    table = Table(title=title, caption="interval: the published bootstrap's", box=None, header_style="bold")
    table.add_column("rank", justify="right")
    table.add_column("", justify="right", style="dim")
    table.add_column("model", overflow="fold")
    columns = _paper_columns(rows)
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        texts = {"hints": str(row.n_hints), "score": _number(row.score), "interval": _half_width(row)}
        texts |= {"items": str(row.n_items), **{name: str(_count(row, name)) for name in _COUNTS}}
        spread = _spread(row.rank_best, row.rank_worst)
        table.add_row(_rank(row), spread, Text(one_line(row.model)), *(texts[name] for name in columns))
    console().print(table)


def _paper_columns(rows: Sequence[Row]) -> list[str]:
    """Columns that say nothing in any row are left out."""
    optional = [name for name in _COUNTS if any(_count(row, name) for row in rows)]
    hints = ["hints"] if len({row.n_hints for row in rows}) > 1 else []
    return [*hints, "score", "interval", "items", *optional]


def _print_calibrated(rows: Sequence[Row], wide: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    columns = _columns(rows, wide)
    cells = [[_cell(row, name) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(columns)]
    screen = _wide_console(sum(widths)) if wide else console()
    gap = 2 if screen.width >= _ROOMY else 1
    model = columns.index("model")
    room = max(16, screen.width - sum(widths) + widths[model] - gap * (len(columns) - 1))
    table = Table(box=None, header_style="bold", padding=(0, gap, 0, 0), pad_edge=False)
    for name in columns:
        left = name in ("model", "provider")
        table.add_column(name, justify="left" if left else "right", style="dim" if name == "box" else "",
                         overflow="fold", no_wrap=not left)  # fmt: skip
    for line in cells:
        line[model] = folded(line[model], room)
        table.add_row(*map(Text, line))
    screen.print(Text(_title(rows), style="bold"))
    screen.print(table)
    for told in _legend(rows[0]):
        screen.print(told, style="dim", markup=False)


def _wide_console(width: int) -> Console:
    """A console that never folds: what is too wide for the terminal is for ``less -S`` or a file."""
    from rich.console import Console

    return Console(width=max(width + 60, 120), highlight=False)


def _title(rows: Sequence[Row]) -> str:
    items = {row.n_items for row in rows}
    count = f"{items.pop()} items" if len(items) == 1 else f"{min(items)} to {max(items)} items"
    how = "graded by rule" if rows[0].method == RULE else one_line(rows[0].method)
    return f"Leaderboard · {one_line(rows[0].metric.replace('_', ' '))} · {how} · {count}"


def _legend(row: Row) -> tuple[str, ...]:
    level = f"{100 * row.level:g} %"
    if row.method == RULE:
        return (
            "score: exact on these items",
            f"new: {level} for new items of this kind · box: ranks on such items, all at once, {level}",
        )
    return (
        f"these: {level} for exactly these items · new: {level} for new items of this kind",
        f"box: ranks on these items, all models at once, {level}",
        "labels: own + borrowed from other models · bin: fewest borrowed behind a vote",
    )


def _columns(rows: Sequence[Row], wide: bool) -> list[str]:
    """Columns that say nothing in any row are left out of the narrow table; counts stand in the notes there."""
    jury = rows[0].method != RULE
    hints = ["hints"] if wide or len({row.n_hints for row in rows}) > 1 else []
    items = ["items"] if wide or len({row.n_items for row in rows}) > 1 else []
    score = ["score", "these", "new"] if jury else ["score", "new"]
    labels = ["labels", "bin"] if jury else []
    if not wide:
        return ["#", "box", "model", *hints, *score, *labels, *items]
    counts = [*_COUNTS] if jury else [*_COUNTS[:3]]
    return ["#", "box", *(["box, new"] if jury else []), "model", "provider", *hints, *score, *labels, *items, *counts]


def _cell(row: Row, column: str) -> str:
    if column in _CELLS:
        return _CELLS[column](row)
    if column in ("model", "provider"):
        return one_line(getattr(row, column))
    return str(_count(row, column))


def _count(row: Row, name: str) -> int:
    return int(getattr(row, f"n_{name}"))


def _rank(row: Row) -> str:
    return NONE if row.rank is None else str(row.rank)


def _spread(best: int | None, worst: int | None) -> str:
    if best is None or worst is None:
        return ""
    return f"{best}–{worst}"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"


def _interval(lower: float | None, upper: float | None) -> str:
    return NONE if lower is None or upper is None else f"{lower:.1f}–{upper:.1f}"


def _half_width(row: Row) -> str:
    return NONE if row.score is None or row.half_width is None else f"±{row.half_width:.1f}"


def _labels(row: Row) -> str:
    return f"{row.own_labels}+{row.borrowed_labels}"


_CELLS: Mapping[str, Callable[[Row], str]] = {
    "#": _rank,
    "box": lambda row: _spread(row.rank_best, row.rank_worst),
    "box, new": lambda row: _spread(row.new_rank_best, row.new_rank_worst),
    "score": lambda row: _number(row.score),
    "these": lambda row: _interval(row.lower, row.upper),
    "new": lambda row: _interval(row.new_lower, row.new_upper),
    "labels": _labels,
    "bin": lambda row: NONE if row.smallest_gold_bin is None else str(row.smallest_gold_bin),
}
"""What stands under a heading of the table."""


def board_csv(rows: Sequence[Row]) -> str:
    """A header and a row per model; names that a spreadsheet would run as formulas are quoted with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [field.name for field in fields(Row) if field.name != "failures"]  # one cell holds one value
    writer.writerow(names)
    writer.writerows([[_csv_cell(getattr(row, name)) for name in names] for row in rows])
    return out.getvalue()


def _csv_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    return spreadsheet_text(value)


def board_markdown(rows: Sequence[Row]) -> str:
    """A GitHub-style table; names cannot break out of their cell."""
    paper = bool(rows) and rows[0].method == "paper"
    headers = ["Rank", "Spread" if paper else "Rank box", "Model", "Provider", "Score"]
    headers += ["Interval"] if paper else ["These items", "New items", "Labels", "Smallest bin"]
    headers += ["Items", "Unparsed", "Missing"]
    rules = ["---" if name in ("Model", "Provider") else "---:" for name in headers]
    lines = [_line(headers), "|" + "|".join(rules) + "|"]
    for row in rows:
        cells = [_rank(row), _spread(row.rank_best, row.rank_worst), _markdown(row.model), _markdown(row.provider)]
        cells += [_number(row.score)]
        cells += [_half_width(row)] if paper else [_cell(row, name) for name in ("these", "new", "labels", "bin")]
        lines.append(_line([*cells, str(row.n_items), str(row.n_unparsed), str(row.n_missing)]))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown(text: str) -> str:
    escaped = _MARKDOWN.sub(r"\\\1", one_line(text))
    return _AUTOLINK.sub(lambda match: f"{match[1] or match[3]}\\{match[2] or match[4]}", escaped)
