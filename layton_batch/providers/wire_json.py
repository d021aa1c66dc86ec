"""Small readers and a writer of wire JSON for dialects that are not OpenAI-shaped.

The readers give a harmless value where a document's form is not kept, so that a dialect never trips over a wrong type
and decides by itself what is worth refusing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

import orjson

from layton_batch.providers.wire_errors import well_formed
from layton_batch.records import EMPTY, JsonValue

JsonObject = Mapping[str, JsonValue]

_MAX_COUNT = 2**53
"""Beyond this no token count is real, and a JSON reader may already have rounded it."""


def at(value: JsonObject, key: str) -> JsonObject:
    """The object under ``key``, or an empty one."""
    member = value.get(key)
    return member if isinstance(member, Mapping) else EMPTY


def objects(value: JsonObject, key: str) -> list[JsonObject]:
    """The objects of the array under ``key``; what is not an object is left out."""
    members = value.get(key)
    return [entry for entry in members if isinstance(entry, Mapping)] if isinstance(members, list) else []


def text(value: JsonObject, key: str) -> str | None:
    """The non-empty text under ``key``, or None."""
    member = value.get(key)
    return member if isinstance(member, str) and member else None


def whole(value: JsonValue) -> int | None:
    """A count, also where it is written as a text (Google's int64) or with a fraction of zero; None for what is not
    one, such as a negative number."""
    if type(value) is int and 0 <= value <= _MAX_COUNT:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 17:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT:
        return value
    return None


def count(value: JsonObject, key: str) -> int:
    """The count under ``key``; 0 for what is not a count."""
    return whole(value.get(key)) or 0


def moment(value: JsonObject, key: str) -> float | None:
    """Epoch seconds of the time under ``key``, a number of seconds or an RFC 3339 text; None for what is neither, such
    as a number of 400 digits: a time that is not known rules no batch out."""
    time = value.get(key)
    try:
        if isinstance(time, str):
            return datetime.fromisoformat(time).timestamp()
        seconds = float(time) if type(time) in (int, float) else math.nan  # type: ignore[arg-type]
    except (ValueError, OverflowError, OSError):
        return None
    return seconds if math.isfinite(seconds) else None


def merged(base: JsonObject, extra: JsonObject) -> dict[str, JsonValue]:
    """``base`` with ``extra`` on top: objects are merged key by key, anything else is replaced."""
    result = dict(base)
    for key, value in extra.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def compact(value: JsonValue) -> bytes:
    """A value that a provider sent, as one line of JSON."""
    return orjson.dumps(well_formed(value))
