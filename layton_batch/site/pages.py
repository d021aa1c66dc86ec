"""From views to HTML: the templates, the policy that tells a browser to run nothing but our own script, texts, and
tables, which the macro ``table`` of ``parts.html`` shows.

On a phone each row of a table is a card: its head, then each cell behind the name of its column.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from hashlib import sha256
from itertools import compress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from layton_batch.columns import AnyTable, Column, OutputForm
from layton_batch.costs.report import UNKNOWN
from layton_batch.text import NONE, visible

_CLOSING = ("</script", "</style", "<!--")
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#1d5a9e"/>'
    '<path d="M5 4.5h8M3 8h7M2.5 11.5h5" stroke="#a9c6e6" stroke-width="2" stroke-linecap="round"/>'
    '<g fill="#fff"><circle cx="10" cy="4.5" r="1.5"/><circle cx="6" cy="8" r="1.5"/><circle cx="5" cy="11.5" r="1.5"/>'
    "</g></svg>"
)


@cache
def environment() -> Environment:
    """Return the templates with escaping on, an error for every name that is not given, and the assets of a page."""
    loaded = Environment(
        loader=PackageLoader("layton_batch.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    loaded.filters.update(line=short_line, passage=passage, count="{:,}".format, spent=spent_words)
    loaded.globals.update(icon="data:image/svg+xml," + quote(_ICON, safe="/:=' "), **_assets(loaded, ("site",)))
    # A few judges say the same of ten thousand answers.
    loaded.globals["judge_word"] = lru_cache(4096)(macros("cells.html", loaded).judge_word)
    return loaded


def macros(template: str, loaded: Environment | None = None) -> Any:
    """Return the macros of a template as functions that return HTML."""
    return (loaded or environment()).get_template(template).module


@cache
def more_assets(*, loads: bool = False) -> dict[str, str]:
    """Return the assets of a page with tables, charts and controls; ``loads``: as for ``policy``."""
    return _assets(environment(), ("site", "board"), loads=loads)


def _assets(loaded: Environment, names: Iterable[str], *, loads: bool = False) -> dict[str, str]:
    style, script = ("".join(_asset(loaded, f"{name}.{kind}") for name in names) for kind in ("css", "js"))
    return {"style": style, "script": script, "policy": policy(style, script, loads=loads)}


def _asset(loaded: Environment, name: str) -> str:
    """Read one of our own files; base.html puts it into pages unescaped, and nothing else."""
    if loaded.loader is None:
        raise LookupError(name)
    text = loaded.loader.get_source(loaded, name)[0]
    if any(closing in text for closing in _CLOSING):
        raise ValueError(f"{name} would end its own element")
    return text


def policy(style: str, script: str, *, loads: bool = False) -> str:
    """Return the Content-Security-Policy of a page: images only from data URLs, our one style and one script by hash,
    no connection to anywhere; ``loads``: also what that script loads, for files have no host to name."""
    return "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src {_source(style)}",
            f"script-src {_source(script)}" + (" 'strict-dynamic'" if loads else ""),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def render(template: str, **values: object) -> bytes:
    """Return a page in UTF-8."""
    return environment().get_template(template).render(**values).encode("utf-8", "replace")


def write(path: Path, template: str, **values: object) -> None:
    """Write one page into a new folder."""
    path.write_bytes(render(template, **values))


# ---- texts ---------------------------------------------------------------------------------------------------------

LONGEST = 20_000
"""Characters of one text that a page holds; the rest stays in the tables."""
LONG = 1_500
_LONG_LINES = 30
_TEASER = 160
_NAME = 200

_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text for a page. ``teaser``: what stands for a long one while it is folded, else empty; ``size``: the
    characters of the whole text where ``text`` is cut, else 0."""

    text: str
    teaser: str = ""
    size: int = 0


def short_line(value: object, longest: int = 200) -> str:
    """Return any value as a single short line, for names, titles and cells; None is empty."""
    if value is None:
        return ""
    text = str(value)
    return _name(text, longest) if len(text) <= _NAME else _line(text, longest)


def sentence(text: str) -> str:
    """Return a line of a terminal as it begins on a page."""
    shown = short_line(text, 500)
    return shown[:1].upper() + shown[1:]


def _line(text: str, longest: int) -> str:
    shown = visible(_BLANKS.sub(" ", text[: longest * 4]).strip())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


_name = lru_cache(4096)(_line)  # the same few hundred names stand in a hundred thousand places


def passage(value: object, size: int | None = 0) -> ShownText | None:
    """Return a text of several lines; None where there is nothing to read. ``size``: its characters where it was cut
    before."""
    if not isinstance(value, str) or not value.strip():
        return None
    text = visible(value[:LONGEST].replace("\r\n", "\n").strip())
    length = max(size or 0, len(value))
    is_long = len(text) > LONG or text.count("\n") > _LONG_LINES
    return ShownText(text, short_line(text, _TEASER) if is_long else "", length if length > LONGEST else 0)


def small_money(usd: float) -> str:
    """Return dollars with two digits that say something: one answer may cost a thousandth of a cent."""
    if usd >= 1:
        return f"${usd:,.2f}"
    digits = 2
    while digits < 8 and usd and round(usd, digits) < 10 ** (1 - digits):
        digits += 1
    return f"${usd:.{digits}f}"


def dollars(usd: object) -> float | None:
    """Read an amount of a table; None for one that is unknown."""
    try:
        amount = Decimal(str(usd))
    except InvalidOperation:
        return None
    return float(amount) if amount.is_finite() else None


def spent_words(reply: Mapping[str, Any], prompt: int = 0) -> str:
    """Say what a reply took: tokens and cost, if a table knows; and the number of its prompt, if it has one."""
    named = f"prompt {prompt}" if prompt else ""
    if reply["is_reused"] is None:
        return named
    usd, thought = dollars(reply["cost_usd"]), reply["reasoning_tokens"]
    reasoning = f" ({thought:,} reasoning)" if thought else ""
    cost = "cost unknown" if usd is None else small_money(usd)
    before = ", paid for before" if reply["is_reused"] else ""
    tokens = f"{reply['input_tokens'] or 0:,} tokens in, {reply['output_tokens'] or 0:,} out{reasoning}"
    return f"{named}{' · ' if named else ''}{tokens}, {cost}{before}"


# ---- tables --------------------------------------------------------------------------------------------------------

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
    lines = table.rows if table.total is None else [*table.rows, table.total]
    columns = table.on(OutputForm.PAGE)
    has_words = (any(column.cell(line) not in ("", NONE) for line in lines) for column in columns)
    first, *columns = compress(columns, has_words)
    rows = []
    for line in lines:
        name = short_line(first.cell(line), 500)
        head = HtmlCell(name, link=(links or {}).get(name, ""))
        rows.append(HtmlRow([head, *(_plain_cell(column, line) for column in columns)]))
    heads = [_html_column(column, own_heads, is_head=column is first) for column in (first, *columns)]
    body, total = (rows, []) if table.total is None else (rows[:-1], rows[-1:])
    return HtmlTable(caption, heads, [HtmlBody(body)], total)


def _plain_cell(column: Column[Any], row: object) -> HtmlCell | str:
    """Return a cell that is sorted by its exact value if its text shows less; what is not known stands last."""
    text, value = short_line(column.cell(row), 500), column.read(row)
    if not column.is_text and value in (None, UNKNOWN):
        return HtmlCell(text, sort="")
    return text if column.is_text or str(value) == text else HtmlCell(text, sort=str(value))


def _html_column(column: Column[Any], own_heads: Sequence[str], *, is_head: bool) -> HtmlColumn:
    """Return a page's column for a column of a document."""
    words = column.heading
    name = short_line(words) if words in own_heads else sentence(words.replace("\n", " "))
    return HtmlColumn(name, is_text=column.is_text, is_head=is_head, is_falling=not column.is_text)
