"""Question of a batch row and reply of a model, freed of any provider's wire form.

The dialects turn a row of their provider into a `Question`, an `Answerer` turns that into a `ModelReply`, and the
dialect writes the reply in the provider's own form. Answerers therefore never see a wire format.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Question:
    """One row: `text` is every text part of the user's messages joined with newlines; `images` are decoded bytes, in
    order.

    `schema` is the JSON schema asked for, if any. `reasoning` is the effort word in lower case ("none" when switched
    off, "default" when switched on without a level) or a thinking budget in tokens; None when the row says nothing
    of it.
    """

    provider: str
    model: str
    system: str
    text: str
    images: tuple[bytes, ...]
    schema: Mapping[str, object] | None
    reasoning: str | int | None
    max_output_tokens: int | None
    custom_id: str


@dataclass(frozen=True, slots=True)
class SandboxUsage:
    """Tokens in the sense of `ModelReply`."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: SandboxUsage) -> SandboxUsage:
        return SandboxUsage(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class ModelReply:
    """Reply of a model. `finish` is "stop", "length" or "refusal".

    `input_tokens` is the whole prompt including `cached_input_tokens` and `cache_write_tokens`; `output_tokens`
    includes `reasoning_tokens`. The dialects subtract where their provider's wire form excludes one from the other.
    """

    text: str
    finish: str = "stop"
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def usage(self) -> SandboxUsage:
        return SandboxUsage(*astuple(self)[2:])


class Answerer(Protocol):
    """Must be deterministic in the question. Calls are serialised, so it need not be thread-safe."""

    def answer(self, question: Question) -> ModelReply: ...


ANSWER, JUSTIFICATION = "answer", "justification"
ANSWER_VERDICT, JUSTIFICATION_VERDICT = "is_answer_correct", "is_justification_correct"
JUDGEMENT = "Judgement: "
"""Word that a prompt has a judge write before a 0 or a 1, where it wants no JSON."""


class Kind(StrEnum):
    PARTICIPANT = "participant"
    JUDGE = "judge"
    OTHER = "other"


def kind_of(question: Question) -> Kind:
    """Classify a question by its schema's properties, or without a schema by the names in its instructions."""
    instructions = f"{question.system}\n{question.text}"
    if question.schema is not None:
        names = properties(question.schema)
    elif JUDGEMENT in instructions:
        return Kind.JUDGE
    elif ANSWER in instructions and JUSTIFICATION in instructions and "JSON" in instructions:
        names = [name for name in (ANSWER_VERDICT, JUSTIFICATION_VERDICT, ANSWER) if name in instructions]
    else:
        return Kind.OTHER
    if ANSWER_VERDICT in names or JUSTIFICATION_VERDICT in names:
        return Kind.JUDGE
    return Kind.PARTICIPANT if ANSWER in names else Kind.OTHER


def properties(schema: Mapping[str, object] | None) -> list[str]:
    """The names a reply in this schema has, in its order; empty without a schema of an object."""
    named = (schema or {}).get("properties")
    return [str(name) for name in named] if isinstance(named, Mapping) else []


def in_schema_order(question: Question, values: Mapping[str, object]) -> Mapping[str, object]:
    """The values in the order of the question's schema, only those that it names; all where it names none."""
    return {name: values[name] for name in properties(question.schema) if name in values} or values


# ---- tokens ---------------------------------------------------------------------------------------------------------


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
