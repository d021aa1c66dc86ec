"""Parts that the rows of all providers share: messages of text and pictures, a schema for the reply, and the two reply
forms of OpenAI, chat completions, which six more providers write, and responses.

A row is refused for what the providers' documents refuse it for; what a parameter means is the model's business.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import orjson

from layton_batch.sandbox.answerers.questions import ModelReply, Question, SandboxUsage
from layton_batch.sandbox.engine.lifecycle import Rejection
from layton_batch.sandbox.engine.store import new_id

Body = Mapping[str, object]
Value = TypeVar("Value")

_MAGIC = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG", "image/gif": b"GIF8", "image/webp": b"RIFF"}
_DATA_URL = re.compile(r"data:(image/[a-z+.-]+);base64,")
_KINDS = {dict: "an object", list: "an array", str: "a string", int: "an integer"}


def of_kind(value: object, kind: type[Value], name: str) -> Value:
    """Return the value of the field ``name``. Raises Rejection where it is of another kind."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Rejection(400, f"Invalid type for '{name}': expected {_KINDS[kind]}.", code="invalid_type")
    return value


def required(body: Body, name: str, kind: type[Value], within: str = "") -> Value:
    """Return what must be there and not be empty."""
    value = body.get(name)
    if value in (None, "", [], 0):
        name = within + name
        raise Rejection(400, f"Missing required parameter: '{name}'.", code="missing_required_parameter")
    return of_kind(value, kind, within + name)


def section(body: Body, name: str) -> Body:
    """Return an object that may be left out; empty where it is."""
    return of_kind(body.get(name) or {}, dict, name)


def one_of(value: object, name: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        message = f"Invalid value: {value!r}. Supported values for '{name}' are: {', '.join(allowed)}."
        raise Rejection(400, message, code="invalid_value")
    return str(value)


def json_object(text: bytes, name: str) -> Body:
    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Rejection(400, f"{name} is not parseable as valid JSON: {error}", code="invalid_json_line") from error
    if not isinstance(document, dict):
        raise Rejection(400, f"{name} is not a JSON object.", code="invalid_json_line")
    return document


def output_limit(body: Body, *names: str) -> int | None:
    """Return the first limit that is set."""
    for name in names:
        if body.get(name) is not None:
            return required(body, name, int)
    return None


class PromptParts(NamedTuple):
    """Content of a row: the text of the system and of the user, parts joined by newlines, and the pictures in order."""

    system: str
    text: str
    images: tuple[bytes, ...]


_SPEAKERS = {"system": "system", "developer": "system", "user": "user", "assistant": "", "model": "", "tool": ""}


def conversation(messages: Sequence[object], instructions: object = None, content: str = "content") -> PromptParts:
    """Read messages, and ``instructions`` that stand before them. ``content`` is where a message has its parts."""
    texts: dict[str, list[str]] = {"system": [], "user": [], "": []}
    images: list[bytes] = []
    for index, entry in enumerate([{"role": "system", content: instructions}, *messages], -1):
        where = f"messages[{index}]"
        message = of_kind(entry, dict, where)
        speaker = _SPEAKERS[one_of(message.get("role", "user"), f"{where}.role", list(_SPEAKERS))]
        for part in _parts(message.get(content), f"{where}.{content}"):
            if isinstance(part, str):
                texts[speaker].append(part)
            else:
                images.append(part)
    return PromptParts("\n".join(texts["system"]), "\n".join(texts["user"]), tuple(images))


def _parts(content: object, where: str) -> Iterator[str | bytes]:
    if isinstance(content, str):
        yield content
        return
    for index, entry in enumerate(of_kind([] if content is None else content, list, where)):
        place = f"{where}[{index}]"
        part = of_kind(entry, dict, place)
        if "image_url" in part:
            url = part["image_url"]
            yield _of_url(url if isinstance(url, str) else of_kind(url, dict, place).get("url"), place)
        elif source := section(part, "source") or section(part, "inlineData"):
            yield _picture(source.get("data"), source.get("media_type") or source.get("mimeType"), place)
        else:
            yield of_kind(part.get("text"), str, f"{place}.text")


def _of_url(url: object, place: str) -> bytes:
    text = of_kind(url, str, place)
    match = _DATA_URL.match(text)
    if match is None:
        message = f"'{place}' is not a base64 data URL; the sandbox fetches nothing from a network."
        raise Rejection(400, message, code="invalid_image_url")
    return _picture(text[match.end() :], match.group(1), place)


def _picture(encoded: object, media_type: object, place: str) -> bytes:
    """Decode base64 and hold it against the media type it claims."""
    try:
        raw = base64.b64decode(of_kind(encoded, str, place), validate=True)
    except binascii.Error:
        raw = b""
    magic = _MAGIC.get(str(media_type))
    if magic is None or not raw.startswith(magic):
        message = f"Invalid image in '{place}': not base64 of {media_type}, by its first bytes."
        raise Rejection(400, message, code="invalid_image")
    return raw


def strict_schema(schema: Body, parameter: str) -> Body:
    """Return a schema that keeps OpenAI's strict rules: every object closed, and all of its properties required."""
    if schema.get("type") != "object":
        raise _schema_fault(parameter, "schema must be a JSON Schema of 'type: \"object\"'")
    nodes: list[object] = [schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes += node
        if not isinstance(node, dict):
            continue
        properties = section(node, "properties")
        if node.get("type") == "object" or properties:
            if node.get("additionalProperties") is not False:
                raise _schema_fault(parameter, "'additionalProperties' is required to be supplied and to be false")
            missing = set(properties) - set(of_kind(node.get("required", []), list, parameter))
            if missing:
                raise _schema_fault(parameter, f"'required' must include every key. Missing '{min(missing)}'")
        nodes += [*properties.values(), node.get("items"), node.get("anyOf"), *section(node, "$defs").values()]
    return schema


def _schema_fault(parameter: str, reason: str) -> Rejection:
    return Rejection(400, f"Invalid schema for {parameter}: {reason}.")


def chat_question(provider: str, body: Body, key: str, model: str = "") -> Question:
    """Read a chat body. ``model`` is the batch's own where rows need not name one. Raises Rejection."""
    prompt = conversation(required(body, "messages", list))
    schema = json_schema(section(section(body, "response_format"), "json_schema"), "response_format")
    limit = output_limit(body, "max_completion_tokens", "max_tokens")
    return Question(provider, str(body.get("model") or model), *prompt, schema, effort_or_budget(body), limit, key)


def json_schema(form: Body, parameter: str) -> Body | None:
    """The schema out of `{"name", "schema", "strict"}`, if one is asked for; a strict one keeps OpenAI's rules."""
    if not form:
        return None
    schema = required(form, "schema", dict, f"{parameter}.")
    required(form, "name", str, f"{parameter}.")
    return strict_schema(schema, parameter) if form.get("strict") is True else schema


def effort_or_budget(body: Body) -> str | int | None:
    """The effort word or the budget, however the provider has it said; "default" where thinking is only switched on."""
    reasoning = section(body, "reasoning")
    for value in (body.get("reasoning_effort"), reasoning.get("effort"), reasoning.get("max_tokens")):
        if value is not None:
            return value if isinstance(value, int) else of_kind(value, str, "reasoning_effort")
    switch = reasoning.get("enabled")
    return None if switch is None else "default" if switch else "none"


def completion(question: Question, reply: ModelReply, message: Mapping[str, object]) -> dict[str, object]:
    """A finished chat completion; a refusal is an ordinary stop. Cached tokens are within the prompt's, reasoning is
    within the completion's."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "logprobs": None,
        "finish_reason": "length" if reply.finish == "length" else "stop",
    }
    return {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [choice],
        "usage": usage_view(reply.usage, "prompt_tokens", "completion_tokens"),
    }


def usage_view(usage: SandboxUsage, read: str = "input_tokens", written: str = "output_tokens") -> dict[str, object]:
    """Tokens under OpenAI's words for those that are read and those that are written."""
    return {
        read: usage.input_tokens,
        written: usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        f"{read}_details": {"cached_tokens": usage.cached_input_tokens},
        f"{written}_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def message_with_refusal(reply: ModelReply) -> dict[str, object]:
    """A message where refusals have a field of their own."""
    refused = reply.finish == "refusal"
    return {"content": None if refused else reply.text, "refusal": reply.text if refused else None}


def thinking_text(reply: ModelReply) -> str:
    """Stands in for a chain of thought where the provider's form shows one."""
    return f"(reasoning of {reply.reasoning_tokens} tokens)"


_ERROR_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def error_of(rejection: Rejection) -> dict[str, object]:
    """An error in OpenAI's form."""
    usual = "server_error" if rejection.status >= 500 else "invalid_request_error"
    kind = _ERROR_TYPES.get(rejection.status, usual)
    return {"message": rejection.message, "type": kind, "param": None, "code": rejection.code}


def result_line(
    key: str, status: int = 0, body: object = None, error: Mapping[str, object] | None = None
) -> dict[str, object]:
    """A line of results in OpenAI's form: a reply with its status, or without one an error."""
    reply = {"status_code": status, "request_id": new_id("req_"), "body": body} if status else None
    return {"id": new_id("batch_req_"), "custom_id": key, "response": reply, "error": error}


def response(question: Question, reply: ModelReply) -> dict[str, object]:
    """A finished response: one that was cut is `incomplete`, a refusal is a part of its own type."""
    cut = reply.finish == "length"
    status = "incomplete" if cut else "completed"
    part: dict[str, object] = {"type": "output_text", "text": reply.text, "annotations": []}
    if reply.finish == "refusal":
        part = {"type": "refusal", "refusal": reply.text}
    output: list[object] = [{"id": new_id("rs_"), "type": "reasoning", "summary": []}] if reply.reasoning_tokens else []
    if reply.text or not cut:
        message = {"id": new_id("msg_"), "type": "message", "role": "assistant", "status": status, "content": [part]}
        output.append(message)
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "model": question.model,
        "output": output,
        "usage": usage_view(reply.usage),
    }
