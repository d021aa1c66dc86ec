"""The tokens of a chat completion, as OpenAI's form and what others made of it tell them."""

from __future__ import annotations

from collections.abc import Mapping

from layton_batch.providers.wire_json import whole
from layton_batch.records import JsonValue, Usage


def usage_of(usage: JsonValue) -> Usage:
    """Token counts; a part never exceeds its whole. Reasoning comes under details or flat, by provider and model. They
    are known where both what was read and what was written is told, or follows from their sum."""
    if not isinstance(usage, Mapping):
        return Usage(known=False)
    sent, made = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
    total = whole(usage.get("total_tokens"))
    sent = _rest(total, made) if sent is None else sent
    made = _rest(total, sent) if made is None else made
    return Usage(
        input_tokens=sent or 0,
        cached_input_tokens=min(_detail(usage, "prompt_tokens_details", "cached_tokens"), sent or 0),
        output_tokens=made or 0,
        reasoning_tokens=min(_detail(usage, "completion_tokens_details", "reasoning_tokens"), made or 0),
        known=sent is not None and made is not None,
    )


def _rest(total: int | None, part: int | None) -> int | None:
    return total - part if total is not None and part is not None and total >= part else None


def _detail(usage: Mapping[str, JsonValue], holder: str, name: str) -> int:
    details = usage.get(holder)
    inner = whole(details.get(name)) if isinstance(details, Mapping) else None
    return inner if inner is not None else whole(usage.get(name)) or 0
