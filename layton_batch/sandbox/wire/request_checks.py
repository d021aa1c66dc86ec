"""Checks several dialects share: types out of untyped JSON, images, schemas. All raise Rejection(400)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from layton_batch.sandbox.engine.dialect import Rejection

_MAGIC = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG", "image/gif": b"GIF8", "image/webp": b"RIFF"}
_DATA_URL = re.compile(r"data:(image/[a-z+.-]+);base64,")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def as_object(value: object, field: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise Rejection(400, f"Invalid type for '{field}': expected an object.", code="invalid_type", param=field)
    return value


def as_list(value: object, field: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise Rejection(400, f"Invalid type for '{field}': expected an array.", code="invalid_type", param=field)
    return value


def as_text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise Rejection(400, f"Invalid type for '{field}': expected a string.", code="invalid_type", param=field)
    return value


def as_count(value: object, field: str, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Rejection(
            400, f"Invalid value for '{field}': expected an integer >= {least}.", code="invalid_type", param=field
        )
    return value


def one_of(value: object, field: str, allowed: Iterable[str]) -> str:
    choices = sorted(allowed)
    if value not in choices:
        message = f"Invalid value: {value!r}. Supported values for '{field}' are: {', '.join(choices)}."
        raise Rejection(400, message, code="invalid_value", param=field)
    return str(value)


def no_strangers(body: Mapping[str, object], parameters: frozenset[str], where: str = "") -> None:
    for name in body:
        if name not in parameters:
            raise Rejection(
                400, f"Unknown parameter: '{where}{name}'.", code="unknown_parameter", param=f"{where}{name}"
            )


def temperature(body: Mapping[str, object], highest: float) -> None:
    value = body.get("temperature")
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
        message = f"Invalid 'temperature': expected a number between 0 and {highest:g}."
        raise Rejection(400, message, code="invalid_value", param="temperature")


def image_bytes(encoded: object, media_type: object, field: str) -> bytes:
    """Decode base64 and hold it against the media type it claims."""
    try:
        raw = base64.b64decode(as_text(encoded, field), validate=True)
    except binascii.Error as error:
        raise Rejection(
            400, f"Invalid base64 image in '{field}': {error}", code="invalid_image", param=field
        ) from error
    magic = _MAGIC.get(str(media_type))
    if magic is None:
        message = f"Unsupported image media type {media_type!r} in '{field}'."
        raise Rejection(400, message, code="unsupported_image", param=field)
    if not raw.startswith(magic):
        message = f"The image in '{field}' is not {media_type}: its first bytes say otherwise."
        raise Rejection(400, message, code="invalid_image", param=field)
    return raw


def image_of_url(url: object, field: str) -> bytes:
    text = as_text(url, field)
    match = _DATA_URL.match(text)
    if match is None:
        message = f"'{field}' is not a base64 data URL; the sandbox fetches nothing from a network."
        raise Rejection(400, message, code="invalid_image_url", param=field)
    return image_bytes(text[match.end() :], match.group(1), field)


@dataclass(frozen=True, slots=True)
class SchemaForm:
    """Place of the schema in a structured-output request. `parameter` is its name in messages."""

    parameter: str
    strict_rules: bool


def named_schema(form: Mapping[str, object], rules: SchemaForm) -> Mapping[str, object]:
    """The schema out of `{"name", "schema", "strict"}`, held to the strict rules where it asks for them."""
    no_strangers(
        form, frozenset({"name", "schema", "schema_definition", "strict", "description", "type"}), f"{rules.parameter}."
    )
    name = form.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        message = f"Invalid '{rules.parameter}.name': expected [A-Za-z0-9_-], 1 to 64 characters."
        raise Rejection(400, message, code="invalid_value", param=f"{rules.parameter}.name")
    schema = as_object(form.get("schema"), f"{rules.parameter}.schema")
    if rules.strict_rules and form.get("strict") is True:
        strict_schema(schema, str(name), rules.parameter)
    return schema


def strict_schema(schema: Mapping[str, object], name: str, field: str) -> None:
    """Every object closed and with all its properties required, the root being an object."""
    if schema.get("type") != "object":
        raise _schema_fault(name, field, (), "schema must be a JSON Schema of 'type: \"object\"'")
    try:
        _strict(schema, name, field, ())
    except RecursionError as error:
        raise _schema_fault(name, field, (), "the schema is nested too deeply") from error


def _strict(node: object, name: str, field: str, path: tuple[str, ...]) -> None:
    if isinstance(node, list):
        for index, item in enumerate(node):
            _strict(item, name, field, (*path, str(index)))
    if not isinstance(node, dict):
        return
    properties = node.get("properties")
    if node.get("type") == "object" or isinstance(properties, dict):
        _closed(node, properties if isinstance(properties, dict) else {}, name, field, path)
    for key in ("items", "anyOf"):
        _strict(node.get(key), name, field, (*path, key))
    for key in ("properties", "$defs", "definitions"):
        for child, value in as_object(node.get(key, {}), field).items():
            _strict(value, name, field, (*path, key, child))


def _closed(
    node: Mapping[str, object], properties: Mapping[str, object], name: str, field: str, path: tuple[str, ...]
) -> None:
    if node.get("additionalProperties") is not False:
        raise _schema_fault(name, field, path, "'additionalProperties' is required to be supplied and to be false")
    required = node.get("required")
    listed = {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()
    missing = set(properties) - listed
    if missing:
        reason = f"'required' must include every key in properties. Missing '{sorted(missing)[0]}'"
        raise _schema_fault(name, field, path, reason)


def _schema_fault(name: str, field: str, path: tuple[str, ...], reason: str) -> Rejection:
    context = "(" + ", ".join(repr(step) for step in path) + ")"
    return Rejection(400, f"Invalid schema for {field} '{name}': In context={context}, {reason}.", param=field)
