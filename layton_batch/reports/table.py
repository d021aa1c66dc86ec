"""The document that a command returns, and one way to show a table: on a terminal, as CSV, Markdown, JSON or HTML.

Names in a table come from manifests, models and providers. Each form guards against what a name could do in it: move
the cursor, start a formula in a spreadsheet, break out of a Markdown cell.
"""

from __future__ import annotations

import csv
import html
import io
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from layton_batch.columns import AnyTable, Column, OutputForm
from layton_batch.records import JsonValue
from layton_batch.text import is_formula, one_line, printable

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console
    from rich.text import Text


class Document:
    """Facts that a command returns. The command line takes ``--json`` or ``--format`` by ``FORMATS``."""

    __slots__ = ()
    FORMATS: ClassVar[tuple[str, ...]] = ("table", "json")
    """Forms that the document can be printed in; ``table`` is for a terminal."""

    def end(self) -> int:
        """Return the exit code of the command that gives the document, or raise the error that the command ends with
        once the document is shown."""
        return 0

    def show(self) -> None:
        """Print the document for a person."""
        raise NotImplementedError

    def as_json(self) -> object:
        """Return the document as JSON values."""
        raise NotImplementedError

    def text(self, form: str) -> str:
        """Return the document as a file of another form of ``FORMATS``."""
        raise NotImplementedError


WITHOUT_TERMINAL = 120
"""Columns where there is no terminal to ask."""
NARROW = 80
_LEAST, _LEAST_HEAD = 12, 8  # characters of a folded cell, of a folded heading of figures
_BREAK_AFTER = "-_./:@"
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
# $ before a digit is money; as mathematics it needs two
_MARKDOWN = re.compile(r"(`layton-batch [\w ./:=-]*`)|([\\`*_{}\[\]<>|#~&@]|\$(?!\d))")
_AUTOLINK = re.compile(r"(?i)(:)(//)|(www)(\.)")


# ---- files ---------------------------------------------------------------------------------------------------------


def json_text(value: object) -> str:
    """One JSON document."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE, default=str).decode()


def json_line(value: object) -> str:
    """One JSON document on one line."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE, default=str).decode()


def as_csv(table: AnyTable, keep: str = "") -> str:
    """A header and a line a row, without the total, which would count twice in a spreadsheet; what that would run as a
    formula begins with an apostrophe. ``keep``: line breaks and the like that stay as they are inside a cell."""
    out, shown = io.StringIO(), table.on(OutputForm.CSV)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_csv_cell(column.name) for column in shown])
    writer.writerows([_csv_cell(column.read(row), keep) for column in shown] for row in table.rows)
    return out.getvalue()


def _csv_cell(value: JsonValue, keep: str = "") -> JsonValue:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    shown = printable(value, keep=keep)
    return f"'{shown}" if is_formula(value) or is_formula(shown) else shown


def as_markdown(table: AnyTable) -> str:
    """A GitHub-style table, with its notes below."""
    shown = table.on(OutputForm.MARKDOWN)
    names = [column.heading.replace("\n", " ") for column in shown]
    rules = ["---" if column.is_text else "---:" for column in shown]
    lines = [names, rules, *([*map(markdown_text, row)] for row in table.cells(OutputForm.MARKDOWN))]
    notes = (f"\n{markdown_text(note)}\n" for note in table.notes)
    return "".join((*(f"| {' | '.join(line)} |\n" for line in lines), *notes))


def markdown_text(text: str) -> str:
    """Return text that is nothing but text in a cell of a Markdown table; a command between ` stays one."""
    escaped = _MARKDOWN.sub(lambda match: match[1] or f"\\{match[2]}", printable(text))
    return _AUTOLINK.sub(lambda match: f"{match[1] or match[3]}\\{match[2] or match[4]}", escaped)


def as_html(table: AnyTable) -> str:
    """A table of a notebook's page, with its title above and its notes below; every text in it is nothing but text."""
    shown = table.on(OutputForm.PAGE)
    heads = "".join(f"<th>{_html(column.heading)}</th>" for column in shown)
    sides = ["left" if column.is_text else "right" for column in shown]
    rows = (
        "".join(f'<td style="text-align:{side}">{_html(cell)}</td>' for side, cell in zip(sides, row, strict=True))
        for row in table.cells(OutputForm.PAGE)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = f"<p><strong>{_html(table.title)}</strong></p>" if table.title else ""
    notes = "".join(f"<p><small>{_html(note)}</small></p>" for note in table.notes)
    return f"{title}<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _html(text: str) -> str:
    return html.escape(one_line(text))


# ---- frames --------------------------------------------------------------------------------------------------------


def frame_of(record: type, rows: Sequence[Mapping[str, object]], **more: pl.DataType) -> pl.DataFrame:
    """Return a frame with a row a record and its fields as columns. ``more``: further columns of the rows."""
    import polars as pl  # who only looks at a status need not load it

    types = {"str": pl.String(), "int": pl.Int64(), "float": pl.Float64(), "float | None": pl.Float64()}
    return pl.DataFrame(rows, schema={field.name: types[str(field.type)] for field in fields(record)} | more)


# ---- terminals -----------------------------------------------------------------------------------------------------


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A Rich console; NO_COLOR is honoured; without a terminal tables may be as wide as they like."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = width or (None if stream.isatty() else WITHOUT_TERMINAL)
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def say_line(text: str, style: str = "") -> None:
    """A line on stdout, harmless whoever wrote parts of it."""
    console().print(one_line(text), style=style, markup=False)


def heading(text: str, *, first: bool = False) -> None:
    """A line in bold; a blank line goes before, unless it is the ``first``."""
    if not first:
        console().print()
    say_line(text, "bold")


def show(table: AnyTable, *, width: int | None = None, gap: int | None = None) -> None:
    """The table on stdout, in ``width`` columns (default: the terminal's): the widest texts and headings are folded.

    ``gap``: blanks between columns; by default two where nothing must be folded for it, else one. No figure is folded:
    where they need more than the terminal has, its lines break.
    """
    from rich.table import Table as Grid
    from rich.text import Text

    screen, shown = console(width=width), table.on(OutputForm.TERMINAL)
    if table.title:
        screen.print(Text(one_line(table.title), style="bold"))
    lines = [[*map(one_line, row)] for row in table.cells(OutputForm.TERMINAL)]
    widths = [_width(column.heading, (line[i] for line in lines)) for i, column in enumerate(shown)]
    least = [
        _LEAST if column.is_text else _width(column.heading[:_LEAST_HEAD], (line[i] for line in lines))
        for i, column in enumerate(shown)
    ]
    gaps = len(shown) - 1
    gap = gap or (2 if sum(widths) + 2 * gaps <= screen.width else 1)
    widths = _fitted(widths, least, screen.width - gap * gaps)
    laid = Grid(box=None, show_header=any(column.heading for column in shown), header_style="bold",
                padding=(0, gap, 0, 0), pad_edge=False)  # fmt: skip
    for column, fitted in zip(shown, widths, strict=True):
        name = "\n".join(folded(line, fitted) for line in column.heading.split("\n"))
        laid.add_column(Text(name), style=column.style, justify="left" if column.is_text else "right", no_wrap=True)
    for number, line in enumerate(lines):
        laid.add_row(*map(_cell, shown, line, widths), style="bold" if number >= len(table.rows) else "")
    console(width=max(screen.width, sum(widths) + gap * gaps)).print(laid)
    for note in table.notes:
        say_line(note, "dim")


def _cell(column: Column[Any], text: str, width: int) -> Text:
    from rich.text import Text

    return Text(folded(text, width) if column.is_text else text, style=column.styles.get(text, ""))


def _width(name: str, cells: Iterable[str]) -> int:
    return max(map(len, (*name.split("\n"), *cells)))


def _fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Column widths that fit the room: the widest column gives way, none to less than its ``least``."""
    fitted = list(widths)
    while sum(fitted) > room:
        folding = [i for i, width in enumerate(fitted) if width > least[i]]
        if not folding:
            break
        fitted[max(folding, key=fitted.__getitem__)] -= 1
    return fitted


def folded(text: str, width: int) -> str:
    """A long text on several lines, broken after a blank, else after a hyphen or the like, where it has one."""
    lines = []
    while len(text) > width:
        head = text[:width]
        blank, mark = head.rfind(" "), max(head.rfind(mark) for mark in _BREAK_AFTER)
        cut = next((place + 1 for place in (blank, mark) if place >= width // 3), width)
        lines.append(text[:cut])
        text = text[cut:]
    return "\n".join([*lines, text])


def print_table(table: AnyTable, *, first: bool = False) -> None:
    """Print a titled table of at most 80 columns; a blank line goes before, unless it is the ``first``."""
    heading(table.title, first=first)
    show(replace(table, title=""), width=min(console().width, NARROW), gap=1)
