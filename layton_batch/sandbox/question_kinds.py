"""Whether a question is put to a participant, to a judge or to neither; and replies in the form of its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

from layton_batch.sandbox.questions import Question

ANSWER, JUSTIFICATION = "answer", "justification"
ANSWER_VERDICT, JUSTIFICATION_VERDICT = "is_answer_correct", "is_justification_correct"
REASONING = "reasoning"
JUDGEMENT = "Judgement: "
"""What a prompt asks a judge to write before a 0 or a 1, where it wants no JSON."""


class Kind(StrEnum):
    PARTICIPANT = "participant"
    JUDGE = "judge"
    OTHER = "other"


def kind_of(question: Question) -> Kind:
    """By the schema's properties; without a schema by the names the instructions ask for."""
    names = properties(question.schema)
    if not names and question.schema is None:
        asked = f"{question.system}\n{question.text}"
        if JUDGEMENT in asked:
            return Kind.JUDGE
        names = [name for name in (ANSWER_VERDICT, JUSTIFICATION_VERDICT, ANSWER, JUSTIFICATION) if name in asked]
        if not ({ANSWER, JUSTIFICATION} <= set(names) and "JSON" in asked):
            return Kind.OTHER
    if ANSWER_VERDICT in names or JUSTIFICATION_VERDICT in names:
        return Kind.JUDGE
    return Kind.PARTICIPANT if ANSWER in names else Kind.OTHER


def properties(schema: Mapping[str, object] | None) -> list[str]:
    """The names a reply in this schema has, in its order; empty without a schema of an object."""
    named = (schema or {}).get("properties")
    return [str(name) for name in named] if isinstance(named, Mapping) else []


def as_json(question: Question, values: Mapping[str, object]) -> str:
    """The values as a JSON object in the order of the question's schema, only those it knows."""
    names = [name for name in properties(question.schema) if name in values] or list(values)
    return json.dumps({name: values[name] for name in names}, ensure_ascii=False)
