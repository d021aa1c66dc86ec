"""A page a model: how it did in each category, and its answer to every item; and what the comparison reads of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from layton_batch.site.board_table import ShownRow
from layton_batch.site.comparison import ANSWERS, compared_answer, compared_item
from layton_batch.site.explorer import Addresses, ItemPage, ItemTally, ShownReply
from layton_batch.site.html_table import HtmlBody, HtmlCell, HtmlColumn, HtmlRow, row_renderer, table_html
from layton_batch.site.pages import safe_html, short_line, write
from layton_batch.site.sent import SentRequests, settings_text

FOLDER = "models"
AT_ONCE = 10_000
"""Rows that are in memory at a time."""
_SIGNS = {"right": "✓", "partly": "~", "wrong": "✗", "void": "✗", "disputed": "!", "open": "–"}
_COLUMNS = (
    HtmlColumn("Item", "item", is_head=True), HtmlColumn("Category", "cat", is_text=True, label=""),
    HtmlColumn("Question", "q", is_text=True, label=""), HtmlColumn("Answer", "answer", is_text=True, label="answer"),
    HtmlColumn("Result", "result", is_text=True, label=""),
)  # fmt: skip
_ROW_HTML = row_renderer(_COLUMNS)


@dataclass(slots=True)
class _Seen:
    by_category: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    rows: list[str] = field(default_factory=list)
    compared: list[bytes] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)


class ModelPages:
    """Models' pages and files of the comparison, gathered while the items' pages are written.

    ``addresses``: the file of each model of the board; ``spool``: a folder for what memory should not hold;
    ``compares``: whether there is a comparison of items.
    """

    def __init__(self, building: Path, spool: Path, rows: Sequence[ShownRow], *, compares: bool) -> None:
        self.addresses: Addresses = {(row.model, row.provider, row.hints): row.page for row in rows}
        self._seen = {address: _Seen() for address in self.addresses.values()}
        self._building, self._spool = building, spool
        self._items: list[bytes] = []
        self._compares = compares
        self._waiting = 0
        self._by_rule = False
        (building / FOLDER).mkdir()
        if compares:
            (building / ANSWERS).mkdir()

    def add(self, page: ItemPage) -> None:
        """Take each reply of an item."""
        self._by_rule |= page.tally.by_rule
        replies: dict[str, ShownReply] = {}
        for reply in page.replies:
            if address := self.addresses.get((reply.model, reply.provider, reply.hints)):
                seen = self._seen[address]
                seen.by_category[page.category][reply.standing] += 1
                seen.rows.append(_ROW_HTML(_row(page, reply)))
                replies.setdefault(address, reply)
        if self._compares:
            self._items.append(compared_item(page))
            for address, seen in self._seen.items():
                first = replies.get(address)
                seen.compared.append(compared_answer(first))
                seen.marks.append(first.mark if first else "-")
        self._waiting += len(self._seen)
        if self._waiting >= AT_ONCE:
            self._put_aside()

    def _put_aside(self) -> None:
        for address, seen in self._seen.items():
            with (self._spool / address).open("a", encoding="utf-8", errors="replace") as file:
                file.writelines(seen.rows)
            with (self._spool / f"{address}.json").open("ab") as lines:
                lines.writelines(seen.compared)
            seen.rows, seen.compared = [], []
        self._waiting = 0

    def marks(self, rows: Sequence[ShownRow]) -> list[str]:
        """Return a letter an item for each row; nothing where items are not compared."""
        return ["".join(self._seen[row.page].marks) for row in rows] if self._compares else []

    def write(
        self, rows: Sequence[ShownRow], here: Sequence[ShownRow], sent: SentRequests, about: Mapping[str, object]
    ) -> None:
        """Write one page for each row of the board, and the files of the comparison by the rows' places."""
        self._put_aside()
        on_this_set = {row.page: row for row in here}
        for place, row in enumerate(rows):
            seen = self._seen[row.page]
            total = sum(seen.by_category.values(), Counter[str]())
            lines = safe_html((self._spool / row.page).read_text(encoding="utf-8"))  # rows of the same renderer
            body = [HtmlBody(lines, "answer-rows")]
            items = table_html("Items and the model’s answers", _COLUMNS, body, kind="cards answers") if total else ""
            write(
                self._building / FOLDER / row.page, "model.html", **about, row=row, row_here=on_this_set.get(row.page),
                tally=ItemTally(total, self._by_rule), categories=list(self._categories(seen)), items=items,
                settings=settings_text(sent.settings.get(row.model)),
            )  # fmt: skip
            if self._compares:
                answers = (self._spool / f"{row.page}.json").read_bytes()
                script = b"(window.modelAnswers ??= {})[%d] = [\n%s];\n" % (place, answers)
                (self._building / ANSWERS / f"{place}.js").write_bytes(script)
        if self._compares:
            script = b"window.comparedItems = [\n%s];\n" % b"".join(self._items)
            (self._building / ANSWERS / "items.js").write_bytes(script)

    def _categories(self, seen: _Seen) -> Iterator[tuple[str, ItemTally]]:
        for category in sorted(seen.by_category):
            yield category, ItemTally(seen.by_category[category], self._by_rule)


def _row(page: ItemPage, reply: ShownReply) -> HtmlRow:
    answer = short_line(reply.answer.text, 200) if reply.answer else "–"
    result = " · ".join(filter(None, (reply.verdict, reply.vote)))
    return HtmlRow(
        (
            HtmlCell(page.item_id or "(no id)", link=f"../items/{page.name}"),
            page.category,
            page.teaser,
            answer,
            HtmlCell(f"{_SIGNS[reply.standing]} {result}", sort=reply.verdict, tone=f"is-{reply.standing}"),
        ),
        {"standing": reply.standing},
    )
