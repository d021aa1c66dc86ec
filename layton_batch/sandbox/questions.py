"""What a batch row asks and what a model replies, freed of any provider's wire form.

The dialects turn a row of their provider into a `Question`, an `Answerer` turns that into a `Reply`, and the dialect
writes the reply in the provider's own form. Answerers therefore never see a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
class Reply:
    """What the model said. `finish` is "stop", "length" or "refusal".

    `input_tokens` is the whole prompt including `cached_input_tokens`; `output_tokens` includes `reasoning_tokens`.
    The dialects subtract where their provider's wire form excludes one from the other.
    """

    text: str
    finish: str = "stop"
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class Answerer(Protocol):
    """Must be deterministic in the question. Calls are serialised, so it need not be thread-safe."""

    def answer(self, question: Question) -> Reply: ...
