"""Items with every model's answer and its verdicts, as pages show them: one index, one page an item."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.item_extras import NO_EXTRAS, Extras, extras_of
from layton_batch.site.item_rows import JudgeWord, Said, item_ids, person_word, portions, said_of
from layton_batch.site.pages import LONGEST, Passage, passage, short_line
from layton_batch.site.people import disagrees, people_words
from layton_batch.site.reading import selected, table
from layton_batch.site.search import search_words
from layton_batch.site.sent import SentRequests
from layton_batch.states import PredictionKind

ITEM_COLUMNS = (
    "item_id", "split", "category", "question", "images", "hints", "answer", "justification", "solution", "payload",
)  # fmt: skip
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
"""What a page embeds. SVG is left out: it is a document that can carry scripts."""
LARGEST_IMAGE = 12_000_000
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_HINTS = ("First hint", "Second hint", "Third hint", "Special hint")
_STANDING = {"right": "right", "partly": "split jury", "wrong": "wrong", "void": "unanswered", "open": "no vote",
             "disputed": "disputed by people"}  # fmt: skip
_BY_RULE = {name: words for name, words in _STANDING.items() if name != "disputed"}
_BY_RULE |= {"partly": "partly right", "open": "not graded"}
STANDINGS = {"right": "all right", "wrong": "all wrong", "split": "split", "open": "not judged"}


@dataclass(frozen=True, slots=True)
class Reply:
    """One model's prediction on one item; ``sample``: which one, of a model that was asked several times.
    ``standing``: a field of ``Tally``; ``verdict``: the same for people; ``people``: what people say of it; ``spent``:
    tokens and money; ``prompt``: the number of its prompt on the page, from 1, or 0 where it is not at hand."""

    model: str
    provider: str
    hints: int
    sample: int
    kind: str
    standing: str
    verdict: str
    vote: str
    answer: Passage | None
    justification: Passage | None
    raw: Passage | None
    note: str
    finish: str
    judges: tuple[JudgeWord, ...]
    people: JudgeWord | None = None
    spent: str = ""
    prompt: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """Models by what they got on one item: full yes, in between, full no, nothing to judge, no vote; ``disputed``:
    people say the opposite of the whole jury."""

    right: int
    partly: int
    wrong: int
    void: int
    open: int
    by_rule: bool = False
    disputed: int = 0

    @property
    def words(self) -> Mapping[str, str]:
        """What each part is called."""
        return _BY_RULE if self.by_rule else _STANDING

    @property
    def total(self) -> int:
        return self.right + self.partly + self.wrong + self.void + self.open + self.disputed

    @property
    def bars(self) -> tuple[tuple[str, str, str], ...]:
        """Name, start and width in percent of each part that is not empty, side by side."""
        start, found = 0, []
        for name in _STANDING:
            count = getattr(self, name)
            if count:
                found.append((name, f"{100 * start / self.total:.2f}%", f"{100 * count / self.total:.2f}%"))
            start += count
        return tuple(found)

    @property
    def said(self) -> str:
        """The same in words."""
        named = ((getattr(self, name), words) for name, words in self.words.items())
        return ", ".join(f"{count:,} {words}" for count, words in named if count) or "no answers yet"

    @property
    def sort(self) -> str:
        """Most right first, then most nearly right; empty where nothing was judged."""
        return "" if self.standing == "open" else f"{self.right + self.partly / 1_000_000:.6f}"

    @property
    def standing(self) -> str:
        """Of the models that were judged: all right, all wrong, or split."""
        judged = self.total - self.open
        if not judged:
            return "open"
        if self.right == judged:
            return "right"
        return "split" if self.right or self.partly or self.disputed else "wrong"


@dataclass(frozen=True, slots=True)
class Picture:
    """``url`` is empty where ``problem`` says why the image is not shown."""

    url: str
    problem: str


@dataclass(frozen=True, slots=True)
class Asking:
    """A prompt as it was sent, and how many answers it was sent for. ``system``: the number of its system text on the
    page of the method, 0 where it has none."""

    system: int
    texts: tuple[Passage, ...]
    answers: int


@dataclass(frozen=True, slots=True)
class ItemPage:
    """``name`` is the page's file name, from its number alone; ``words``: what a search finds the item by."""

    number: int
    name: str
    item_id: str
    category: str
    split: str
    question: Passage | None
    pictures: tuple[Picture, ...]
    hints: tuple[tuple[str, Passage], ...]
    reference: tuple[tuple[str, Passage], ...]
    replies: tuple[Reply, ...]
    tally: Tally
    excerpt: str
    askings: tuple[Asking, ...] = ()
    extras: Extras = NO_EXTRAS
    words: str = ""


def item_pages(folder: RunFolder, metric: str, models: Sequence[str], sent: SentRequests) -> Iterator[ItemPage]:
    """Pages in the items' order; ``models`` gives the order of the replies, others follow by name.

    Predictions on items that the items table lacks get pages too, at the end.
    """
    known, strays = item_ids(folder)
    digits = max(4, len(str(len(known) + len(strays))))
    places = {model: index for index, model in enumerate(models)}
    people = people_words(folder, metric)
    by_rule, number = _is_graded_by_rule(folder, metric), 0
    for ids in portions(folder, [*known, *strays]):
        rows = selected(folder, "items", ITEM_COLUMNS, "item_id", ids).iter_rows(named=True)
        items = {str(row["item_id"]): row for row in rows}
        said = said_of(folder, metric, places, people, ids)
        for item_id in ids:
            number += 1
            row = items.pop(item_id, {"item_id": item_id})
            yield _page(f"{number:0{digits}d}.html", number, row, said, sent, by_rule=by_rule)


def _is_graded_by_rule(folder: RunFolder, metric: str) -> bool:
    scores = table(folder, "scores", ("metric", "total", "vote"))
    ruled = (pl.col("metric") == metric) & pl.col("total").is_null() & pl.col("vote").is_not_null()
    return not scores.filter(ruled).is_empty()


def _page(
    name: str, number: int, row: Mapping[str, object], said: Said, sent: SentRequests, *, by_rule: bool
) -> ItemPage:
    item_id = str(row["item_id"])
    rows = said.replies.get(item_id, ())
    askings, places = _askings(rows, sent)
    replies = tuple(_reply(item_id, one, said, place) for one, place in zip(rows, places, strict=True))
    question = row.get("question")
    return ItemPage(
        number=number,
        name=name,
        item_id=short_line(item_id),
        category=short_line(row.get("category")),
        split=short_line(row.get("split")),
        question=_passage(question),
        pictures=tuple(_picture(image) for image in _listed(row.get("images"))),
        hints=_named(zip(_HINTS, _listed(row.get("hints")), strict=False)),
        reference=_named(_reference(row)),
        replies=replies,
        tally=tally_of(Counter(reply.standing for reply in replies), by_rule=by_rule),
        excerpt=short_line(question, 300),
        askings=askings,
        extras=extras_of(row.get("payload")),
        words=search_words(
            (item_id, question, row.get("solution"), row.get("answer"), *_listed(row.get("hints"))),
            (one["answer"] for one in rows),
        ),
    )


def _askings(rows: Sequence[Mapping[str, object]], sent: SentRequests) -> tuple[tuple[Asking, ...], list[int]]:
    """The different prompts of one item, and for each of its answers which of them it had, from 1; 0 where the run
    does not have it."""
    found: dict[tuple[int, tuple[str, ...]], int] = {}
    places: list[int] = []
    one = None
    for row in rows:
        one = sent.of(str(row["custom_id"]), str(row["model"]), one)
        places.append(found.setdefault((one.system, one.texts), len(found) + 1) if one else 0)
    counts = Counter(places)
    return tuple(
        Asking(system, tuple(shown for text in texts if (shown := passage(text))), counts[number])
        for (system, texts), number in found.items()
    ), places


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _reference(row: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """What is the same as the answer is not said again."""
    yield "Answer", row.get("answer")
    yield from (
        (name.capitalize(), row.get(name))
        for name in ("justification", "solution")
        if row.get(name) != row.get("answer")
    )


def _named(pairs: object) -> tuple[tuple[str, Passage], ...]:
    found = []
    for name, value in pairs:  # type: ignore[attr-defined]
        if shown := _passage(value):
            found.append((name, shown))
    return tuple(found)


def _passage(value: object) -> Passage | None:
    return passage(value) if isinstance(value, str) else None


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


def _reply(item_id: str, row: Mapping[str, object], said: Said, prompt: int) -> Reply:
    key = (item_id, row["model"], row["sample"], row["n_hints"])
    if key not in said.votes and key not in said.marks and key not in said.verdicts:
        key = (*key[:3], None)
    yes, total, flag = said.votes.get(key, (None, None, None))
    kind = str(row["kind"])
    judges = tuple(said.verdicts.get(key, ()))
    standing = _standing(yes, total, kind, key in said.votes)
    verdict = short_line(kind) if standing == "void" else _STANDING[standing]
    if key in said.marks:
        standing, verdict = _by_rule(kind, *said.marks[key])
    people = said.people.get((item_id, row["model"], row["n_hints"], row["sample"] or 1))
    if people is not None and disagrees(people, standing):
        standing, verdict = "disputed", people.verdict
    return Reply(
        model=short_line(row["model"]),
        provider=short_line(row["provider"]),
        hints=row["n_hints"] if isinstance(row["n_hints"], int) else 0,
        sample=row["sample"] if isinstance(row["sample"], int) else 1,
        kind=short_line(kind),
        standing=standing,
        verdict=verdict,
        vote=_vote(yes, total, flag) if any(judge.sits for judge in judges) else "",
        answer=_passage(row["answer"]),
        justification=_passage(row["justification"]),
        raw=_raw(row["raw_text"], row["raw_size"]),
        note=short_line(row["note"], 500),
        finish=short_line(row["finish_reason"]) if row["finish_reason"] != "stop" else "",
        judges=judges,
        people=person_word(people) if people else None,
        spent=said.spent.get(str(row["custom_id"]), ""),
        prompt=prompt,
    )


def _raw(text: object, size: object) -> Passage | None:
    """``text`` is cut already; ``size``: how long it was."""
    found = _passage(text)
    return replace(found, size=size) if found and isinstance(size, int) and size > LONGEST else found


def _standing(yes: object, total: object, kind: str, scored: bool) -> str:
    if kind != PredictionKind.ANSWERED:
        return "void"
    if not scored or not total:
        return "open"
    return "right" if yes == total else "partly" if yes else "wrong"


def _by_rule(kind: str, mark: float, tag: str) -> tuple[str, str]:
    """ProviderLoad and verdict of a rule's mark: the tag says how it failed, and there is none where it did not."""
    if kind != PredictionKind.ANSWERED:
        return "void", tag or short_line(kind)
    if not tag:
        return "right", _BY_RULE["right"]
    return ("partly", f"{tag}, {mark:.0%}") if 0 < mark < 1 else ("wrong", tag)


def _vote(yes: object, total: object, flag: object) -> str:
    if total:
        return f"{yes} of {total} yes" + (", a seat was empty" if flag == "short_jury" else "")
    return ""


def tally_of(found: Counter[str], *, by_rule: bool) -> Tally:
    """From how many replies have each standing."""
    return Tally(
        found["right"], found["partly"], found["wrong"], found["void"], found["open"], by_rule, found["disputed"]
    )
