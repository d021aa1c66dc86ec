"""Columns of documents, each said once, and tables of them, which every surface reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Any, Generic, TypeVar

from layton_batch.records import JsonValue
from layton_batch.text import NONE

Row = TypeVar("Row")


class OutputForm(StrEnum):
    """Form in which a table is shown. ``PAGE`` is HTML: a notebook, a page that a command writes, and the site."""

    TERMINAL = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "md"
    PAGE = "html"


EVERYWHERE = frozenset(OutputForm)
DATA = frozenset({OutputForm.JSON, OutputForm.CSV})
FOR_PEOPLE = EVERYWHERE - DATA


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table.

    ``name``: its key in JSON and CSV, and the attribute of a row that it shows unless there is a ``value``. ``words``:
    its heading for people (default: the name); line breaks in it are for terminals. ``format`` of the value, or
    ``text`` of the row, is the cell for people. ``is_text``: flush left, and folded if the table is too wide.
    ``styles``: the style of cells with these texts. ``help``: what the column means, for a page.
    """

    name: str
    words: str = ""
    format: str = "{}"
    value: Callable[[Row], JsonValue] | None = None
    text: Callable[[Row], str] | None = None
    surfaces: Collection[OutputForm] = EVERYWHERE
    is_text: bool = False
    style: str = ""
    styles: Mapping[str, str] = field(default_factory=dict)
    help: str = ""

    @property
    def heading(self) -> str:
        return self.words or self.name

    def read(self, row: Row) -> JsonValue:
        """Return the value of a row, for programs."""
        value: JsonValue = getattr(row, self.name) if self.value is None else self.value(row)
        return value

    def cell(self, row: Row) -> str:
        """Return the text of a row, for people."""
        if self.text is not None:
            return self.text(row)
        value = self.read(row)
        return NONE if value is None else self.format.format(value)


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """Rows under columns. ``total``: the row below that adds the others up; ``notes``: lines below the table."""

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    title: str = ""
    notes: Sequence[str] = ()
    total: Row | None = None

    def on(self, surface: OutputForm) -> list[Column[Row]]:
        """Return the columns that stand on a surface."""
        return [column for column in self.columns if surface in column.surfaces]

    def cells(self, surface: OutputForm) -> Iterator[list[str]]:
        """Yield the cells of each row for people, those of the total at the end."""
        shown = self.on(surface)
        rows = self.rows if self.total is None else [*self.rows, self.total]
        yield from ([column.cell(row) for column in shown] for row in rows)

    def records(self) -> list[dict[str, JsonValue]]:
        """Return each row by the names of the columns for JSON, without the total."""
        return [record(self.on(OutputForm.JSON), row) for row in self.rows]


def record(columns: Iterable[Column[Row]], row: Row) -> dict[str, JsonValue]:
    """Return one row by the names of its columns."""
    return {column.name: column.read(row) for column in columns}


Texts = Sequence[JsonValue]


def text_table(
    title: str, heads: Iterable[str], rows: Iterable[Texts], *, text: int | Collection[str] = 1
) -> Table[Texts]:
    """Make a table of rows that are tuples. ``text``: how many of the first columns, or which columns, hold words, not
    figures."""

    def is_text(at: int, name: str) -> bool:
        return at < text if isinstance(text, int) else name in text

    columns: list[Column[Texts]] = [
        Column(name, value=itemgetter(at), is_text=is_text(at, name)) for at, name in enumerate(heads)
    ]
    return Table(columns, list(rows), title)


AnyTable = Table[Any]
"""A table of whatever rows."""
