"""The list of items: a line each, with what it is filtered and searched by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.site.common_failures import NAME, ItemFailures, shared_answer, write_wrong
from layton_batch.site.explorer import STANDINGS, ItemPage, ItemTally
from layton_batch.site.pages import more_assets, short_line, write
from layton_batch.site.search import write_words

BANDS = ("none", "under a quarter", "a quarter to a half", "a half to three quarters", "over three quarters", "all")
"""Groups of items, by the number of graded models that got them right."""


@dataclass(frozen=True, slots=True)
class ItemEntry:
    """Entry of the list of items.

    ``marks``: a letter for each of the board's models: 1 right, 0 not right, - not judged. ``band``: an index of
    ``BANDS``, empty without a judged reply. ``definition``: of its category. ``wrong``: the entry of the wrong answers.
    """

    number: int
    name: str
    item_id: str
    category: str
    excerpt: str
    has_image: bool
    tally: ItemTally
    marks: str
    picarats: int | None
    band: str
    words: str
    definition: str
    wrong: ItemFailures


def listed_item(page: ItemPage, order: Sequence[str]) -> ItemEntry:
    """Make the list entry of an item page. ``order``: the board's models."""
    standings: dict[str, set[str]] = {}
    for reply in page.replies:
        if reply.standing != "open":
            standings.setdefault(reply.model, set()).add(reply.standing)
    marks = (_MARKS.get(frozenset(standings.get(short_line(model), ())), "0") for model in order)
    wrong = ((reply.model, reply.answer.text) for reply in page.replies if reply.answer and reply.standing == "wrong")
    return ItemEntry(
        number=page.number,
        name=page.name,
        item_id=page.item_id,
        category=page.category,
        excerpt=page.excerpt,
        has_image=bool(page.pictures),
        tally=page.tally,
        marks="".join(marks),
        picarats=page.extras.picarats,
        band=_band(page.tally),
        words=page.words,
        definition=page.extras.definition,
        wrong=ItemFailures(
            page.name, page.item_id, page.category, page.excerpt, page.tally.standing == "wrong", shared_answer(wrong)
        ),
    )


_MARKS = {frozenset(("right",)): "1", frozenset[str](): "-"}


def _band(tally: ItemTally) -> str:
    judged = tally.total - tally.counts["open"]
    if not judged:
        return ""
    share = tally.counts["right"] / judged
    if share in (0, 1):
        return str(5 * int(share))
    return str(1 if share < 0.25 else 2 if share <= 0.5 else 3 if share <= 0.75 else 4)


def write_list(folder: Path, items: Sequence[ItemEntry], order: Sequence[str], about: Mapping[str, object]) -> None:
    """Write the list's page, the words of its search, and the lists of what models get wrong together."""
    categories = sorted({item.category for item in items if item.category})
    models = [short_line(model) for model in order]
    definitions = {item.category: item.definition for item in items if item.category and item.definition}
    worths = sorted({item.picarats for item in items if item.picarats is not None})
    bands = [(str(place), words) for place, words in enumerate(BANDS) if any(item.band == str(place) for item in items)]
    write(folder / "index.html", "items.html", **about, **more_assets(loads=True), items=items,
          categories=[(name, name) for name in categories],
          standings=STANDINGS, models=models, indexed=list(enumerate(models)),
          worths=[(worth, worth) for worth in worths], bands=bands,
          definitions=definitions, all_wrong=sum(item.wrong.is_all_wrong for item in items),
          shared=sum(item.wrong.shared is not None for item in items), wrong_page=NAME)  # fmt: skip
    if items:
        write_wrong(folder, [item.wrong for item in items], about)
    write_words(folder, (item.words for item in items))
