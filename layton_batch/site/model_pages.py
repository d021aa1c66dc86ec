"""A page a model: how it did in each category, how it failed, and a link to every item that it did not get right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from layton_batch.site.board import ShownRow
from layton_batch.site.explorer import ItemPage, Reply, Tally, tally_of
from layton_batch.site.pages import write
from layton_batch.site.standing import Facts

FOLDER = "models"


@dataclass(frozen=True, slots=True)
class Missed:
    """An answer that is not right on all hands; ``page`` is its item's file name."""

    page: str
    item_id: str
    category: str
    standing: str
    verdict: str
    vote: str


@dataclass(slots=True)
class _Seen:
    by_category: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    missed: list[Missed] = field(default_factory=list)

    def add(self, page: ItemPage, reply: Reply) -> None:
        self.by_category[page.category][reply.standing] += 1
        if reply.standing != "right":
            self.missed.append(
                Missed(page.name, page.item_id, page.category, reply.standing, reply.verdict, reply.vote)
            )


def file_name(row: ShownRow) -> str:
    """Of a model's page: the same at every refresh, and safe whatever the model is called."""
    return f"{sha256(f'{row.model}|{row.provider}|{row.hints}'.encode()).hexdigest()[:12]}.html"


class ModelPages:
    """What the items' pages show, gathered by model while they are written. ``names``: the file of each model of the
    board, by name, provider and hint level."""

    def __init__(self, rows: Sequence[ShownRow]) -> None:
        self.names = {(row.model, row.provider, row.hints): file_name(row) for row in rows}
        self._rows = rows
        self._seen: dict[str, _Seen] = defaultdict(_Seen)
        self._by_rule = False

    def add(self, page: ItemPage) -> None:
        self._by_rule |= page.tally.by_rule
        for reply in page.replies:
            if name := self.names.get((reply.model, reply.provider, reply.hints)):
                self._seen[name].add(page, reply)

    def write(self, building: Path, facts: Sequence[Facts], about: Mapping[str, object]) -> None:
        """One page for each row of the board; ``facts`` in the rows' order."""
        (building / FOLDER).mkdir()
        for row, fact in zip(self._rows, facts, strict=True):
            seen = self._seen[file_name(row)]
            total = sum(seen.by_category.values(), Counter[str]())
            write(
                building / FOLDER / file_name(row), "model.html", **about, row=row, fact=fact,
                tally=self._tally(total), categories=list(self._categories(seen)), missed=seen.missed,
                kinds=Counter(one.verdict for one in seen.missed).most_common(),
            )  # fmt: skip

    def _categories(self, seen: _Seen) -> Iterator[tuple[str, Tally]]:
        for category in sorted(seen.by_category):
            yield category, self._tally(seen.by_category[category])

    def _tally(self, found: Counter[str]) -> Tally:
        return tally_of(found, by_rule=self._by_rule)
