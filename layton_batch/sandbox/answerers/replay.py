"""Recorded predictions and verdicts played again, found by what a request says and not by any id.

* A participant's request is the item whose question it contains; of that item's recordings, the one of the request's
  model and reasoning setting, with as many hints as the request shows.
* A judge's request is the item, then the recording whose answer and justification it submits, then that recording's
  verdict by the request's model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from layton_batch.sandbox.answerers import questions
from layton_batch.sandbox.answerers.known_items import KnownItem, KnownItems, submission
from layton_batch.sandbox.answerers.questions import Kind, ModelReply, Question, kind_of, reply_of

_SEPARATORS = re.compile(r"[^0-9a-z.]+")
_UNSAID = frozenset({"preview", "latest"})
_CONTROL = re.compile(r"\\(.)")
_NUMBERS = {letter: f"\\u{ord(character):04x}" for letter, character in zip("bfnrt", "\b\f\n\r\t", strict=True)}

Setting = str | int | None


class UnknownRequestError(LookupError):
    """The recordings have no answer to this question, or more than one; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A model's recorded answer to an item, and by judge whether it was (right, rightly justified)."""

    item: str
    provider: str
    model: str
    hints: int
    answer: str
    justification: str
    verdicts: Mapping[str, tuple[bool, bool]]


class ReplayAnswerer:
    """Answers from recordings; raises UnknownRequestError for everything else."""

    def __init__(self, items: Iterable[KnownItem], recordings: Iterable[Recording]) -> None:
        self._items = KnownItems(items)
        self._by_item: dict[str, list[Recording]] = {}
        for recording in recordings:
            self._by_item.setdefault(recording.item, []).append(recording)

    def answer(self, question: Question) -> ModelReply:
        kind = kind_of(question)
        item = self._items.find(question.text, question.images)
        if kind is Kind.OTHER or item is None:
            begin = question.text[:80]
            raise UnknownRequestError(f"no recorded item's question is in the text, which begins {begin!r}")
        recordings = self._by_item.get(item.id, [])
        if kind is Kind.JUDGE:
            return self._verdict(question, item, recordings)
        own = [recording for recording in recordings if recording.provider == question.provider]
        for rows in (own, recordings):
            name = _resolve(question.model, question.reasoning, (recording.model for recording in rows))
            if name is not None:
                break
        else:
            request = f"{question.provider} model {question.model!r}, reasoning {question.reasoning!r}"
            names = ", ".join(recording.model for recording in recordings) or "none"
            raise UnknownRequestError(f"item {item.id}: {request} is none of the recorded models ({names})")
        shown = sum(hint in question.text for hint in item.hints)
        row = min(
            (recording for recording in rows if recording.model == name),
            key=lambda recording: abs(recording.hints - shown),
        )
        reply = _json_reply(question, {questions.JUSTIFICATION: row.justification, questions.ANSWER: row.answer})
        # Control characters by number: a recorded tab before ``ext`` is no command of LaTeX.
        return reply_of(question, _CONTROL.sub(lambda escape: _NUMBERS.get(escape[1], escape[0]), reply))

    def _verdict(self, question: Question, item: KnownItem, recordings: Sequence[Recording]) -> ModelReply:
        judges = list(dict.fromkeys(judge for recording in recordings for judge in recording.verdicts))
        # Judges are recorded under their bare names as a rule, whatever reasoning setting they ran with.
        judge = _resolve(question.model, question.reasoning, judges) or _resolve(question.model, None, judges)
        if judge is None:
            names = ", ".join(judges) or "none"
            raise UnknownRequestError(f"judge {question.model!r}: none of the recorded judges ({names})")
        given = submission(question.text)
        submitted = None if given is None else tuple(map(_squash, given))
        verdicts = {
            recording.verdicts[judge]
            for recording in recordings
            if judge in recording.verdicts
            and (_squash(recording.answer), _squash(recording.justification)) == submitted
        }
        if len(verdicts) != 1:
            problem = "gave no verdict" if not verdicts else "gave several verdicts"
            raise UnknownRequestError(f"item {item.id}: {judge} {problem} on the submission in the judge's text")
        values = zip((questions.ANSWER_VERDICT, questions.JUSTIFICATION_VERDICT), verdicts.pop(), strict=True)
        return reply_of(question, _json_reply(question, dict(values)))


def _json_reply(question: Question, values: Mapping[str, object]) -> str:
    return json.dumps(questions.in_schema_order(question, values), ensure_ascii=False)


def _squash(text: str) -> str:
    """The text without what a prompt may wrap, escape or leave out: blanks, control and format characters."""
    return "".join(character for character in text if character.isprintable() and not character.isspace())


def _resolve(model: str, reasoning: Setting, recorded: Iterable[str]) -> str | None:
    """The recorded name of a model with a reasoning setting, or None: names are recorded as ``model-setting``, perhaps
    without the provider's prefix."""
    names = {_alike(name): name for name in recorded}
    for base in (_alike(model), _alike(model.rpartition("/")[2])):
        for ending in (*_endings(reasoning), ""):
            if name := names.get(f"{base}-{ending}".removesuffix("-")):
                return name
    return None


def _alike(name: str) -> str:
    """The name in lower case with hyphens for separators and without words that say nothing of the model."""
    return "-".join(part for part in _SEPARATORS.split(name.lower()) if part and part not in _UNSAID)


def _endings(reasoning: Setting) -> tuple[str, ...]:
    """The endings that record this reasoning setting, best first; the empty one is a bare name."""
    match reasoning:
        case None:
            return ("", "thinking")
        case 0 | "none":
            return ("no-thinking", "none", "")
        case -1 | "default":
            return ("thinking", "")
        case int():
            return (f"thinking-{reasoning // 1000}k", "thinking")
        case str():
            return (_alike(reasoning), "thinking")
