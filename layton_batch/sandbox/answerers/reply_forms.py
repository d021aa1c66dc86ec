"""The ways a model's JSON reply goes wrong: fenced, wrapped in prose, with a slip, without JSON, cut off, refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.answerers.seeded_draws import draw, pick, position

_BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 765
"""Tokens of a 1024 x 1024 picture in high detail by OpenAI's documents; taken for every image of every provider."""
_EFFORT_MULTIPLE = {"none": 0.0, "minimal": 0.5, "low": 1.0, "medium": 2.5, "default": 2.5, "high": 5.0}
_MOST_EFFORT = 8.0
_BUDGET_MULTIPLE = 4.0


def text_tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)


def _reasoning_tokens(reasoning: str | int | None, visible: int) -> int:
    """A multiple of the visible reply by effort; never more than the budget where one is given."""
    if isinstance(reasoning, int):
        wanted = math.ceil(visible * _BUDGET_MULTIPLE)
        return wanted if reasoning < 0 else min(reasoning, wanted)
    return math.ceil(visible * _EFFORT_MULTIPLE.get((reasoning or "none").lower(), _MOST_EFFORT))


class ReplyText(NamedTuple):
    """Text of a reply. ``finish`` as in `ModelReply`."""

    text: str
    finish: str = "stop"


def reply_of(question: Question, text: str, finish: str = "stop") -> ModelReply:
    """The text as a reply with its tokens, cut off at the question's output limit. Reasoning gets what is left."""
    limit = question.max_output_tokens
    if limit is not None and text_tokens(text) > limit:
        text = text.encode("utf-8", "replace")[: limit * _BYTES_PER_TOKEN].decode("utf-8", "ignore")
        finish = "length"
    read = text_tokens(question.system) + text_tokens(question.text) + IMAGE_TOKENS * len(question.images)
    visible = text_tokens(text)
    thought = _reasoning_tokens(question.reasoning, visible)
    if limit is not None:
        thought = max(0, min(thought, limit - visible))
    return ModelReply(text, finish, read, output_tokens=visible + thought, reasoning_tokens=thought)


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


def in_form(form: ReplyForm, values: Mapping[str, object], *key: object) -> ReplyText:
    """The values as a JSON object in this form."""
    body = json.dumps(values, ensure_ascii=False)
    match form:
        case ReplyForm.FENCED:
            return ReplyText(f"```json\n{json.dumps(values, ensure_ascii=False, indent=2)}\n```")
        case ReplyForm.PROSE:
            return ReplyText(f"{pick(_BEFORE, 'before', *key)}\n\n{body}\n\n{pick(_AFTER, 'after', *key)}")
        case ReplyForm.SLIP:
            unquoted = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
            return ReplyText(pick((body[:-1] + ",}", body[:-1], "{" + ", ".join(unquoted) + "}"), "slip", *key))
        case ReplyForm.UNSTRUCTURED:
            return ReplyText(" ".join(map(str, values.values())))
        case ReplyForm.TRUNCATED:  # within the first half: of {justification, answer} the answer is always lost
            end = len(body) // 6 + position(max(1, len(body) // 3), "cut", *key)
            return ReplyText(body[: max(1, end)], "length")
        case ReplyForm.REFUSED:
            return refusal(*key)
    return ReplyText(body)


def refusal(*key: object) -> ReplyText:
    return ReplyText(pick(_REFUSALS, "refusal", *key), "refusal")
