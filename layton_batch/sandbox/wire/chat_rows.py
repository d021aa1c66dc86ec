"""The chat-completions form, in the variants that OpenAI, Groq, Doubleword, Mistral and Together make of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection
from layton_batch.sandbox.engine.store import new_id
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

COMMON_PARAMETERS = frozenset(
    [
        "messages",
        "model",
        "max_tokens",
        "temperature",
        "top_p",
        "stop",
        "n",
        "presence_penalty",
        "frequency_penalty",
        "response_format",
        "tools",
        "tool_choice",
        "logprobs",
        "top_logprobs",
        "stream",
        "reasoning_effort",
    ]
)
IMAGE_DETAILS = ("auto", "low", "high", "original")
_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class ChatRules:
    """Rules for one provider's chat rows. `refusals`: the message has a refusal field."""

    provider: str
    parameters: frozenset[str]
    efforts: tuple[str, ...]
    strict_rules: bool = True
    bare_image_urls: bool = False
    highest_temperature: float = 2.0
    refusals: bool = False


def chat_question(body: Mapping[str, object], rules: ChatRules, custom_id: str, model: str = "") -> Question:
    """Read a chat body strictly. `model` is the batch's own where rows need not name one."""
    no_strangers(body, COMMON_PARAMETERS | rules.parameters)
    temperature(body, rules.highest_temperature)
    if body.get("stream"):
        raise Rejection(400, "Streaming is not supported in a batch.", code="streaming_unsupported", param="stream")
    system, text, images = _messages(body, rules)
    return Question(
        provider=rules.provider,
        model=as_text(body.get("model") or model or None, "model"),
        system=system,
        text=text,
        images=images,
        schema=_schema(body, rules),
        reasoning=_reasoning(body, rules),
        max_output_tokens=_limit(body),
        custom_id=custom_id,
    )


def _limit(body: Mapping[str, object]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        if body.get(name) is not None:
            return as_count(body[name], name)
    return None


def _messages(body: Mapping[str, object], rules: ChatRules) -> tuple[str, str, tuple[bytes, ...]]:
    if "messages" not in body:
        raise Rejection(
            400, "Missing required parameter: 'messages'.", code="missing_required_parameter", param="messages"
        )
    messages = as_list(body["messages"], "messages")
    if not messages:
        raise Rejection(400, "Invalid 'messages': empty array.", code="empty_array", param="messages")
    system: list[str] = []
    text: list[str] = []
    images: list[bytes] = []
    for index, entry in enumerate(messages):
        message = as_object(entry, f"messages[{index}]")
        role = one_of(message.get("role"), f"messages[{index}].role", _ROLES)
        for part in _parts(message.get("content"), f"messages[{index}].content", rules):
            if isinstance(part, bytes):
                images.append(part)
            elif role in ("system", "developer"):
                system.append(part)
            elif role == "user":
                text.append(part)
    return "\n".join(system), "\n".join(text), tuple(images)


def _parts(content: object, field: str, rules: ChatRules) -> Iterator[str | bytes]:
    if content is None or isinstance(content, str):
        yield content or ""
        return
    for index, entry in enumerate(as_list(content, field)):
        where = f"{field}[{index}]"
        part = as_object(entry, where)
        if one_of(part.get("type"), f"{where}.type", ("text", "image_url")) == "text":
            yield as_text(part.get("text"), f"{where}.text")
            continue
        url = part.get("image_url")
        if not (rules.bare_image_urls and isinstance(url, str)):
            image = as_object(url, f"{where}.image_url")
            one_of(image.get("detail", "auto"), f"{where}.image_url.detail", IMAGE_DETAILS)
            url = image.get("url")
        yield image_of_url(url, f"{where}.image_url")


def _schema(body: Mapping[str, object], rules: ChatRules) -> Mapping[str, object] | None:
    if body.get("response_format") is None:
        return None
    form = as_object(body["response_format"], "response_format")
    kind = one_of(form.get("type"), "response_format.type", ("text", "json_object", "json_schema"))
    if kind != "json_schema":
        return None
    named = as_object(form.get("json_schema"), "response_format.json_schema")
    return named_schema(named, SchemaForm("response_format", rules.strict_rules))


def _reasoning(body: Mapping[str, object], rules: ChatRules) -> str | int | None:
    if body.get("reasoning_effort") is not None:
        return one_of(body["reasoning_effort"], "reasoning_effort", rules.efforts)
    switches = [body.get("reasoning"), body.get("chat_template_kwargs")]
    for switch in switches:
        for name in ("enabled", "thinking", "enable_thinking"):
            if isinstance(switch, dict) and isinstance(switch.get(name), bool):
                return "default" if switch[name] else "none"
    return "default" if body.get("prompt_mode") == "reasoning" else None


def completion(
    question: Question, message: Mapping[str, object], finish: str, usage: Mapping[str, object]
) -> dict[str, object]:
    """The body of a finished chat row."""
    return {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", **message}, "logprobs": None, "finish_reason": finish}
        ],
        "usage": usage,
    }


def finish_word(reply: ModelReply) -> str:
    """Chat forms have no word for a refusal: it is an ordinary stop."""
    return "length" if reply.finish == "length" else "stop"


def chat_usage(reply: ModelReply) -> dict[str, object]:
    """Totals as all five count them: cached within prompt tokens, reasoning within completion tokens."""
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def thinking_text(reply: ModelReply) -> str:
    """Stands in for a chain of thought where the provider's form shows one."""
    return f"(reasoning of {reply.reasoning_tokens} tokens)"
