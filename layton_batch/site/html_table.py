"""A table of a page: its columns and rows, which the macro ``table`` of ``parts.html`` shows.

On a phone each row is a card: its head, then each cell behind the name of its column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from layton_batch.columns import AnyTable, Column, OutputForm
from layton_batch.site.pages import sentence, short_line
from layton_batch.text import NONE

NOTHING = Markup()


@dataclass(frozen=True, slots=True)
class HtmlColumn:
    """A column. ``key``: its name in style sheets and addresses; ``is_head``: its cells name their rows.

    ``is_falling``: a first click sorts from the highest; ``label``: what a phone shows before a cell, by default the
    name; ``is_rest``: shown where a reader asks for all columns; ``drawing``: stands in place of the name, which only a
    screen reader says.
    """

    name: str
    key: str = ""
    is_text: bool = False
    is_head: bool = False
    help: str = ""
    is_falling: bool = False
    label: str | None = None
    is_rest: bool = False
    drawing: Markup = NOTHING

    @property
    def classes(self) -> str:
        """Return the classes of its cells."""
        names = ("" if self.is_text or self.is_head else "num", f"c-{self.key}" * bool(self.key), "rest" * self.is_rest)
        return " ".join(filter(None, names))


@dataclass(frozen=True, slots=True)
class HtmlCell:
    """A cell. ``sort``: what it is sorted by, where that is not its text; ``tone``: a class; ``before``, ``after``:
    what stands around its text."""

    text: str = ""
    sort: str | None = None
    link: str = ""
    tone: str = ""
    before: Markup = NOTHING
    after: Markup = NOTHING


@dataclass(frozen=True, slots=True)
class HtmlRow:
    """A row. ``data``: what scripts and styles read of it, by name."""

    cells: Sequence[HtmlCell | str]
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HtmlBody:
    """Rows that stand together. ``view``: of which target they are."""

    rows: Sequence[HtmlRow]
    id: str = ""
    view: str = ""


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table. ``kind``: its class; ``sorted_by``: the key of the column by which it is sorted already."""

    caption: str
    columns: Sequence[HtmlColumn]
    bodies: Sequence[HtmlBody]
    totals: Sequence[HtmlRow] = ()
    kind: str = "cards"
    sorted_by: str = ""

    @property
    def is_sortable(self) -> bool:
        return any(len(body.rows) > 1 for body in self.bodies)


def plain_table(
    table: AnyTable, caption: str, links: Mapping[str, str] | None = None, own_heads: Sequence[str] = ()
) -> HtmlTable | None:
    """Return a table of texts and figures without columns that say nothing in any row; None without rows.

    ``links``: addresses by the text of a first cell; ``own_heads``: names of columns that stay as they are.
    """
    if not table.rows:
        return None
    columns, lines = table.on(OutputForm.PAGE), list(table.cells(OutputForm.PAGE))
    shown = [at for at, _ in enumerate(columns) if any(line[at] not in ("", NONE) for line in lines)]
    rows = []
    for line in lines:
        texts = [short_line(line[at], 500) for at in shown]
        rows.append(HtmlRow([HtmlCell(texts[0], link=(links or {}).get(texts[0], "")), *texts[1:]]))
    heads = [html_column(columns[at], own_heads, is_head=at == shown[0]) for at in shown]
    body, total = (rows, []) if table.total is None else (rows[:-1], rows[-1:])
    return HtmlTable(caption, heads, [HtmlBody(body)], total)


def html_column(column: Column[Any], own_heads: Sequence[str] = (), *, is_head: bool) -> HtmlColumn:
    """Return a page's column for a column of a document."""
    words = column.heading
    name = short_line(words) if words in own_heads else sentence(words.replace("\n", " "))
    return HtmlColumn(name, is_text=column.is_text, is_head=is_head, is_falling=not column.is_text)
