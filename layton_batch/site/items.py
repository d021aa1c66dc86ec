"""The items of a run: a page an item with every model's answer and verdicts, and the list of all of them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import orjson
import polars as pl

from layton_batch.files.items import item_from
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.records import Item
from layton_batch.runs.shown_items import hints, pictures, references
from layton_batch.site.board import Board, RunSite
from layton_batch.site.pages import short_line, write
from layton_batch.site.run_tables import STANDINGS, portions, replies, selected
from layton_batch.site.sent import SentRequest, SentRequests
from layton_batch.text import with_guard

ALL_WRONG, SAME_ANSWER = "all_wrong.csv", "same_wrong_answer.csv"
LEAST_MODELS = 2
_BANDS = ("none", "under a quarter", "a quarter to a half", "a half to three quarters", "over three quarters", "all")
"""Groups of items, by the share of graded models that got them right."""
_BY_RULE = {name: words for name, words in STANDINGS.items() if name != "disputed"}
_BY_RULE |= {"partly": "partly right", "open": "not graded"}
_EDGES = " \t\n.,;:!?\"'“”‘’()[]*_"
_WORD = re.compile(r"\w[\w'’.-]*")
_MOST_SEARCHED = 20_000
"""Characters of one item by which it is found."""
_MOST_OPTIONS, _MOST_CELLS = len(ascii_uppercase), 400
Reply = Mapping[str, Any]

LONGEST_TEXT = 600
"""Characters of a text that the page of two models shows; the item's page has all."""


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
        return f"{self.counts['right'] + self.counts['partly'] / 1_000_000:.6f}" if self.judged else ""

    @property
    def judged(self) -> int:
        return self.counts.total() - self.counts["open"]

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
    finds it by; ``shared``: the wrong answer of most models, None if no two share one. ``picarats``: what a riddle is
    worth; ``definition``: of the item's category; ``reference``: the first text of the reference.
    """

    number: int
    name: str
    item_id: str
    category: str
    question: str
    has_image: bool
    tally: Tally
    marks: str
    words: str
    shared: SharedAnswer | None
    picarats: int | None
    definition: str
    reference: str


# ---- the list ------------------------------------------------------------------------------------------------------


def write_items_page(site: RunSite, items: Sequence[ListedItem]) -> None:
    """Write the list's page, the words of its search, and the lists of what models get wrong together."""
    folder = site.building / "items"
    all_wrong = [item for item in items if item.tally.band == "0"]
    shared = sorted(((item, item.shared) for item in items if item.shared), key=lambda pair: -len(pair[1].models))
    models = list(dict.fromkeys(row.model for row in site.board.rows))
    bands = {item.tally.band for item in items}
    site.write(
        "items/index.html", "items.html", loads=True, items=items,
        categories=[(name, name) for name in sorted({item.category for item in items} - {""})],
        worths=[(worth, worth) for worth in sorted({item.picarats for item in items if item.picarats is not None})],
        bands=[(str(place), words) for place, words in enumerate(_BANDS) if str(place) in bands],
        models=models, indexed=list(enumerate(models)), all_wrong=len(all_wrong), shared=len(shared),
        definitions={item.category: item.definition for item in items if item.category and item.definition},
    )  # fmt: skip
    (folder / "words.js").write_bytes(b"window.itemWords=" + orjson.dumps([item.words for item in items]) + b";\n")
    if items:
        _write_csv(folder / ALL_WRONG, "item_id category question",
                   [(item.item_id, item.category, item.question) for item in all_wrong])  # fmt: skip
        _write_csv(folder / SAME_ANSWER, "item_id category question answer models names",
                   [(item.item_id, item.category, item.question, answer.text, str(len(answer.models)),
                     "; ".join(answer.models)) for item, answer in shared])  # fmt: skip
        write(folder / "wrong.html", "wrong.html", **site.variables, all_wrong=all_wrong, shared=shared)


def _write_csv(path: Path, columns: str, rows: Sequence[Sequence[str]]) -> None:
    safe = [[with_guard(cell) for cell in row] for row in rows]
    pl.DataFrame(safe, dict.fromkeys(columns.split(), pl.String), orient="row").write_csv(path)


def shared_answer(wrong: Iterable[tuple[str, str]]) -> SharedAnswer | None:
    """Return the answer that most models give. ``wrong``: model and answer of each wrong reply.

    Capitals, blanks and marks at the ends do not count.
    """
    groups: dict[str, tuple[str, dict[str, None]]] = {}
    for model, text in wrong:
        if key := " ".join(text.casefold().split()).strip(_EDGES):
            groups.setdefault(key, (text, {}))[1][model] = None
    text, models = max(groups.values(), key=lambda group: len(group[1]), default=("", {}))
    return SharedAnswer(short_line(text, 300), tuple(models)) if len(models) >= LEAST_MODELS else None


# ---- an item -------------------------------------------------------------------------------------------------------


def write_item_pages(site: RunSite, sent: SentRequests) -> list[ListedItem]:
    """Write one page for each item, in order, and return the entries of their list.

    Predictions on items that the items table lacks get pages too, at the end. Raises DamagedTableError.
    """
    folder, board, ids, out = site.folder, site.board, site.item_ids, site.building / "items"
    out.mkdir()
    names = [f"{number:0{max(4, len(str(len(ids))))}d}.html" for number in range(1, len(ids) + 1)]
    places = {row.values["model"]: place for place, row in enumerate(board.rows, -len(board.rows))}
    addresses = {row.key: row.page for row in board.rows}
    listed: list[ListedItem] = []
    for portion in portions(folder, ids):
        rows = selected(folder, "items", list(SCHEMAS["items"]), "item_id", portion).iter_rows(named=True)
        items = {item.id: item for item in map(item_from, rows)}
        answers: dict[str, list[Reply]] = defaultdict(list)
        for reply in replies(folder, board.metric, "item_id", portion).iter_rows(named=True):
            answers[reply["item_id"]].append(reply)
        for item_id in portion:
            # as the board has them; other models follow by name
            mine = sorted(answers.pop(item_id, ()), key=lambda reply: (
                places.get(reply["model"], 1), str(reply["model"]), reply["n_hints"], reply["sample"],
            ))  # fmt: skip
            item, at = items.pop(item_id, Item(item_id, split="", category="", question="")), len(listed)
            entry = _listed(at, names[at], item, mine, board, by_rule=site.is_by_rule)
            write(
                out / names[at], "item.html", **site.variables, addresses=addresses,
                previous=names[at - 1] if at else "", following="".join(names[at + 1 : at + 2]),
                item=entry, question=item.question, pictures=pictures(item), hints=hints(item),
                reference=[*references(item)], replies=mine, options=_options(item.payload),
                grid=_grid(item.payload.get("solution")), rule=_rule(item.payload), **_prompts(mine, sent),
            )  # fmt: skip
            listed.append(entry)
    return listed


def _listed(at: int, name: str, item: Item, answers: Sequence[Reply], board: Board, *, by_rule: bool) -> ListedItem:
    texts = [item.id, item.question, item.solution, item.answer, *item.hints]
    wrong = ((short_line(reply["model"]), reply["answer"]) for reply in answers if reply["standing"] == "wrong")
    definition = item.payload.get("category_definition")
    return ListedItem(
        number=at + 1,
        name=name,
        item_id=short_line(item.id),
        category=short_line(item.category),
        question=short_line(item.question, LONGEST_TEXT),
        has_image=bool(item.images),
        tally=Tally(Counter(reply["standing"] for reply in answers), by_rule),
        marks=_marks(answers, dict.fromkeys(row.values["model"] for row in board.rows)),
        words=_search_words([*texts, *(reply["answer"] for reply in answers)]),
        shared=shared_answer((model, text) for model, text in wrong if text),
        picarats=item.picarats,
        definition=short_line(definition, 500) if isinstance(definition, str) else "",
        reference=short_line(next((text for _, text in references(item)), ""), LONGEST_TEXT),
    )


def _marks(answers: Sequence[Reply], models: Mapping[str, None]) -> str:
    """Return a letter for each of the board's models: 1 right in all its replies, 0 not right, - not judged."""
    standings: dict[str, set[str]] = defaultdict(set)
    for reply in answers:
        standings[reply["model"]].add(reply["standing"])
    judged = (standings[model] - {"open"} for model in models)
    return "".join("-" if not results else "1" if results == {"right"} else "0" for results in judged)


def _search_words(texts: Sequence[object]) -> str:
    """Return every different word once, in order."""
    words: dict[str, None] = {}
    for text in dict.fromkeys(text for text in texts if isinstance(text, str)):
        words.update(dict.fromkeys(_WORD.findall(text[:_MOST_SEARCHED].lower())))
    return " ".join(words)[:_MOST_SEARCHED]


def _prompts(answers: Sequence[Reply], sent: SentRequests) -> dict[str, object]:
    """Return the different prompts of one item, each with the number of its answers, and each answer's prompt number;
    0: unknown, or all have the same."""
    numbers: dict[SentRequest, int] = {}
    places: list[int] = []
    for reply in answers:
        request = sent.of(str(reply["custom_id"]))
        places.append(numbers.setdefault(request, len(numbers) + 1) if request else 0)
    counts = Counter(places)
    return {
        "prompts": [(request, counts[number]) for request, number in numbers.items()],
        "prompt_numbers": [place if len(numbers) > 1 else 0 for place in places],
    }


# ---- its payload, by its shape, whichever task wrote it ------------------------------------------------------------


def _options(payload: Mapping[str, object]) -> list[tuple[str, str, bool]]:
    """Return letter and text of each option, and whether it is the right one."""
    options, gold, idk = payload.get("options"), payload.get("gold"), payload.get("idk_letter")
    if not isinstance(options, list) or len(options) > _MOST_OPTIONS:
        return []
    shown = [(letter, short_line(text, 2_000), letter == gold) for letter, text in zip(ascii_uppercase, options)]  # noqa: B905
    if isinstance(idk, str) and idk not in ascii_uppercase[: len(options)]:
        shown.append((short_line(idk, 3), "I don’t know", False))
    return shown


def _grid(solution: object) -> list[tuple[str, ...]]:
    """Return the solution of a puzzle as the rows of a table, its heads first; none for one of another form."""
    about = solution if isinstance(solution, dict) else {}
    heads, rows = about.get("header"), about.get("rows")
    if not isinstance(heads, list) or not isinstance(rows, list) or len(heads) * len(rows) > _MOST_CELLS:
        return []
    if not all(isinstance(row, list) and len(row) == len(heads) for row in rows):
        return []
    return [tuple(short_line(cell, 100) for cell in row) for row in (heads, *rows)]


_REGIONS = {
    "location_fine_grained": "the place itself",
    "location_coarse_grained": "the region around it, which is worth less",
    "fine_grained_score": "worth of the place",
    "coarse_grained_score": "worth of the region",
}


def _rule(payload: Mapping[str, object]) -> tuple[str, list[tuple[str, str]]] | None:
    """Return the rule's name, and what it accepts, by what that is."""
    name, accepts = payload.get("evaluator"), payload.get("evaluator_kwargs")
    if not isinstance(name, str) or not isinstance(accepts, dict):
        return None
    accepted = [
        (short_line(_REGIONS.get(key, key.replace("_", " ")), 60), short_line(_words(value), 1_000))
        for key, value in accepts.items()
    ]
    return short_line(name.replace("_", " "), 60), accepted


def _words(value: object) -> str:
    """Write a value in words. Alternatives are lists within lists."""
    if isinstance(value, list):
        return " · ".join(" or ".join(map(str, part)) if isinstance(part, list) else str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
