"""A page a model: how it did in each category, how it failed, and a link to every item that it did not get right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from pathlib import Path

from markupsafe import Markup

from layton_batch.site.board_table import ShownRow
from layton_batch.site.explorer import ItemPage, ItemTally, ShownReply, tally_of
from layton_batch.site.model_facts import ModelFacts
from layton_batch.site.pages import write
from layton_batch.site.sent import SentRequests, settings_text

FOLDER = "models"
ItemKey = tuple[str, str, str]
"""The file name of an item's page, its id and its category."""


@dataclass(slots=True)
class _Seen:
    by_category: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    kinds: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[ItemKey, str, str, str]] = field(default_factory=list)
    """Answers that are not right on all hands: the item, standing, verdict, vote."""

    def add(self, item: ItemKey, reply: ShownReply) -> None:
        self.by_category[item[2]][reply.standing] += 1
        if reply.standing != "right":
            self.kinds[reply.verdict] += 1
            self.missed.append((item, reply.standing, reply.verdict, reply.vote))


def file_name(row: ShownRow) -> str:
    """Return the file name of a model's page: equal at every refresh, and safe for any model name."""
    return f"{sha256(f'{row.model}|{row.provider}|{row.hints}'.encode()).hexdigest()[:12]}.html"


class ModelPages:
    """Models' pages, gathered while the items' pages are written.

    ``names``: the file of each model of the board, by name, provider and hint level.
    """

    def __init__(self, rows: Sequence[ShownRow], on_this_set: Sequence[ShownRow]) -> None:
        self.names = {(row.model, row.provider, row.hints): file_name(row) for row in rows}
        self._rows = rows
        self._here = {file_name(row): row for row in on_this_set}
        self._seen: dict[str, _Seen] = defaultdict(_Seen)
        self._by_rule = False

    def add(self, page: ItemPage) -> None:
        self._by_rule |= page.tally.by_rule
        item = page.name, page.item_id, page.category
        for reply in page.replies:
            if name := self.names.get((reply.model, reply.provider, reply.hints)):
                self._seen[name].add(item, reply)

    def write(
        self, building: Path, facts: Sequence[ModelFacts], sent: SentRequests, about: Mapping[str, object]
    ) -> None:
        """One page for each row of the board; ``facts`` in the rows' order."""
        (building / FOLDER).mkdir()
        for row, fact in zip(self._rows, facts, strict=True):
            seen = self._seen[file_name(row)]
            total = sum(seen.by_category.values(), Counter[str]())
            write(
                building / FOLDER / file_name(row), "model.html", **about, row=row, fact=fact,
                row_here=self._here.get(file_name(row)),
                tally=self._tally(total), categories=list(self._categories(seen)), missed=len(seen.missed),
                missed_rows=_rows(seen), kinds=seen.kinds.most_common(),
                settings=settings_text(sent.settings.get(row.model)),
            )  # fmt: skip

    def _categories(self, seen: _Seen) -> Iterator[tuple[str, ItemTally]]:
        for category in sorted(seen.by_category):
            yield category, self._tally(seen.by_category[category])

    def _tally(self, counts: Counter[str]) -> ItemTally:
        return tally_of(counts, by_rule=self._by_rule)


def _rows(seen: _Seen) -> Markup:
    """Render the rows of the model's wrong answers. They are too many for a template."""
    return Markup("".join(_row(*missed) for missed in seen.missed))  # noqa: S704  (`_row` escapes everything)


def _row(item: ItemKey, standing: str, verdict: str, vote: str) -> str:
    page, item_id, category = (escape(part) for part in item)
    cells = "".join(f'<td role="cell">{cell}</td>' for cell in (category, escape(verdict), escape(vote)))
    link = f'<a href="../items/{page}"><bdi>{item_id or "(no id)"}</bdi></a>'
    return f'<tr role="row" data-standing="{standing}"><th scope="row" role="rowheader">{link}</th>{cells}</tr>\n'
