"""OpenAI's responses form of a batch row, for models that have no chat completions. No network.

Source: OpenAI's API reference of ``/v1/responses`` and batch guide (one endpoint a batch, ``url`` in every line).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from layton_batch.providers.damaged_rows import malformed
from layton_batch.providers.openai_shape import data_url, errored, text_or_none
from layton_batch.providers.wire_errors import clean
from layton_batch.providers.wire_json import whole
from layton_batch.records import Image, JsonValue, Request, Response, Usage
from layton_batch.states import FinishReason, RequestOutcome

ENDPOINT = "/v1/responses"
_CUT = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.REFUSAL}


# ---- what is asked -------------------------------------------------------------------------------------------------


def responses_body(request: Request) -> dict[str, JsonValue]:
    """The body of one response; the model's ``params`` go in last and win."""
    spec, prompt = request.model, request.prompt
    body: dict[str, JsonValue] = {"model": spec.model}
    if prompt.system:
        body["instructions"] = prompt.system
    body["input"] = [{"role": "user", "content": [_part(part) for part in prompt.parts]}]
    if (schema := prompt.response_schema) is not None:
        strict: JsonValue = {"name": schema.name, "strict": True, "schema": schema.closed}
        body["text"] = {"format": {"type": "json_schema", **_mapping(strict)}}
    if spec.reasoning.effort is not None:
        body["reasoning"] = {"effort": spec.reasoning.effort}
    if spec.max_output_tokens is not None:
        body["max_output_tokens"] = spec.max_output_tokens
    body.update(spec.params)
    return body


def _part(part: str | Image) -> JsonValue:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "image_url": data_url(part)}


# ---- result lines --------------------------------------------------------------------------------------------------


def is_response(body: JsonValue) -> TypeGuard[Mapping[str, JsonValue]]:
    """Return whether the body of a result line has this form."""
    return isinstance(body, dict) and body.get("object") == "response"


def decoded(custom_id: str, body: Mapping[str, JsonValue]) -> Response:
    """A response that was paid for. One that ``failed`` and said nothing is an error; one without a message that is
    neither cut off nor refused is malformed, not lost."""
    usage, served_model = _usage(body.get("usage")), text_or_none(body.get("model"))
    parts = list(_parts(body.get("output")))
    if body.get("status") == "failed" and not parts:
        return errored(custom_id, None, body.get("error"))
    texts = [part.get("text") for part in parts if part.get("type") == "output_text"]
    answer = "".join(text for text in texts if isinstance(text, str)) if texts else None
    refusals = (text_or_none(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    refusal = next((text for text in refusals if text), None)
    raw_finish = _reason(body)
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
        raw_finish_reason=clean(raw_finish, 80) if raw_finish else text_or_none(body.get("status")),
        refusal=refusal,
        usage=usage,
        served_model=served_model,
    )


def _reason(body: Mapping[str, JsonValue]) -> str | None:
    """Why the response is incomplete; None where it is complete."""
    details = _mapping(body.get("incomplete_details"))
    return text_or_none(details.get("reason"))


def _parts(output: JsonValue) -> Iterator[Mapping[str, JsonValue]]:
    """The parts of its messages; reasoning and the calls of tools are left out."""
    for item in output if isinstance(output, list) else ():
        content = _mapping(item).get("content") if _mapping(item).get("type") == "message" else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping):
                yield part


def _usage(usage: JsonValue) -> Usage:
    counts = _mapping(usage)
    read, written = whole(counts.get("input_tokens")), whole(counts.get("output_tokens"))
    details = _mapping(counts.get("input_tokens_details"))
    cached, cache_writes = whole(details.get("cached_tokens")) or 0, whole(details.get("cache_write_tokens")) or 0
    thought = whole(_mapping(counts.get("output_tokens_details")).get("reasoning_tokens")) or 0
    return Usage(
        input_tokens=read or 0,
        cached_input_tokens=min(cached, read or 0),
        output_tokens=written or 0,
        reasoning_tokens=min(thought, written or 0),
        cache_write_tokens=min(cache_writes, read or 0),
        is_known=read is not None and written is not None,
    )


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}
