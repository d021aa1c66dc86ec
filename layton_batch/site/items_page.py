"""The list of items, what it is filtered and searched by, and what models get wrong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import polars as pl

from layton_batch.site.item_content import ItemContent
from layton_batch.site.pages import short_line, write
from layton_batch.site.run_site import RunSite
from layton_batch.site.run_tables import STANDINGS
from layton_batch.text import with_guard

ALL_WRONG, SAME_ANSWER = "all_wrong.csv", "same_wrong_answer.csv"
LEAST_MODELS = 2
_BANDS = ("none", "under a quarter", "a quarter to a half", "a half to three quarters", "over three quarters", "all")
"""Groups of items, by the share of graded models that got them right."""
_BY_RULE = {name: words for name, words in STANDINGS.items() if name != "disputed"}
_BY_RULE |= {"partly": "partly right", "open": "not graded"}
_EDGES = " \t\n.,;:!?\"'“”‘’()[]*_"


@dataclass(frozen=True, slots=True)
class Tally:
    """Replies by their result. ``counts``: by the names of ``STANDINGS``."""

    counts: Counter[str]
    by_rule: bool = False

    @property
    def words(self) -> Mapping[str, str]:
        """Return the name of each part."""
        return _BY_RULE if self.by_rule else STANDINGS

    @property
    def bars(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, start and width in percent of each part that is not empty, side by side."""
        start, total = 0, self.counts.total()
        for name in STANDINGS:
            if count := self.counts[name]:
                yield name, f"{100 * start / total:.2f}%", f"{100 * count / total:.2f}%"
                start += count

    @property
    def summary(self) -> str:
        """Describe the counts in words."""
        parts = (f"{self.counts[name]:,} {words}" for name, words in self.words.items() if self.counts[name])
        return ", ".join(parts) or "no answers yet"

    @property
    def sort(self) -> str:
        """Most right first, then most nearly right; empty where nothing was judged."""
        return "" if self.standing == "open" else f"{self.counts['right'] + self.counts['partly'] / 1_000_000:.6f}"

    @property
    def judged(self) -> int:
        return self.counts.total() - self.counts["open"]

    @property
    def standing(self) -> str:
        """Classify the judged replies: all right, all wrong, or split."""
        right = self.counts["right"]
        if not self.judged:
            return "open"
        if right == self.judged:
            return "right"
        return "split" if right or self.counts["partly"] or self.counts["disputed"] else "wrong"

    @property
    def band(self) -> str:
        """Return the place in the groups of items by how many models got them right; empty where nothing was judged."""
        if not self.judged:
            return ""
        share = self.counts["right"] / self.judged
        if share in (0, 1):
            return str(5 * int(share))
        return str(1 if share < 0.25 else 2 if share <= 0.5 else 3 if share <= 0.75 else 4)


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """A wrong answer as the first of its models wrote it."""

    text: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedItem:
    """Entry of the list of items. ``name``: the file name of its page, from its number alone.

    ``marks``: a letter for each of the board's models: 1 right, 0 not right, - not judged. ``words``: what a search
    finds it by; ``shared``: the wrong answer of most models, None if no two share one.
    """

    number: int
    name: str
    item_id: str
    category: str
    question: str
    has_image: bool
    tally: Tally
    marks: str
    content: ItemContent
    words: str
    shared: SharedAnswer | None


def shared_answer(wrong: Iterable[tuple[str, str]]) -> SharedAnswer | None:
    """Return the answer that most models give. ``wrong``: model and answer of each wrong reply.

    Capitals, blanks and marks at the ends do not count.
    """
    groups: dict[str, tuple[str, dict[str, None]]] = {}
    for model, text in wrong:
        key = " ".join(text.casefold().split()).strip(_EDGES)
        if key:
            groups.setdefault(key, (text, {}))[1][model] = None
    text, models = max(groups.values(), key=lambda group: len(group[1]), default=("", {}))
    return SharedAnswer(short_line(text, 300), tuple(models)) if len(models) >= LEAST_MODELS else None


def write_items_page(site: RunSite, items: Sequence[ListedItem]) -> None:
    """Write the list's page, the words of its search, and the lists of what models get wrong together."""
    folder = site.building / "items"
    all_wrong = [item for item in items if item.tally.standing == "wrong"]
    shared = sorted((item for item in items if item.shared), key=lambda item: -len(_models(item)))
    bands = [(str(place), words) for place, words in enumerate(_BANDS)]
    worths = {item.content.picarats for item in items if item.content.picarats is not None}
    models = list(dict.fromkeys(row.model for row in site.board.rows))
    used_bands = {item.tally.band for item in items}
    site.write(
        "items/index.html", "items.html", loads=True, items=items,
        categories=[(name, name) for name in sorted({item.category for item in items} - {""})],
        worths=[(worth, worth) for worth in sorted(worths)],
        bands=[(place, words) for place, words in bands if place in used_bands],
        models=models, indexed=list(enumerate(models)), all_wrong=len(all_wrong), shared=len(shared),
        definitions={item.category: item.content.definition for item in items
                     if item.category and item.content.definition},
    )  # fmt: skip
    (folder / "words.js").write_bytes(b"window.itemWords=" + orjson.dumps([item.words for item in items]) + b";\n")
    if items:
        _write_csv(folder / ALL_WRONG, ("item_id", "category", "question"),
                   [(item.item_id, item.category, item.question) for item in all_wrong])  # fmt: skip
        _write_csv(folder / SAME_ANSWER, ("item_id", "category", "question", "answer", "models", "names"),
                   [(item.item_id, item.category, item.question, item.shared.text, str(len(_models(item))),
                     "; ".join(_models(item))) for item in shared if item.shared])  # fmt: skip
        write(folder / "wrong.html", "wrong.html", **site.variables, all_wrong=all_wrong, shared=shared)


def _models(item: ListedItem) -> tuple[str, ...]:
    return item.shared.models if item.shared else ()


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    safe = [[with_guard(cell) for cell in row] for row in rows]
    pl.DataFrame(safe, dict.fromkeys(columns, pl.String), orient="row").write_csv(path)
