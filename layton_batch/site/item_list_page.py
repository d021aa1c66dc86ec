"""The list of items: a line each, with what it is filtered and searched by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.site.explorer import STANDINGS, ItemPage, ItemTally
from layton_batch.site.pages import loading_assets, short_line, write
from layton_batch.site.search import write_words

BANDS = ("none", "under a quarter", "a quarter to a half", "a half to three quarters", "over three quarters", "all")
"""How many of the models that were judged got an item right."""


@dataclass(frozen=True, slots=True)
class ItemEntry:
    """Entry of the list of items.

    ``failing``: indices of the board's models whose reply is not right. ``band``: an index of ``BANDS``, empty
    without a judged reply.
    """

    number: int
    name: str
    item_id: str
    category: str
    excerpt: str
    has_image: bool
    tally: ItemTally
    failing: tuple[int, ...]
    picarats: int | None
    band: str
    words: str


def listed_item(page: ItemPage, order: Sequence[str]) -> ItemEntry:
    """Make the list entry of an item page. ``order``: the board's models."""
    wrong = {reply.model for reply in page.replies if reply.standing not in ("right", "open")}
    failing = tuple(place for place, model in enumerate(order) if short_line(model) in wrong)
    return ItemEntry(
        page.number, page.name, page.item_id, page.category, page.excerpt, bool(page.pictures), page.tally, failing,
        page.extras.picarats, _band(page.tally), page.words,
    )  # fmt: skip


def _band(tally: ItemTally) -> str:
    judged = tally.total - tally.open
    if not judged:
        return ""
    share = tally.right / judged
    if share in (0, 1):
        return str(5 * int(share))
    return str(1 if share < 0.25 else 2 if share <= 0.5 else 3 if share <= 0.75 else 4)


def write_list(folder: Path, items: Sequence[ItemEntry], order: Sequence[str], about: Mapping[str, object]) -> None:
    """Write the list's page and the words of its search."""
    categories = sorted({item.category for item in items if item.category})
    worths = sorted({item.picarats for item in items if item.picarats is not None})
    bands = [(str(place), words) for place, words in enumerate(BANDS) if any(item.band == str(place) for item in items)]
    write(folder / "index.html", "items.html", **about, **loading_assets(), items=items, categories=categories,
          standings=STANDINGS, failing=[short_line(model) for model in order], worths=worths, bands=bands)  # fmt: skip
    write_words(folder, (item.words for item in items))
