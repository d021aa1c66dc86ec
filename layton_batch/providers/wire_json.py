"""JSON of the wire: replies and result lines read whatever their form, texts of providers fit for terminals and logs.

The readers give a harmless value where a document's form is not kept, so that a dialect never trips over a wrong type
and decides by itself what is worth refusing.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime

import orjson

from layton_batch.errors import ManifestError, ProviderReplyError
from layton_batch.providers.protocol import Provider
from layton_batch.records import EMPTY, JsonValue, Request
from layton_batch.text import printable

JsonObject = Mapping[str, JsonValue]

_MAX_COUNT = 2**53
"""Beyond this no token count is real, and a JSON reader may already have rounded it."""


# ---- bytes


def parse_json(raw: bytes | str, provider: str, reply_name: str) -> JsonValue:
    """Return the JSON value of a reply or result line. Raises ProviderReplyError naming ``reply_name`` if it is not
    JSON.

    A lone surrogate or a byte that is not UTF-8 becomes U+FFFD instead of an error: one bad character in a reply that
    was paid for must not cost the reply. For the same reason NaN and infinities, which some servers write, are null,
    and a byte order mark is no part of the text.
    """
    raw = raw.removeprefix("\ufeff") if isinstance(raw, str) else raw.removeprefix(codecs.BOM_UTF8)
    try:
        value: JsonValue = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        value = _parse_leniently(raw, f"{provider}: {reply_name} is not JSON ({error.msg}): {excerpt(raw)}")
    return value


def parse_object(raw: bytes | str, provider: str, reply_name: str) -> JsonObject:
    """Parse like :func:`parse_json` what must be a JSON object."""
    value = parse_json(raw, provider, reply_name)
    if not isinstance(value, dict):
        raise ProviderReplyError(f"{provider}: {reply_name} is not a JSON object: {excerpt(raw)}")
    return value


def _parse_leniently(raw: bytes | str, complaint: str) -> JsonValue:
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    try:
        return well_formed(json.loads(text, parse_constant=_null))
    except (ValueError, RecursionError):
        raise ProviderReplyError(complaint) from None


def _null(_name: str) -> None:
    """Read NaN, Infinity and -Infinity as null."""


def well_formed(value: JsonValue) -> JsonValue:
    """Return the value with plain dicts and lists, and U+FFFD where a string holds half a surrogate pair."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {str(well_formed(key)): well_formed(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed(entry) for entry in value]
    return value


# ---- texts


def clean(text: str, longest: int = 300) -> str:
    """Return one printable line of at most ``longest`` characters: a provider's text goes to terminals and logs."""
    if len(text) <= longest and text.isascii() and text.isprintable() and " " not in text:
        return text
    head = text[: longest * 4]
    line = " ".join(printable(head, " ").split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def excerpt(raw: bytes | str) -> str:
    """Return the beginning of what could not be read, for an error message."""
    head = raw[:400]
    return repr(clean(head if isinstance(head, str) else head.decode("utf-8", "replace"), 120))


def in_words(value: JsonValue) -> str:
    """Return a text as it is, anything else as Python writes it, which it cannot of what is nested a thousand deep."""
    try:
        return str(value)
    except RecursionError:
        return "an error nested too deeply to be shown"


# ---- members of objects


def at(value: JsonObject, key: str) -> JsonObject:
    """Return the object under ``key``, or an empty one."""
    member = value.get(key)
    return member if isinstance(member, Mapping) else EMPTY


def objects(value: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects of the array under ``key``; what is not an object is left out."""
    members = value.get(key)
    return [entry for entry in members if isinstance(entry, Mapping)] if isinstance(members, list) else []


def text(value: JsonObject, key: str) -> str | None:
    """Return the non-empty text under ``key``, or None: absent ids come as null, as "" or not at all."""
    member = value.get(key)
    return member if isinstance(member, str) and member else None


def whole(value: JsonValue) -> int | None:
    """Return a count, also if it is written as a text (Google's int64) or with a fraction of zero; None for what is not
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
    """Return the count under ``key``; 0 for what is not a count."""
    return whole(value.get(key)) or 0


def moment(value: JsonObject, key: str) -> float | None:
    """Return the epoch seconds of the time under ``key``, a number of seconds or an RFC 3339 text (in UTC, if it has no
    zone); None for what is neither, such as a number of 400 digits: a time that is not known rules no batch out."""
    written = value.get(key)
    try:
        if isinstance(written, str):
            time = datetime.fromisoformat(written)
            return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp()
        seconds = float(written) if type(written) in (int, float) else math.nan  # type: ignore[arg-type]
    except (ValueError, OverflowError, OSError):
        return None
    return seconds if math.isfinite(seconds) else None


def day(value: JsonObject, key: str) -> date | None:
    """Return the day, in UTC, of the date or time under ``key``; None for what is neither."""
    seconds = moment(value, key)
    with suppress(ValueError, OverflowError, OSError):
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).date()
    return None


def merged(base: JsonObject, extra: JsonObject) -> dict[str, JsonValue]:
    """Return ``base`` with ``extra`` on top: objects are merged key by key, anything else is replaced."""
    result = dict(base)
    for key, value in extra.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def request_line(provider: Provider, request: Request) -> bytes:
    """Write a request as JSON without a newline, keys in the order that ``encode`` gives.

    Half a surrogate pair becomes U+FFFD. Raises ManifestError where the model's ``params`` hold a value that JSON
    lacks.
    """
    line = provider.encode(request)
    try:
        _require_finite(request.model.params.values())  # orjson writes NaN and infinities as null
        return _json(line)
    except (orjson.JSONEncodeError, ValueError) as error:
        raise ManifestError(f"model {request.model.name!r}: its params cannot be written as JSON: {error}") from error


def _json(line: Mapping[str, JsonValue]) -> bytes:
    try:
        return orjson.dumps(line)
    except orjson.JSONEncodeError:  # half a surrogate pair, or a mapping that is no dict
        return orjson.dumps(well_formed(line))


def _require_finite(values: Iterable[JsonValue]) -> None:
    """Raise ValueError for NaN and infinities."""
    for value in values:
        if isinstance(value, str):
            continue
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a JSON number")
        elif isinstance(value, list | tuple):
            _require_finite(value)
        elif isinstance(value, Mapping):
            _require_finite(value.values())
