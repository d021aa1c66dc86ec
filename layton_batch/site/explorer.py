"""Items with every model's answer and its verdicts, as pages show them: one index, one page an item."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.item_extras import NO_EXTRAS, ItemContent, extras_of
from layton_batch.site.item_rows import ItemRecords, JudgeWord, item_ids, person_word, portions, records_of
from layton_batch.site.pages import LONGEST, ShownText, passage, short_line
from layton_batch.site.people import disagrees, people_words
from layton_batch.site.run_tables import selected, table
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
class ShownReply:
    """One model's prediction on one item; ``sample``: its repetition number.

    ``standing``: a field of ``ItemTally``; ``verdict``: the standing in words; ``people``: the human label; ``spent``:
    tokens and money; ``prompt``: number of its prompt on the page, from 1, or 0 where the prompt is not available.
    """

    model: str
    provider: str
    hints: int
    sample: int
    kind: str
    standing: str
    verdict: str
    vote: str
    answer: ShownText | None
    justification: ShownText | None
    raw: ShownText | None
    note: str
    finish: str
    judges: tuple[JudgeWord, ...]
    people: JudgeWord | None = None
    spent: str = ""
    prompt: int = 0


@dataclass(frozen=True, slots=True)
class ItemTally:
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
        """Return the name of each part."""
        return _BY_RULE if self.by_rule else _STANDING

    @property
    def total(self) -> int:
        return self.right + self.partly + self.wrong + self.void + self.open + self.disputed

    @property
    def bars(self) -> tuple[tuple[str, str, str], ...]:
        """Name, start and width in percent of each part that is not empty, side by side."""
        start, bars = 0, []
        for name in _STANDING:
            count = getattr(self, name)
            if count:
                bars.append((name, f"{100 * start / self.total:.2f}%", f"{100 * count / self.total:.2f}%"))
            start += count
        return tuple(bars)

    @property
    def summary(self) -> str:
        """Describe the counts in words."""
        named = ((getattr(self, name), words) for name, words in self.words.items())
        return ", ".join(f"{count:,} {words}" for count, words in named if count) or "no answers yet"

    @property
    def sort(self) -> str:
        """Most right first, then most nearly right; empty where nothing was judged."""
        return "" if self.standing == "open" else f"{self.right + self.partly / 1_000_000:.6f}"

    @property
    def standing(self) -> str:
        """Classify the judged replies: all right, all wrong, or split."""
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
class SentPrompt:
    """A prompt as it was sent, and how many answers it was sent for. ``system``: the number of its system text on the
    page of the method, 0 where it has none."""

    system: int
    texts: tuple[ShownText, ...]
    answers: int


@dataclass(frozen=True, slots=True)
class ItemPage:
    """``name`` is the page's file name, from its number alone; ``words``: what a search finds the item by."""

    number: int
    name: str
    item_id: str
    category: str
    split: str
    question: ShownText | None
    pictures: tuple[Picture, ...]
    hints: tuple[tuple[str, ShownText], ...]
    reference: tuple[tuple[str, ShownText], ...]
    replies: tuple[ShownReply, ...]
    tally: ItemTally
    excerpt: str
    askings: tuple[SentPrompt, ...] = ()
    extras: ItemContent = NO_EXTRAS
    words: str = ""


def item_pages(folder: RunFolder, metric: str, models: Sequence[str], sent: SentRequests) -> Iterator[ItemPage]:
    """Yield the items' pages in order. ``models`` gives the order of the replies; other models follow by name.

    Predictions on items that the items table lacks get pages too, at the end.
    """
    listed, strays = item_ids(folder)
    digits = max(4, len(str(len(listed) + len(strays))))
    places = {model: index for index, model in enumerate(models)}
    people = people_words(folder, metric)
    by_rule, number = _is_graded_by_rule(folder, metric), 0
    for ids in portions(folder, [*listed, *strays]):
        rows = selected(folder, "items", ITEM_COLUMNS, "item_id", ids).iter_rows(named=True)
        items = {str(row["item_id"]): row for row in rows}
        records = records_of(folder, metric, places, people, ids)
        for item_id in ids:
            number += 1
            row = items.pop(item_id, {"item_id": item_id})
            yield _page(f"{number:0{digits}d}.html", number, row, records, sent, by_rule=by_rule)


def _is_graded_by_rule(folder: RunFolder, metric: str) -> bool:
    scores = table(folder, "scores", ("metric", "total", "vote"))
    ruled = (pl.col("metric") == metric) & pl.col("total").is_null() & pl.col("vote").is_not_null()
    return not scores.filter(ruled).is_empty()


def _page(
    name: str, number: int, row: Mapping[str, object], records: ItemRecords, sent: SentRequests, *, by_rule: bool
) -> ItemPage:
    item_id = str(row["item_id"])
    rows = records.replies.get(item_id, ())
    askings, places = _askings(rows, sent)
    replies = tuple(_reply(item_id, prediction, records, place) for prediction, place in zip(rows, places, strict=True))
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
            (prediction["answer"] for prediction in rows),
        ),
    )


def _askings(rows: Sequence[Mapping[str, object]], sent: SentRequests) -> tuple[tuple[SentPrompt, ...], list[int]]:
    """Return the different prompts of one item, and each answer's prompt number from 1; 0: the run lacks the prompt."""
    numbers: dict[tuple[int, tuple[str, ...]], int] = {}
    places: list[int] = []
    request = None
    for row in rows:
        request = sent.of(str(row["custom_id"]), str(row["model"]), request)
        places.append(numbers.setdefault((request.system, request.texts), len(numbers) + 1) if request else 0)
    counts = Counter(places)
    return tuple(
        SentPrompt(system, tuple(shown for text in texts if (shown := passage(text))), counts[number])
        for (system, texts), number in numbers.items()
    ), places


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _reference(row: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the parts of the reference, without parts that repeat the answer."""
    yield "Answer", row.get("answer")
    yield from (
        (name.capitalize(), row.get(name))
        for name in ("justification", "solution")
        if row.get(name) != row.get("answer")
    )


def _named(pairs: object) -> tuple[tuple[str, ShownText], ...]:
    named = []
    for name, value in pairs:  # type: ignore[attr-defined]
        if shown := _passage(value):
            named.append((name, shown))
    return tuple(named)


def _passage(value: object) -> ShownText | None:
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


def _reply(item_id: str, row: Mapping[str, object], records: ItemRecords, prompt: int) -> ShownReply:
    key = (item_id, row["model"], row["sample"], row["n_hints"])
    if key not in records.votes and key not in records.marks and key not in records.verdicts:
        key = (*key[:3], None)
    yes, total, flag = records.votes.get(key, (None, None, None))
    kind = str(row["kind"])
    judges = tuple(records.verdicts.get(key, ()))
    standing = _standing(yes, total, kind, key in records.votes)
    verdict = short_line(kind) if standing == "void" else _STANDING[standing]
    if key in records.marks:
        standing, verdict = _by_rule(kind, *records.marks[key])
    people = records.people.get((item_id, row["model"], row["n_hints"], row["sample"] or 1))
    if people is not None and disagrees(people, standing):
        standing, verdict = "disputed", people.verdict
    return ShownReply(
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
        spent=records.spent.get(str(row["custom_id"]), ""),
        prompt=prompt,
    )


def _raw(text: object, size: object) -> ShownText | None:
    """Prepare a raw reply. ``text`` is truncated; ``size``: its full length in characters."""
    shown = _passage(text)
    return replace(shown, size=size) if shown and isinstance(size, int) and size > LONGEST else shown


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


def tally_of(counts: Counter[str], *, by_rule: bool) -> ItemTally:
    """Make a tally from the number of replies of each standing."""
    return ItemTally(
        counts["right"], counts["partly"], counts["wrong"], counts["void"], counts["open"], by_rule, counts["disputed"]
    )
