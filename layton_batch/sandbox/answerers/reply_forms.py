"""The ways a model's JSON reply goes wrong: fenced, wrapped in prose, with a slip, without JSON, cut off, refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.answerers.seeded_draws import draw, pick, position

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 765
"""Tokens of a 1024 x 1024 picture in high detail by OpenAI's documents; taken for every image of every provider."""

_EFFORT_MULTIPLE = {"none": 0.0, "minimal": 0.5, "low": 1.0, "medium": 2.5, "default": 2.5, "high": 5.0}
_MOST_EFFORT = 8.0
_BUDGET_MULTIPLE = 4.0


def text_tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def reasoning_tokens(reasoning: str | int | None, visible: int) -> int:
    """A multiple of the visible reply by effort; never more than the budget where one is given."""
    if reasoning is None:
        return 0
    if isinstance(reasoning, int):
        wanted = math.ceil(visible * _BUDGET_MULTIPLE)
        return wanted if reasoning < 0 else min(reasoning, wanted)
    return math.ceil(visible * _EFFORT_MULTIPLE.get(reasoning.lower(), _MOST_EFFORT))


def counted(question: Question, text: str, finish: str = "stop") -> ModelReply:
    """The text as a reply with its tokens. Reasoning is cut to what the output limit leaves beside the text."""
    read = text_tokens(question.system) + text_tokens(question.text) + IMAGE_TOKENS * len(question.images)
    visible = text_tokens(text)
    thought = reasoning_tokens(question.reasoning, visible)
    if question.max_output_tokens is not None:
        thought = max(0, min(thought, question.max_output_tokens - visible))
    return ModelReply(
        text=text,
        finish=finish,
        input_tokens=read,
        output_tokens=visible + thought,
        reasoning_tokens=thought,
    )


class ReplyForm(StrEnum):
    PLAIN = "plain"
    FENCED = "fenced"
    PROSE = "prose"
    """JSON with a sentence before and after it."""
    SLIP = "slip"
    """JSON with one syntax error a tolerant reader mends."""
    UNSTRUCTURED = "unstructured"
    """Running text of that content: no JSON to read."""
    TRUNCATED = "truncated"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ReplyText:
    text: str
    finish: str = "stop"


_BEFORE = ("Here is my answer:", "Sure, this is the requested JSON:", "I thought it through and arrived at this.")
_AFTER = ("Let me know if you would like more detail.", "I am fairly confident in this.", "Thanks for the nice puzzle!")
_REFUSALS = (
    "I'm sorry, but I can't help with this request.",
    "I am not able to provide an answer to this.",
)


def form_for(rates: Mapping[ReplyForm, float], *key: object) -> ReplyForm:
    """The form drawn; what the rates leave over is plain."""
    chance = draw("form", *key)
    for form, rate in rates.items():
        if chance < rate:
            return form
        chance -= rate
    return ReplyForm.PLAIN


def say(form: ReplyForm, values: Mapping[str, object], *key: object) -> ReplyText:
    """The values as a JSON object in this form."""
    body = json.dumps(values, ensure_ascii=False)
    if form is ReplyForm.FENCED:
        return ReplyText(f"```json\n{json.dumps(values, ensure_ascii=False, indent=2)}\n```")
    if form is ReplyForm.PROSE:
        return ReplyText(f"{pick(_BEFORE, 'before', *key)}\n\n{body}\n\n{pick(_AFTER, 'after', *key)}")
    if form is ReplyForm.SLIP:
        return ReplyText(_with_slip(body, values, *key))
    if form is ReplyForm.UNSTRUCTURED:
        return ReplyText(" ".join(value if isinstance(value, str) else str(value) for value in values.values()))
    if form is ReplyForm.TRUNCATED:
        return _cut(body, *key)
    if form is ReplyForm.REFUSED:
        return ReplyText(pick(_REFUSALS, "refusal", *key), "refusal")
    return ReplyText(body)


def within(limit: int | None, utterance: ReplyText) -> ReplyText:
    """Cut an utterance off at the output limit in tokens, if there is one."""
    if limit is None or text_tokens(utterance.text) <= limit:
        return utterance
    start = utterance.text.encode("utf-8", "replace")[: limit * BYTES_PER_TOKEN]
    return ReplyText(start.decode("utf-8", "ignore"), "length")


def _with_slip(body: str, values: Mapping[str, object], *key: object) -> str:
    slips = (
        body[:-1] + ",}",
        body[:-1],
        "{" + ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()) + "}",
    )
    return pick(slips, "slip", *key)


def _cut(body: str, *key: object) -> ReplyText:
    """Cut within the first half: of {justification, answer} the answer is always lost."""
    return ReplyText(body[: max(1, len(body) // 6 + position(max(1, len(body) // 3), "cut", *key))], "length")
