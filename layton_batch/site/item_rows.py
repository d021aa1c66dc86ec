"""What the run's tables say of some items: predictions, verdicts, votes, people's labels, tokens and money."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from html import escape

import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.model_facts import small_money
from layton_batch.site.pages import LONGEST, short_line
from layton_batch.site.people import LabelKey, PeopleWord
from layton_batch.site.run_tables import selected, table

Key = tuple[object, object, object, object]
"""Item, model, sample, number of hints; None where a table does not record them."""
Row = Mapping[str, object]
AT_ONCE = 40_000
"""Predictions that are in memory at a time."""
_PREDICTIONS = (
    "item_id", "model", "provider", "n_hints", "kind", "answer", "justification", "raw_text", "note", "finish_reason",
    "custom_id", "sample",
)  # fmt: skip
_VERDICTS = (
    "item_id", "model", "judge", "judge_provider", "is_answer_correct", "is_justification_correct", "note", "sample",
    "n_hints",
)  # fmt: skip
_SCORES = ("item_id", "model", "metric", "yes", "total", "vote", "flag", "sample", "n_hints")
_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens")
_USAGE = ("custom_id", "role", *_TOKENS, "cost_usd")


@dataclass(frozen=True, slots=True)
class JudgeWord:
    """One verdict. ``sits``: by a judge on a jury, not by a rule; ``signs``: a sign for the answer and one for the
    justification, where something is said of it; ``html``: the verdict as a page shows it."""

    sits: bool
    judge: str
    signs: str
    html: str


@dataclass(frozen=True, slots=True)
class ItemRecords:
    """Predictions, verdicts, a jury's votes and a rule's (mark, tag) by item, and by model, sample and hints within it;
    ``spent``: tokens and money in words, by custom_id."""

    replies: Mapping[str, list[Row]]
    verdicts: Mapping[Key, list[JudgeWord]]
    votes: Mapping[Key, tuple[object, object, object]]
    marks: Mapping[Key, tuple[float, str]]
    people: Mapping[LabelKey, PeopleWord]
    spent: Mapping[str, str]


def item_ids(folder: RunFolder) -> tuple[list[str], list[str]]:
    """Return the ids of the items table in its order, and ids that only predictions have."""
    listed = table(folder, "items", ("item_id",))["item_id"].to_list()
    predicted = table(folder, "predictions", ("item_id",))["item_id"].unique(maintain_order=True)
    have = set(listed)
    return listed, [item_id for item_id in predicted if item_id not in have]


def portions(folder: RunFolder, ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids in portions of not much more than ``AT_ONCE`` predictions."""
    rows = table(folder, "predictions", ("item_id",)).height
    size = max(1, AT_ONCE * len(ids) // max(rows, 1))
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def records_of(
    folder: RunFolder, metric: str, models: Mapping[str, int], people: Mapping[LabelKey, PeopleWord],
    ids: Collection[str],
) -> ItemRecords:  # fmt: skip
    """Read all records of these items. ``models``: index of each model; other models follow by name.

    Raises DamagedTableError for a table that cannot be read.
    """
    verdicts: dict[Key, list[JudgeWord]] = defaultdict(list)
    for item_id, model, judge, provider, answer, reason, note, *sample_and_hints in _rows(
        folder, "verdicts", _VERDICTS, ids
    ):
        word = _judge_word(judge, provider is not None, answer, reason, note)
        verdicts[item_id, model, sample_and_hints[0], sample_and_hints[1]].append(word)
    votes: dict[Key, tuple[object, object, object]] = {}
    marks: dict[Key, tuple[float, str]] = {}
    for item_id, model, named, yes, total, vote, flag, *sample_and_hints in _rows(folder, "scores", _SCORES, ids):
        if named == metric and total is None and vote is not None:
            marks[item_id, model, sample_and_hints[0], sample_and_hints[1]] = (
                float(str(vote)),
                short_line(flag, 60).replace("_", " "),
            )
        elif named == metric:
            votes[item_id, model, sample_and_hints[0], sample_and_hints[1]] = (yes, total, flag)
    replies, custom_ids = _replies(folder, models, ids)
    return ItemRecords(replies, verdicts, votes, marks, people, _spent(folder, custom_ids))


def _rows(folder: RunFolder, name: str, columns: Sequence[str], ids: Collection[str]) -> Iterator[tuple[object, ...]]:
    rows = selected(folder, name, columns, "item_id", ids)
    yield from rows.with_columns(pl.col("sample").fill_null(1)).iter_rows()


def _replies(
    folder: RunFolder, models: Mapping[str, int], ids: Collection[str]
) -> tuple[dict[str, list[Row]], list[str]]:
    """Return each item's replies in the order of the models, and the ids of their requests."""
    predictions = selected(folder, "predictions", _PREDICTIONS, "item_id", ids)
    # A reply may be a megabyte long: what no page will show is dropped before it becomes Python text.
    size = pl.col("raw_text").str.len_chars()
    shown = predictions.with_columns(
        pl.col("raw_text").str.slice(0, LONGEST), pl.col("sample").fill_null(1), raw_size=size
    )
    replies: dict[str, list[Row]] = defaultdict(list)
    for row in shown.iter_rows(named=True):
        replies[row["item_id"]].append(row)
    last = len(models)
    for rows in replies.values():
        rows.sort(key=lambda row: (models.get(str(row["model"]), last), str(row["model"]), *_asked(row)))
    return replies, predictions["custom_id"].drop_nulls().to_list()


def _asked(row: Row) -> tuple[int, int]:
    """With how many hints, and which sample."""
    return int(str(row["n_hints"] or 0)), int(str(row["sample"]))


def _spent(folder: RunFolder, custom_ids: Collection[str]) -> dict[str, str]:
    spent = {}
    for name, where in (("usage", ""), ("reused", ", paid for before")):
        for custom_id, _role, read, written, thought, usd in selected(
            folder, name, _USAGE, "custom_id", custom_ids
        ).iter_rows():
            reasoning = f" ({thought:,} reasoning)" if thought else ""
            spent[custom_id] = f"{read or 0:,} tokens in, {written or 0:,} out{reasoning}, {_money(usd)}{where}"
    return spent


def _money(usd: str | None) -> str:
    try:
        return small_money(float(Decimal(str(usd))))
    except (InvalidOperation, ValueError):
        return "cost unknown"


_SIGNS = {True: ("yes", "✓", "correct"), False: ("no", "✗", "not correct"), None: ("unread", "?", "not readable")}


@lru_cache(4096)  # a few judges say the same of ten thousand answers
def _judge_word(judge: object, sits: bool, answer: bool | None, reason: bool | None, note: str | None) -> JudgeWord:
    words = []
    if answer is not None or sits:
        words.append(("answer", answer))
    if reason is not None or (sits and note is not None):  # a task without justifications has no word and no note
        words.append(("reason", reason))
    name, remark = short_line(judge), short_line(note, 500)
    return JudgeWord(
        sits, name, "".join(_SIGNS[verdict][1] for _, verdict in words),
        f"<bdi>{escape(name)}</bdi>{''.join(_sign(word, verdict) for word, verdict in words)}"
        + (f' <span class="fine">{escape(remark)}</span>' if remark else ""),
    )  # fmt: skip


def _sign(word: str, verdict: bool | None) -> str:
    kind, sign, words = _SIGNS[verdict]
    return (
        f' <span class="sign {kind}">{word} <b aria-hidden="true">{sign}</b><span class="unseen"> {words}</span></span>'
    )


def person_word(people: PeopleWord) -> JudgeWord:
    """Show people's label in the form of a judge's verdict."""
    return _judge_word(people.who, False, people.answer, people.justification, None)
