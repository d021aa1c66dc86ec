"""The forms of chat completions, and of OpenAI's responses for models that have none: requests and result lines. No
network.

Sources: OpenAI's batch guide and API reference, and what the other providers document as their differences from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.wire_errors import errored, malformed, unreadable
from layton_batch.providers.wire_json import (
    JsonObject,
    at,
    clean,
    objects,
    parse_json,
    text,
    whole,
)
from layton_batch.records import Image, JsonValue, Prompt, Request, Response, ResponseSchema, Usage
from layton_batch.states import FinishReason, RequestOutcome

ENDPOINT, RESPONSES = "/v1/chat/completions", "/v1/responses"

_FINISH = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.REFUSAL,
}
_CUT = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.REFUSAL}
_SILENT = (FinishReason.REFUSAL, FinishReason.LENGTH)
"""Finish reasons that explain that there is nothing to read."""


# ---- requests


def chat_body(
    request: Request, *, reasoning: JsonObject, max_tokens_key: str, names_model: bool = True
) -> dict[str, JsonValue]:
    """Return the body of one chat completion; the model's ``params`` go in last and win."""
    spec, prompt = request.model, request.prompt
    body: dict[str, JsonValue] = {"model": spec.model} if names_model else {}
    body["messages"] = _messages(prompt)
    if prompt.response_schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": _strict(prompt.response_schema)}
    body.update(reasoning)
    if spec.max_output_tokens is not None:
        body[max_tokens_key] = spec.max_output_tokens
    body.update(spec.params)
    return body


def responses_body(request: Request) -> dict[str, JsonValue]:
    """Return the body of one response; the model's ``params`` go in last and win."""
    spec, prompt = request.model, request.prompt
    body: dict[str, JsonValue] = {"model": spec.model}
    if prompt.system:
        body["instructions"] = prompt.system
    parts: list[JsonValue] = [
        {"type": "input_text", "text": part}
        if isinstance(part, str)
        else {"type": "input_image", "image_url": _data_url(part)}
        for part in prompt.parts
    ]
    body["input"] = [{"role": "user", "content": parts}]
    if prompt.response_schema is not None:
        body["text"] = {"format": {"type": "json_schema", **_strict(prompt.response_schema)}}
    if spec.reasoning.effort is not None:
        body["reasoning"] = {"effort": spec.reasoning.effort}
    if spec.max_output_tokens is not None:
        body["max_output_tokens"] = spec.max_output_tokens
    body.update(spec.params)
    return body


def _messages(prompt: Prompt) -> list[JsonValue]:
    """Return a system message, if there is a system text, and one user message.

    Text alone is sent as a string, not as a list of parts: some hosted models' templates take only that.
    """
    texts = [part for part in prompt.parts if isinstance(part, str)]
    is_text = len(texts) == len(prompt.parts)
    content: JsonValue = "\n\n".join(texts) if is_text else [_part(part) for part in prompt.parts]
    system: list[JsonValue] = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return [*system, {"role": "user", "content": content}]


def _part(part: str | Image) -> JsonValue:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": _data_url(part)}}


def _data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.base64}"


def _strict(schema: ResponseSchema) -> dict[str, JsonValue]:
    """Return the strict form, with what strict mode demands of every object filled in if the schema left it open."""
    return {"name": schema.name, "strict": True, "schema": schema.closed}


# ---- result lines
# What JSON calls an object is a dict here: asking for a Mapping takes a fifth of the time of a line.


def decode_row(custom_id: str, row: JsonObject, provider: str) -> Response:
    """Read one line of an output or error file, parsed."""
    response, error, fault = row.get("response"), row.get("error"), "holds neither a response nor an error"
    if isinstance(response, dict):
        body = _unwrapped(response.get("body"), provider)
        status = _status(response, body)
        if status is not None and 200 <= status < 300 and not _is_only_an_error(body):
            return read_reply(custom_id, body)
        if status is not None:
            problem = error or body or response.get("message")
            return errored(custom_id, status if status >= 300 or status == 0 else None, problem)
        # a body that holds something besides an error may have been paid for
        if not error or (body and not _is_only_an_error(body)):
            error, fault = None, "has a status_code that is none"
    if error:
        return errored(custom_id, None, error)
    return unreadable(custom_id, f"{provider}: the result line of {clean(custom_id, 80)} {fault}")


def _status(response: JsonObject, body: JsonValue) -> int | None:
    """Return the row's HTTP status (0: it never got a reply); None if it has none, or one that is none."""
    value = response.get("status_code")
    if value is None and isinstance(body, dict) and body:
        return 200  # some servers leave it out
    status = whole(value)
    return status if status is not None and (status == 0 or 200 <= status < 600) else None


def _unwrapped(body: JsonValue, provider: str) -> JsonValue:
    """Take a body that is JSON inside a string (failed rows of some providers) out of it; other strings stay text."""
    if isinstance(body, str) and body.lstrip().startswith("{"):
        try:
            return parse_json(body, provider, "a result line's body")
        except ProviderReplyError:
            return body
    return body


def _is_only_an_error(body: JsonValue) -> bool:
    return isinstance(body, dict) and bool(body.get("error")) and not body.get("choices")


def read_reply(custom_id: str, body: JsonValue) -> Response:
    """Read a reply that was paid for; without a message, or with a content of another type, it is malformed, not
    lost."""
    if not isinstance(body, dict):
        return malformed(custom_id, Usage(is_known=False))
    if body.get("object") == "response":
        return _read_response(custom_id, body)
    usage, served_model = usage_of(body.get("usage")), text(body, "model")
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not (isinstance(choice, dict) and isinstance(message, dict)):
        return malformed(custom_id, usage, served_model)
    content, refusal = message.get("content"), text(message, "refusal")
    raw_finish = text(choice, "finish_reason")
    finish = FinishReason.REFUSAL if refusal else _FINISH.get(raw_finish or "", FinishReason.OTHER)
    if finish not in _SILENT and not (content is None or isinstance(content, str | list)):
        return malformed(custom_id, usage, served_model)
    return Response(
        custom_id=custom_id,
        outcome=RequestOutcome.SUCCEEDED,
        text=_content_text(content),
        finish_reason=finish,
        raw_finish_reason=clean(raw_finish, 80) if raw_finish else None,
        refusal=refusal,
        usage=usage,
        served_model=served_model,
    )


def _content_text(content: JsonValue) -> str | None:
    """Return the answer's text: a string, or the ``text`` parts of a list (thinking and other parts are left out)."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = []
    for part in content:
        entry: JsonValue = part
        if isinstance(part, Mapping) and part.get("type", "text") in ("text", "output_text"):
            entry = part.get("text")
        if isinstance(entry, str):
            texts.append(entry)
    return "".join(texts)


def _read_response(custom_id: str, body: JsonObject) -> Response:
    """Read a response that was paid for. One that ``failed`` and said nothing is an error; one without a message that
    is neither cut off nor refused is malformed, not lost."""
    usage, served_model = usage_of(body.get("usage"), "input_tokens", "output_tokens"), text(body, "model")
    parts = list(_parts(body))
    if body.get("status") == "failed" and not parts:
        return errored(custom_id, None, body.get("error"))
    texts = [part.get("text") for part in parts if part.get("type") == "output_text"]
    answer = "".join(entry for entry in texts if isinstance(entry, str)) if texts else None
    refusals = (text(part, "refusal") for part in parts if part.get("type") == "refusal")
    refusal = next(filter(None, refusals), None)
    raw_finish = text(at(body, "incomplete_details"), "reason")
    finish = FinishReason.REFUSAL if refusal else _CUT.get(raw_finish or "", FinishReason.OTHER)
    if raw_finish is None and refusal is None:
        if answer is None:
            return malformed(custom_id, usage, served_model)
        finish = FinishReason.STOP
    return Response(
        custom_id=custom_id,
        outcome=RequestOutcome.SUCCEEDED,
        text=answer,
        finish_reason=finish,
        raw_finish_reason=clean(raw_finish, 80) if raw_finish else text(body, "status"),
        refusal=refusal,
        usage=usage,
        served_model=served_model,
    )


def _parts(body: JsonObject) -> Iterator[JsonObject]:
    """Yield the parts of a response's messages; reasoning and the calls of tools are left out."""
    for item in objects(body, "output"):
        if item.get("type") == "message":
            yield from objects(item, "content")


# ---- tokens and money


def usage_of(usage: JsonValue, sent_key: str = "prompt_tokens", output_key: str = "completion_tokens") -> Usage:
    """Return token counts; a part never exceeds its whole. Reasoning comes under details or flat, by provider and
    model. They are known if a reply counts the tokens read and the tokens written, or one of these and their sum."""
    if not isinstance(usage, dict):
        return Usage(is_known=False)
    sent, output, total = whole(usage.get(sent_key)), whole(usage.get(output_key)), whole(usage.get("total_tokens"))
    sent = _rest(total, output) if sent is None else sent
    output = _rest(total, sent) if output is None else output
    read, written = f"{sent_key}_details", f"{output_key}_details"
    return Usage(
        input_tokens=sent or 0,
        cached_input_tokens=min(_detail(usage, read, "cached_tokens"), sent or 0),
        output_tokens=output or 0,
        reasoning_tokens=min(_detail(usage, written, "reasoning_tokens"), output or 0),
        cache_write_tokens=min(_detail(usage, read, "cache_write_tokens"), sent or 0),
        is_known=sent is not None and output is not None,
    )


def _rest(total: int | None, part: int | None) -> int | None:
    return total - part if total is not None and part is not None and total >= part else None


def _detail(usage: JsonObject, holder: str, name: str) -> int:
    details = usage.get(holder)
    inner = whole(details.get(name)) if isinstance(details, dict) else None
    return inner if inner is not None else whole(usage.get(name)) or 0


def dollars(value: JsonValue, unit: Decimal = Decimal(1)) -> Decimal | None:
    """Return an amount of money as a number or its text, in ``unit`` of a dollar; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount * unit if amount.is_finite() and 0 <= amount < _MOST_DOLLARS / unit else None


_MOST_DOLLARS = Decimal(10**9)
