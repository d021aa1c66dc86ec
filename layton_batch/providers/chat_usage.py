"""The tokens of a chat completion, as OpenAI's form and what others made of it tell them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from layton_batch.providers.wire_json import whole
from layton_batch.records import JsonValue, Usage


def usage_of(usage: JsonValue) -> Usage:
    """Token counts; a part never exceeds its whole. Reasoning comes under details or flat, by provider and model. They
    are known where both what was read and what was written is told, or follows from their sum."""
    if not isinstance(usage, dict):
        return Usage(is_known=False)
    sent, output = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
    total = whole(usage.get("total_tokens"))
    sent = _rest(total, output) if sent is None else sent
    output = _rest(total, sent) if output is None else output
    return Usage(
        input_tokens=sent or 0,
        cached_input_tokens=min(_detail(usage, "prompt_tokens_details", "cached_tokens"), sent or 0),
        output_tokens=output or 0,
        reasoning_tokens=min(_detail(usage, "completion_tokens_details", "reasoning_tokens"), output or 0),
        cache_write_tokens=min(_detail(usage, "prompt_tokens_details", "cache_write_tokens"), sent or 0),
        is_known=sent is not None and output is not None,
    )


def batch_usage(usage: JsonValue) -> Usage | None:
    """The tokens of a whole batch, as its object tells them in the names of OpenAI's Responses API. None where it tells
    none: servers without such books leave the field out, or at 0."""
    if not isinstance(usage, Mapping):
        return None
    sent, output = whole(usage.get("input_tokens")), whole(usage.get("output_tokens"))
    return Usage(input_tokens=sent, output_tokens=output) if sent and output else None


def dollars(value: JsonValue, unit: Decimal = Decimal(1)) -> Decimal | None:
    """An amount of money as a number or its text, in ``unit`` of a dollar; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount * unit if amount.is_finite() and 0 <= amount < _MOST_DOLLARS / unit else None


_MOST_DOLLARS = Decimal(10**9)


def _rest(total: int | None, part: int | None) -> int | None:
    return total - part if total is not None and part is not None and total >= part else None


def _detail(usage: Mapping[str, JsonValue], holder: str, name: str) -> int:
    details = usage.get(holder)
    inner = whole(details.get(name)) if isinstance(details, dict) else None
    return inner if inner is not None else whole(usage.get(name)) or 0
