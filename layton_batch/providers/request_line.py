"""A request as one line of a batch file: the object that its provider's ``encode`` gives, written as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import orjson

from layton_batch.errors import ManifestError
from layton_batch.providers.protocol import Provider
from layton_batch.providers.wire_json import well_formed
from layton_batch.records import JsonValue, Request


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
