"""Items with every model's answer and its verdicts, as pages show them: one index, one page an item."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.pages import Passage, passage, short_line
from layton_batch.site.people import LabelKey, PeopleWord, disagrees, people_words
from layton_batch.site.reading import table
from layton_batch.states import PredictionKind

ITEM_COLUMNS = ("item_id", "split", "category", "question", "images", "hints", "answer", "justification", "solution")
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
class JudgeWord:
    """One verdict; the fields are ``yes``, ``no``, ``unread``, or empty where a rule says nothing about them.

    ``sits``: a judge on a jury, not a rule.
    """

    judge: str
    sits: bool
    answer: str
    justification: str
    note: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One model's prediction on one item; ``sample``: which one, of a model that was asked several times.
    ``standing``: a field of ``Tally``; ``verdict``: the same for people; ``people``: what people say of it."""

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
class ItemPage:
    """``name`` is the page's file name, from its number alone."""

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


_Key = tuple[object, object, object, object]


@dataclass(frozen=True, slots=True)
class _Said:
    """Predictions, verdicts, a jury's votes and a rule's (mark, tag) by item, and by model and sample within
    it."""

    replies: Mapping[str, list[Mapping[str, object]]]
    verdicts: Mapping[_Key, list[JudgeWord]]
    votes: Mapping[_Key, tuple[object, object, object]]
    marks: Mapping[_Key, tuple[float, str]]
    people: Mapping[LabelKey, PeopleWord]


def item_pages(folder: RunFolder, metric: str, models: Sequence[str]) -> Iterator[ItemPage]:
    """Pages in the items' order; ``models`` gives the order of the replies, others follow by name.

    Predictions on items that the items table lacks get pages too, at the end.
    """
    items = table(folder, "items", ITEM_COLUMNS)
    said = _said(folder, metric, models)
    known = set(items["item_id"])
    strays = [item_id for item_id in said.replies if item_id not in known]
    digits = max(4, len(str(items.height + len(strays))))
    for number, row in enumerate(items.iter_rows(named=True), 1):
        yield _page(number, digits, row, said)
    for number, item_id in enumerate(strays, items.height + 1):
        yield _page(number, digits, {"item_id": item_id}, said)


def _said(folder: RunFolder, metric: str, models: Sequence[str]) -> _Said:
    verdicts: dict[_Key, list[JudgeWord]] = defaultdict(list)
    columns = (
        "item_id",
        "model",
        "judge",
        "judge_provider",
        "is_answer_correct",
        "is_justification_correct",
        "note",
        "sample",
        "n_hints",
    )
    given = table(folder, "verdicts", columns)
    for item_id, model, judge, provider, answer, reason, note, sample, hints in given.iter_rows():
        sits = provider is not None
        verdicts[item_id, model, sample, hints].append(
            JudgeWord(short_line(judge), sits, _word(answer, sits), _word(reason, sits), short_line(note, 500))
        )
    scores = table(
        folder, "scores", ("item_id", "model", "metric", "yes", "total", "vote", "flag", "sample", "n_hints")
    )
    votes, marks = {}, {}
    for item_id, model, named, yes, total, vote, flag, sample, hints in scores.iter_rows():
        if named == metric and total is None and vote is not None:
            marks[item_id, model, sample, hints] = (vote, short_line(flag, 60).replace("_", " "))
        elif named == metric:
            votes[item_id, model, sample, hints] = (yes, total, flag)
    return _Said(_replies(folder, models), verdicts, votes, marks, people_words(folder, metric))


def _replies(folder: RunFolder, models: Sequence[str]) -> dict[str, list[Mapping[str, object]]]:
    columns = ("item_id", "model", "provider", "n_hints", "kind", "answer", "justification", "raw_text", "note",
               "finish_reason", "sample")  # fmt: skip
    # A reply may be a megabyte long: what no page will show is dropped before it becomes Python text.
    answered = pl.col("kind") == str(PredictionKind.ANSWERED)
    raw = pl.when(answered).then(None).otherwise(pl.col("raw_text"))
    frame = table(folder, "predictions", columns).with_columns(raw_text=raw)
    place = {model: index for index, model in enumerate(models)}
    found: dict[str, list[Mapping[str, object]]] = defaultdict(list)
    for row in frame.iter_rows(named=True):
        found[row["item_id"]].append(row)
    for rows in found.values():
        rows.sort(
            key=lambda row: (
                place.get(str(row["model"]), len(place)),
                str(row["model"]),
                row["n_hints"] or 0,
                row["sample"],
            )
        )
    return found


def _word(value: bool | None, sits: bool) -> str:
    if value is None:
        return "unread" if sits else ""
    return "yes" if value else "no"


def _page(number: int, digits: int, row: Mapping[str, object], said: _Said) -> ItemPage:
    item_id = str(row["item_id"])
    replies = tuple(_reply(item_id, one, said) for one in said.replies.get(item_id, ()))
    question = row.get("question")
    return ItemPage(
        number=number,
        name=f"{number:0{digits}d}.html",
        item_id=short_line(item_id),
        category=short_line(row.get("category")),
        split=short_line(row.get("split")),
        question=_passage(question),
        pictures=tuple(_picture(image) for image in _listed(row.get("images"))),
        hints=_named(zip(_HINTS, _listed(row.get("hints")), strict=False)),
        reference=_named((name.capitalize(), row.get(name)) for name in ("answer", "justification", "solution")),
        replies=replies,
        tally=tally_of(Counter(reply.standing for reply in replies), by_rule=bool(said.marks)),
        excerpt=short_line(question, 300),
    )


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


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


def _reply(item_id: str, row: Mapping[str, object], said: _Said) -> Reply:
    key = (item_id, row["model"], row["sample"], row["n_hints"])
    if key not in said.votes and key not in said.marks and key not in said.verdicts:
        key = (*key[:3], None)  # an earlier version's tables do not say with how many hints
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
        raw=_passage(row["raw_text"]),
        note=short_line(row["note"], 500),
        finish=short_line(row["finish_reason"]) if row["finish_reason"] != "stop" else "",
        judges=judges,
        people=_people_line(people),
    )


def _people_line(people: PeopleWord | None) -> JudgeWord | None:
    if people is None:
        return None
    return JudgeWord(people.who, False, _word(people.answer, False), _word(people.justification, False), "")


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
