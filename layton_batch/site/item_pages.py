"""A page an item: its question, its reference, and every model's answer with its verdicts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layton_batch.site.board import Board
from layton_batch.site.item_content import answer_cells, item_content
from layton_batch.site.items_page import ListedItem, Tally, shared_answer
from layton_batch.site.pages import passage, short_line, write
from layton_batch.site.run_site import RunSite
from layton_batch.site.run_tables import portions, replies, selected
from layton_batch.site.sent import SentRequest, SentRequests

ITEM_COLUMNS = (
    "item_id", "split", "category", "question", "images", "hints", "answer", "justification", "solution", "payload",
)  # fmt: skip
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
"""Kinds of pictures that a page embeds. SVG is left out: it is a document that can carry scripts."""
LARGEST_IMAGE = 12_000_000
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_HINTS = ("First hint", "Second hint", "Third hint", "Special hint")
_WORD = re.compile(r"\w[\w'’.-]*")
_MOST_SEARCHED = 20_000
"""Characters of one item by which it is found."""
Reply = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """``url`` is empty where ``problem`` says why the image is not shown."""

    url: str
    problem: str


def write_item_pages(site: RunSite, sent: SentRequests) -> list[ListedItem]:
    """Write one page for each item, in order, and return the entries of their list.

    Predictions on items that the items table lacks get pages too, at the end. Raises DamagedTableError.
    """
    folder, board, ids, out = site.folder, site.board, site.item_ids, site.building / "items"
    out.mkdir()
    names = [f"{number:0{max(4, len(str(len(ids))))}d}.html" for number in range(1, len(ids) + 1)]
    places = {row.values["model"]: place for place, row in enumerate(reversed(board.rows))}
    addresses = {row.key: row.page for row in board.rows}
    variables = {**site.variables, "cells_of": answer_cells, "addresses": addresses}
    listed: list[ListedItem] = []
    for portion in portions(folder, ids):
        rows = selected(folder, "items", ITEM_COLUMNS, "item_id", portion).iter_rows(named=True)
        items = {str(row["item_id"]): row for row in rows}
        answers: dict[str, list[Reply]] = defaultdict(list)
        for reply in replies(folder, board.metric, "item_id", portion).iter_rows(named=True):
            answers[reply["item_id"]].append(reply)
        for item_id in portion:
            mine = sorted(answers.pop(item_id, ()), key=lambda reply: _place(reply, places))
            row = items.pop(item_id, dict.fromkeys(ITEM_COLUMNS) | {"item_id": item_id})
            at = len(listed)
            item = _listed(at, names[at], row, mine, board, by_rule=site.is_by_rule)
            neighbours = {"previous": names[at - 1] if at else "", "following": "".join(names[at + 1 : at + 2])}
            write(out / names[at], "item.html", **variables, **neighbours, item=item, row=row, replies=mine,
                  content=item.content, **_prompts(mine, sent), **_parts(row))  # fmt: skip
            listed.append(item)
    return listed


def _place(reply: Reply, places: Mapping[str, int]) -> tuple[int, str, int, int]:
    """Order replies as the board does; other models follow by name."""
    return -places.get(reply["model"], -1), str(reply["model"]), reply["n_hints"], reply["sample"]


def _listed(
    at: int, name: str, row: Mapping[str, Any], answers: Sequence[Reply], board: Board, *, by_rule: bool
) -> ListedItem:
    content = item_content(row["payload"])
    texts = [row["item_id"], row["question"], row["solution"], row["answer"], *(row["hints"] or ())]
    wrong = ((short_line(reply["model"]), reply["answer"]) for reply in answers if reply["standing"] == "wrong")
    return ListedItem(
        number=at + 1,
        name=name,
        item_id=short_line(row["item_id"]),
        category=short_line(row["category"]),
        question=short_line(row["question"], 300),
        has_image=bool(row["images"]),
        tally=Tally(Counter(reply["standing"] for reply in answers), by_rule),
        marks=_marks(answers, dict.fromkeys(row.values["model"] for row in board.rows)),
        content=content,
        words=_search_words(texts, [reply["answer"] for reply in answers]),
        shared=shared_answer((model, text) for model, text in wrong if text),
    )


def _marks(answers: Sequence[Reply], models: Mapping[str, None]) -> str:
    """Return a letter for each of the board's models: 1 right in all its replies, 0 not right, - not judged."""
    standings: dict[str, set[str]] = defaultdict(set)
    for reply in answers:
        standings[reply["model"]].add(reply["standing"])
    judged = (standings[model] - {"open"} for model in models)
    return "".join("-" if not results else "1" if results == {"right"} else "0" for results in judged)


def _search_words(own: Sequence[object], answers: Sequence[object]) -> str:
    """Return every different word once, the item's words first."""
    words: dict[str, None] = {}
    for text in dict.fromkeys(text for text in (*own, *answers) if isinstance(text, str)):
        words.update(dict.fromkeys(_WORD.findall(text[:_MOST_SEARCHED].lower())))
    return " ".join(words)[:_MOST_SEARCHED]


def _parts(row: Mapping[str, Any]) -> dict[str, object]:
    """Return the item's pictures, its hints, and its reference without parts that repeat the answer."""
    reference = [("Answer", row["answer"])]
    reference += [(name.capitalize(), row[name]) for name in ("justification", "solution")
                  if row[name] != row["answer"]]  # fmt: skip
    hints = zip(_HINTS, row["hints"] or (), strict=False)
    return {
        "pictures": [_picture(image) for image in row["images"] or ()],
        "hints": [(name, shown) for name, text in hints if (shown := passage(text))],
        "reference": [(name, shown) for name, text in reference if (shown := passage(text))],
    }


def _prompts(answers: Sequence[Reply], sent: SentRequests) -> dict[str, object]:
    """Return the different prompts of one item, each with the number of its answers, and each answer's prompt number;
    0: unknown, or all have the same."""
    numbers: dict[SentRequest, int] = {}
    places: list[int] = []
    for reply in answers:
        request = sent.of(str(reply["custom_id"]), short_line(reply["model"]))
        places.append(numbers.setdefault(request, len(numbers) + 1) if request else 0)
    counts = Counter(places)
    return {
        "prompts": [(request, counts[number]) for request, number in numbers.items()],
        "prompt_numbers": [place if len(numbers) > 1 else 0 for place in places],
    }


def _picture(image: object) -> Picture:
    media_type = image.get("media_type") if isinstance(image, dict) else None
    data = image.get("base64") if isinstance(image, dict) else None
    if media_type not in IMAGE_TYPES or not isinstance(data, str):
        return Picture("", f"An image of the type {short_line(media_type, 60) or 'unknown'} is not shown.")
    if len(data) > LARGEST_IMAGE:
        return Picture("", f"An image of {len(data) * 3 / 4e6:.0f} MB is too large to be shown here.")
    if not _BASE64.fullmatch(data):
        return Picture("", "The image is not valid base64 and is not shown.")
    return Picture(f"data:{media_type};base64,{data}", "")
