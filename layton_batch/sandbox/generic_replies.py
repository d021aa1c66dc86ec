"""Plausible replies to what the simulation knows nothing about: other tasks, other schemas, a user's own items."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from layton_batch.sandbox.question_kinds import JUSTIFICATION
from layton_batch.sandbox.questions import Question
from layton_batch.sandbox.riddle_lookup import Riddle
from layton_batch.sandbox.seeded_draws import draw, pick, position
from layton_batch.sandbox.stock_reasoning import Truth, reason
from layton_batch.sandbox.wrong_answers import right_answer

_OPTION = re.compile(r"^[ \t]*[(*]*([A-K])[).:]", re.MULTILINE)
_NUMBER = re.compile(r"\b\d{1,4}\b")
_DEEPEST = 8
_YES = 0.8
_GUESSES = ("Neither of them", "The first one", "The last one", "Nothing at all", "It makes no difference", "Only one")


def guess(text: str, *key: object) -> str:
    """An answer of the kind the text seems to ask for: one of its options, a number if it has numbers, a phrase."""
    options: list[str] = sorted(set(_OPTION.findall(text)))
    if len(options) > 1:
        return pick(options, "option", *key)
    numbers = _NUMBER.findall(text)
    if numbers:
        return str(int(pick(numbers, "number", *key)) + position(3, "offset", *key))
    return pick(_GUESSES, "guess", *key)


def generic_reply(question: Question, riddle: Riddle | None, seed: int) -> str:
    """A value of the question's schema as JSON; without a schema a line of prose that ends in an answer."""
    key = (seed, question.model, question.text)
    if question.schema is not None:
        return json.dumps(_Filler(question.text, riddle, key).value(question.schema), ensure_ascii=False)
    answer = guess(question.text, *key)
    return f"Going through the question step by step leaves one candidate.\n\nFinal Answer: ###{answer}###"


@dataclass(frozen=True, slots=True)
class _Filler:
    """Fills a JSON schema: every property, one element in an array, null where the schema is not understood."""

    text: str
    riddle: Riddle | None
    key: tuple[object, ...]

    def value(self, schema: object, name: str = "", depth: int = 0) -> object:
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return None
        options = schema.get("enum")
        if isinstance(options, list) and options:
            chosen: object = pick(options, "enum", name, *self.key)
            return chosen
        kind, members = schema.get("type"), schema.get("properties")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if isinstance(members, Mapping):
            return {str(member): self.value(inner, str(member), depth + 1) for member, inner in members.items()}
        if kind == "object":
            return {}
        if kind == "array":
            return [self.value(schema.get("items"), name, depth + 1)]
        return self.scalar(str(kind).lower(), name)

    def scalar(self, kind: str, name: str) -> object:
        if kind == "boolean":
            return draw("boolean", name, *self.key) < _YES
        if kind == "integer":
            return position(10, "integer", name, *self.key)
        if kind == "number":
            return round(draw("number", name, *self.key), 3)
        if kind != "string":
            return None
        answer = right_answer(self.riddle) if self.riddle else guess(self.text, name, *self.key)
        return reason(Truth.RIGHT, answer, self.riddle, *self.key)[0] if JUSTIFICATION in name else answer
