"""Replies of providers that are asked about a model, as a :class:`ModelNotice`. No network.

Sources: the types of the official SDKs. A day that cannot be read counts as none: it would only be told, never obeyed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.protocol import ModelNotice
from layton_batch.providers.wire_json import JsonObject, at, text
from layton_batch.records import JsonValue


def day(value: JsonValue) -> date | None:
    """The day of a date or RFC 3339 time (in UTC) or of epoch seconds."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date()
        if type(value) in (int, float):
            return datetime.fromtimestamp(float(value), UTC).date()  # type: ignore[arg-type]
    except (ValueError, OverflowError, OSError):
        pass
    return None


def of_openai(reply: JsonObject) -> ModelNotice:
    """OpenAI's form, which Groq and Doubleword have without an end."""
    ends = day(reply.get("shutdown_date"))
    return ModelNotice(text(reply, "id"), ends, is_deprecated=ends is not None, is_over=reply.get("active") is False)


def of_anthropic(reply: JsonObject) -> ModelNotice:
    lifecycle, batch = text(reply, "lifecycle"), at(at(reply, "capabilities"), "batch").get("supported")
    return ModelNotice(
        text(reply, "id"),
        day(reply.get("retires_at")),
        is_deprecated=lifecycle in ("deprecated", "retired"),
        is_over=lifecycle == "retired",
        runs_as_batch=batch if isinstance(batch, bool) else None,
    )


def of_mistral(reply: JsonObject, model: str) -> ModelNotice:
    """A model that has the name asked about among its other names is the one asked about."""
    names, ends = reply.get("aliases"), day(reply.get("deprecation"))
    is_alias = isinstance(names, list) and model in names
    replacement = text(reply, "deprecation_replacement_model")
    own = model if is_alias else text(reply, "id")
    return ModelNotice(own, ends, is_deprecated=ends is not None, replacement=replacement)


def in_list(rows: Iterable[Mapping[str, JsonValue]], model: str, provider: str) -> ModelNotice | None:
    """The entry of a catalogue. Raises ProviderReplyError for an empty one: that no provider has."""
    listed = list(rows)
    if not listed:
        raise ProviderReplyError(f"{provider}: the list of models is empty")
    return next((of_openai(row) for row in listed if row.get("id") == model), None)
