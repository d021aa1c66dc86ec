"""A table of a page: its columns and rows, and the one way in which pages show it.

On a phone each row is a card: its head, then each cell behind the name of its column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from markupsafe import Markup

from layton_batch.site.pages import safe_html, sentence, short_line
from layton_batch.text import NONE, Table

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
    """A row. ``data``: what scripts read of it, by name."""

    cells: Sequence[HtmlCell | str]
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HtmlBody:
    """Rows that stand together, or the HTML of them. ``view``: of which target they are."""

    rows: Sequence[HtmlRow] | Markup
    id: str = ""
    view: str = ""


def table_html(
    caption: str,
    columns: Sequence[HtmlColumn],
    bodies: Sequence[HtmlBody],
    totals: Sequence[HtmlRow] = (),
    *,
    kind: str = "cards",
    sorted_by: str = "",
) -> Markup:
    """Return the table as HTML. ``sorted_by``: the key of the column by which it is sorted already."""
    sortable = " data-sortable" if any(len(body.rows) > 1 for body in bodies) else ""
    heads = "".join(_head(column, is_sorted=bool(sorted_by) and column.key == sorted_by) for column in columns)
    row_html = row_renderer(columns)
    parts = [
        f'<tbody role="rowgroup"{_attribute("id", body.id)}{_attribute("class", body.view)}>\n'
        f"{body.rows if isinstance(body.rows, Markup) else ''.join(map(row_html, body.rows))}</tbody>\n"
        for body in bodies
    ]
    if totals:
        parts.append(f'<tfoot role="rowgroup">{"".join(map(row_html, totals))}</tfoot>\n')
    name = escape(caption)
    return safe_html(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">'
        f'<table class="{kind}" role="table"{sortable}><caption class="unseen">{name}</caption>\n'
        f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>\n{"".join(parts)}</table></div>\n'
    )


def row_renderer(columns: Sequence[HtmlColumn]) -> Callable[[HtmlRow], str]:
    """Return the function that shows a row of these columns as HTML."""
    names = ["" if column.is_head else column.name if column.label is None else column.label for column in columns]
    forms = [
        (column.is_head, column.is_text or column.is_head, column.classes, _attribute("data-label", name))
        for column, name in zip(columns, names, strict=True)
    ]

    def render(row: HtmlRow) -> str:
        data = "".join(f' data-{name}="{escape(value)}"' for name, value in row.data.items())
        return f'<tr role="row"{data}>{"".join(map(_cell, forms, row.cells))}</tr>\n'

    return render


def plain_table(
    table: Table, caption: str, links: Mapping[str, str] | None = None, own_heads: Sequence[str] = ()
) -> Markup:
    """Return a table of texts and figures as HTML, without columns that say nothing in any row.

    ``links``: addresses by the text of a first cell; ``own_heads``: names of columns that stay as they are.
    """
    shown = [at for at, _ in enumerate(table.columns) if any(row[at] not in ("", NONE, None) for row in table.rows)]
    columns = [
        HtmlColumn(
            short_line(name) if (name := table.columns[at].name) in own_heads else sentence(name.replace("\n", " ")),
            is_text=table.columns[at].is_text,
            is_head=at == shown[0],
            is_falling=not table.columns[at].is_text,
        )
        for at in shown
    ]
    rows = [
        HtmlRow([
            HtmlCell(text, link=(links or {}).get(text, "") * (at == shown[0]))
            for at in shown
            for text in [short_line(NONE if row[at] is None else row[at], 500)]
        ])
        for row in table.rows
    ]  # fmt: skip
    return table_html(caption, columns, [HtmlBody(rows)])


def _head(column: HtmlColumn, *, is_sorted: bool) -> str:
    first = "descending" if column.is_falling else "ascending"
    order = _attribute("aria-sort", "ascending" if is_sorted else "")
    attributes = f"{_attribute('class', column.classes)}{_attribute('title', column.help)}{order}"
    if column.drawing:
        name = f'{column.drawing}<span class="unseen">{escape(column.name)}</span>'
        return f'<th scope="col" role="columnheader"{attributes} data-plain>{name}</th>'
    key = _attribute("data-name", column.key)
    return f'<th scope="col" role="columnheader"{attributes}{key} data-first="{first}">{escape(column.name)}</th>'


def _cell(form: tuple[bool, bool, str, str], cell: HtmlCell | str) -> str:
    is_head, is_text, classes, label = form
    if isinstance(cell, str):
        text, value, content = cell, "", ""
    else:
        text, content = cell.text, cell.after
        value = "" if cell.sort is None else f' data-value="{escape(cell.sort)}"'
        classes = f"{classes} {cell.tone}" if cell.tone else classes
    if text:
        shown = f"<bdi>{escape(text)}</bdi>" if is_text else escape(text)
        if not isinstance(cell, str):
            shown = f'{cell.before}<a href="{escape(cell.link)}">{shown}</a>' if cell.link else f"{cell.before}{shown}"
        content = f"{shown}{content}"
    classes = f' class="{classes.strip()}"' if classes else ""
    if is_head:
        return f'<th scope="row" role="rowheader"{classes}{value}>{content}</th>'
    return f'<td role="cell"{classes}{value}{label if content else ""}>{content}</td>'


def _attribute(name: str, value: str) -> str:
    return f' {name}="{escape(value)}"' if value else ""
