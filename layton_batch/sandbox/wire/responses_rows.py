"""OpenAI's responses form of a row."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection
from layton_batch.sandbox.engine.store import new_id
from layton_batch.sandbox.wire.chat_rows import IMAGE_DETAILS
from layton_batch.sandbox.wire.request_checks import (
    SchemaForm,
    as_count,
    as_list,
    as_object,
    as_text,
    image_of_url,
    named_schema,
    no_strangers,
    one_of,
    temperature,
)

_PARAMETERS = frozenset(
    [
        "background",
        "context_management",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ]
)


def responses_question(body: Mapping[str, object], provider: str, efforts: tuple[str, ...], custom_id: str) -> Question:
    no_strangers(body, _PARAMETERS)
    temperature(body, 2.0)
    if body.get("stream"):
        raise Rejection(400, "Streaming is not supported in a batch.", code="streaming_unsupported", param="stream")
    system, text, images = _input(body)
    reasoning = as_object(body.get("reasoning") or {}, "reasoning").get("effort")
    limit = body.get("max_output_tokens")
    return Question(
        provider=provider,
        model=as_text(body.get("model"), "model"),
        system=system,
        text=text,
        images=images,
        schema=_schema(body),
        reasoning=None if reasoning is None else one_of(reasoning, "reasoning.effort", efforts),
        max_output_tokens=None if limit is None else as_count(limit, "max_output_tokens"),
        custom_id=custom_id,
    )


def _input(body: Mapping[str, object]) -> tuple[str, str, tuple[bytes, ...]]:
    if "input" not in body:
        raise Rejection(400, "Missing required parameter: 'input'.", code="missing_required_parameter", param="input")
    system = [as_text(body["instructions"], "instructions")] if body.get("instructions") is not None else []
    if isinstance(body["input"], str):
        return "\n".join(system), body["input"], ()
    text: list[str] = []
    images: list[bytes] = []
    for index, entry in enumerate(as_list(body["input"], "input")):
        item = as_object(entry, f"input[{index}]")
        role = one_of(item.get("role"), f"input[{index}].role", ("system", "developer", "user", "assistant"))
        for part in _parts(item.get("content"), f"input[{index}].content"):
            if isinstance(part, bytes):
                images.append(part)
            elif role in ("system", "developer"):
                system.append(part)
            elif role == "user":
                text.append(part)
    return "\n".join(system), "\n".join(text), tuple(images)


def _parts(content: object, field: str) -> Iterator[str | bytes]:
    if isinstance(content, str):
        yield content
        return
    for index, entry in enumerate(as_list(content, field)):
        where = f"{field}[{index}]"
        part = as_object(entry, where)
        if one_of(part.get("type"), f"{where}.type", ("input_text", "output_text", "input_image")) == "input_image":
            one_of(part.get("detail", "auto"), f"{where}.detail", IMAGE_DETAILS)
            yield image_of_url(part.get("image_url"), f"{where}.image_url")
        else:
            yield as_text(part.get("text"), f"{where}.text")


def _schema(body: Mapping[str, object]) -> Mapping[str, object] | None:
    form = as_object(body.get("text") or {}, "text").get("format")
    if form is None:
        return None
    named = as_object(form, "text.format")
    kind = one_of(named.get("type"), "text.format.type", ("text", "json_object", "json_schema"))
    return named_schema(named, SchemaForm("text.format", strict_rules=True)) if kind == "json_schema" else None


def response_body(question: Question, reply: ModelReply) -> dict[str, object]:
    """The body of a finished responses row; truncation is `incomplete`, a refusal is a part of its own type."""
    cut = reply.finish == "length"
    part: dict[str, object] = {"type": "output_text", "text": reply.text, "annotations": []}
    if reply.finish == "refusal":
        part = {"type": "refusal", "refusal": reply.text}
    message = {"id": new_id("msg_"), "type": "message", "role": "assistant", "content": [part]}
    output: list[object] = [{"id": new_id("rs_"), "type": "reasoning", "summary": []}] if reply.reasoning_tokens else []
    if reply.text or not cut:
        output.append({**message, "status": "incomplete" if cut else "completed"})
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "model": question.model,
        "output": output,
        "service_tier": "default",
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_input_tokens},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }
