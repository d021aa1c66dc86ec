"""Items with every model's answer and its verdicts, as pages show them: one index, one page an item."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

import polars as pl
from markupsafe import Markup

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.item_extras import NO_EXTRAS, Grid, ItemContent, answer_cells, extras_of
from layton_batch.site.item_rows import ItemRecords, JudgeWord, item_ids, person_word, portions, records_of
from layton_batch.site.pages import LONGEST, ShownText, passage, safe_html, short_line
from layton_batch.site.people import disagrees, people_words
from layton_batch.site.run_tables import selected, table
from layton_batch.site.search import search_words
from layton_batch.site.sent import SentRequest, SentRequests
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
Addresses = Mapping[tuple[str, str, int], str]
"""The file name of a model's page, by its name, provider and hint level."""
STANDINGS = {"right": "all right", "wrong": "all wrong", "split": "split", "open": "not judged"}


@dataclass(frozen=True, slots=True)
class ShownReply:
    """One model's prediction on one item; ``sample``: its repetition number.

    ``standing``: a field of ``ItemTally``; ``verdict``: the standing in words; ``html``: the reply on its page;
    ``mark``: ``1`` right by the jury or the rule, ``2`` partly, ``0`` wrong, ``-`` not judged.
    """

    model: str
    provider: str
    hints: int
    sample: int
    standing: str
    verdict: str
    vote: str
    answer: ShownText | None
    justification: ShownText | None
    judges: Sequence[JudgeWord]
    html: Markup
    mark: str


@dataclass(frozen=True, slots=True)
class ItemTally:
    """Models by what they got on one item. ``counts`` by standing: full yes, in between, full no, nothing to judge, no
    vote, and people who say the opposite of the whole jury."""

    counts: Counter[str]
    by_rule: bool = False

    @property
    def words(self) -> Mapping[str, str]:
        """Return the name of each part."""
        return _BY_RULE if self.by_rule else _STANDING

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def bars(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, start and width in percent of each part that is not empty, side by side."""
        start = 0
        for name in _STANDING:
            if count := self.counts[name]:
                yield name, f"{100 * start / self.total:.2f}%", f"{100 * count / self.total:.2f}%"
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
    def standing(self) -> str:
        """Classify the judged replies: all right, all wrong, or split."""
        judged, right = self.total - self.counts["open"], self.counts["right"]
        if not judged:
            return "open"
        if right == judged:
            return "right"
        return "split" if right or self.counts["partly"] or self.counts["disputed"] else "wrong"


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
    teaser: str
    askings: tuple[SentPrompt, ...] = ()
    extras: ItemContent = NO_EXTRAS
    words: str = ""


def item_pages(
    folder: RunFolder, metric: str, models: Sequence[str], sent: SentRequests, addresses: Addresses
) -> Iterator[ItemPage]:
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
            yield _page(f"{number:0{digits}d}.html", number, row, records, sent, addresses, by_rule=by_rule)


def _is_graded_by_rule(folder: RunFolder, metric: str) -> bool:
    scores = table(folder, "scores", ("metric", "total", "vote"))
    ruled = (pl.col("metric") == metric) & pl.col("total").is_null() & pl.col("vote").is_not_null()
    return not scores.filter(ruled).is_empty()


def _page(
    name: str, number: int, row: Mapping[str, object], records: ItemRecords, sent: SentRequests, addresses: Addresses,
    *, by_rule: bool,
) -> ItemPage:  # fmt: skip
    item_id = str(row["item_id"])
    rows = records.replies.get(item_id, ())
    askings, prompts = _askings(rows, sent)
    extras = extras_of(row.get("payload"))
    show = partial(_reply, item_id, records, addresses, extras.grid)
    replies = tuple(show(prediction, prompt) for prediction, prompt in zip(rows, prompts, strict=True))
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
        tally=ItemTally(Counter(reply.standing for reply in replies), by_rule),
        excerpt=short_line(question, 300),
        teaser=short_line(question, 160),
        askings=askings,
        extras=extras,
        words=search_words(
            (item_id, question, row.get("solution"), row.get("answer"), *_listed(row.get("hints"))),
            (prediction["answer"] for prediction in rows),
        ),
    )


def _askings(rows: Sequence[Mapping[str, object]], sent: SentRequests) -> tuple[tuple[SentPrompt, ...], list[int]]:
    """Return the different prompts of one item, and each answer's prompt number; 0: unknown, or all have the same."""
    numbers: dict[SentRequest, int] = {}
    places: list[int] = []
    for row in rows:
        request = sent.of(str(row["custom_id"]), short_line(row["model"]))
        places.append(numbers.setdefault(request, len(numbers) + 1) if request else 0)
    counts = Counter(places)
    return tuple(
        SentPrompt(request.system, tuple(shown for text in request.texts if (shown := passage(text))), counts[number])
        for request, number in numbers.items()
    ), [place if len(numbers) > 1 else 0 for place in places]


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


def _reply(
    item_id: str, records: ItemRecords, addresses: Addresses, grid: Grid | None, row: Mapping[str, Any], prompt: int
) -> ShownReply:
    key = (item_id, row["model"], row["sample"], row["n_hints"])
    if key not in records.votes and key not in records.marks and key not in records.verdicts:
        key = (*key[:3], None)
    yes, total, flag = records.votes.get(key, (None, None, None))
    kind = str(row["kind"])
    judges = records.verdicts.get(key, ())
    standing = _standing(yes, total, kind, key in records.votes)
    verdict = short_line(kind) if standing == "void" else _STANDING[standing]
    if key in records.marks:
        standing, verdict = _by_rule(kind, *records.marks[key])
    mark = _MARKS[standing] if key in records.votes or key in records.marks else "-"
    people = records.people.get((item_id, row["model"], row["n_hints"], row["sample"] or 1))
    if people is not None and disagrees(people, standing):
        standing, verdict = "disputed", people.verdict
    vote = _vote(yes, total, flag) if any(judge.sits for judge in judges) else ""
    model, provider = short_line(row["model"]), short_line(row["provider"])
    hints, sample = (
        row[name] if isinstance(row[name], int) else least for name, least in (("n_hints", 0), ("sample", 1))
    )
    answer, justification = _passage(row["answer"]), _passage(row["justification"])
    address = addresses.get((model, provider, hints), "")
    name = f"<bdi>{escape(model)}</bdi>"
    origin = (
        f"<bdi>{escape(provider)}</bdi>" + f", hint level {hints}" * (hints > 0) + f", sample {sample}" * (sample > 1)
    )
    parts = [
        f'<article class="reply {standing}" data-standing="{standing}">\n<header><h3>',
        f'<a href="../models/{address}">{name}</a>' if address else name,
        f' <small>{origin}</small></h3>\n<p class="vote"><strong>{escape(verdict)}</strong>',
        f" <span>{escape(vote)}</span>" if vote else "",
        "" if row["finish_reason"] in ("stop", None)
        else f' <span class="tag">stopped: {escape(short_line(row["finish_reason"]))}</span>',
        "</p></header>\n",
        f'<p class="fine">{escape(short_line(row["note"], 500))}</p>\n' if row["note"] else "",
        (_cells_html(answer, grid) if grid else "") or _passage_html(answer, "answer"),
        _passage_html(justification, "reason"),
        f'<p class="judges people">{person_word(people).html}</p>\n' if people else "",
        f'<ul class="judges"><li>{"</li><li>".join([judge.html for judge in judges])}</li></ul>\n' if judges else "",
        _came_html(_raw(row["raw_text"], row["raw_size"]), prompt, records.spent.get(str(row["custom_id"]), "")),
        "</article>\n",
    ]  # fmt: skip
    html = safe_html("".join(parts))
    return ShownReply(model, provider, hints, sample, standing, verdict, vote, answer, justification, judges, html,
                      mark)  # fmt: skip


_MARKS = {"right": "1", "partly": "2", "wrong": "0", "void": "0", "open": "-"}


def _body_html(text: ShownText) -> str:
    cut = f'<p class="cut">Cut here: {text.size:,} characters in all.</p>' if text.size else ""
    return f'<div class="text" dir="auto">{escape(text.text)}</div>{cut}'


def _passage_html(text: ShownText | None, classes: str) -> str:
    if text is None:
        return ""
    if not text.teaser:
        return f'<div class="{classes}">{_body_html(text)}</div>\n'
    summary = f'<summary dir="auto">{escape(text.teaser)}</summary>'
    return f'<details class="fold {classes}">{summary}{_body_html(text)}</details>\n'


def _came_html(raw: ShownText | None, prompt: int, spent: str) -> str:
    facts = " · ".join(filter(None, (f"prompt {prompt}" if prompt else "", escape(spent))))
    if raw is None:
        return f'<p class="spent">{facts}</p>\n' if facts else ""
    facts = f' <span class="spent">{facts}</span>' if facts else ""
    return f'<details class="more raw"><summary>The reply as it came{facts}</summary>{_body_html(raw)}</details>\n'


def _cells_html(answer: ShownText | None, grid: Grid) -> str:
    """Show an answer as the grid that it fills in; empty where it has another form."""
    rows = answer_cells(answer.text, grid) if answer else ()
    if not rows:
        return ""
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in grid.heads)
    lines = "".join(
        f'<tr><th scope="row">{escape(row[0][0])}</th>'
        + "".join(
            f"<td>{escape(text)}</td>" if is_right
            else f'<td class="off">{escape(text or "nothing")}<span class="unseen"> (not so)</span></td>'
            for text, is_right in row[1:]
        )
        + "</tr>"
        for row in rows
    )  # fmt: skip
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="The answer as a table"><table class="solution">'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>\n"
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
