"""Rows of Anthropic's message batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from layton_batch.sandbox.answerers.questions import CachedPrefix, ModelReply, Question
from layton_batch.sandbox.answerers.reply_forms import text_tokens
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.store import BatchRefusal, Outcome, SandboxBatch, new_id
from layton_batch.sandbox.wire.request_checks import (
    as_count,
    as_list,
    as_object,
    as_text,
    image_bytes,
    no_strangers,
    one_of,
    temperature,
)

_PARAMETERS = frozenset(
    [
        "model",
        "max_tokens",
        "messages",
        "system",
        "thinking",
        "output_config",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "metadata",
        "service_tier",
        "tools",
        "tool_choice",
        "container",
        "inference_geo",
        "cache_control",
        "context_management",
        "mcp_servers",
        "diagnostics",
        "stream",
        "speed",
    ]
)
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_LEAST_BUDGET = 1024
_WITHOUT_SAMPLING = "2026-10-21"
"""The first version of the API that takes no sampling parameters, at their default values neither."""
_NO_BUDGETS = re.compile(r"claude-(?:opus-4-[78]|(?:opus|sonnet|haiku|fable|mythos)-5)")
_ALWAYS_THINK = re.compile(r"claude-(?:(?:opus|sonnet)-5-5|(?:fable|mythos)-5)")
"""Models that refuse ``enabled`` with a budget, and ``disabled``."""
_LEAST_CACHED = (
    (re.compile(r"claude-(?:opus-5(?:-20|$)|(?:fable|mythos)-5)"), 512),
    (re.compile(r"claude-(?:opus-4-7|sonnet-4-6)"), 2048),
    (re.compile(r"claude-(?:opus-4-[56]|haiku-4-5)"), 4096),
    (re.compile(""), 1024),
)
"""Fewest tokens of a prefix that a model's cache keeps; a shorter one is read anew each time, without an error."""
_STOPS = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_KINDS = frozenset({*_ERRORS.values(), "api_error", "timeout_error", "billing_error"})


class AnthropicRows:
    """All rows, whatever became of them, are in one stream of results."""

    provider = "anthropic"
    error_file = False
    early_output = False
    partial = True

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Everything that concerns the batch was checked when it was created."""
        return batch.rows, "", None

    def key(self, row: Row) -> str:
        return str(row["custom_id"])

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        params = as_object(row["params"], "params")
        _known(params, str(batch.echo.get("version", "")))
        limit = as_count(params.get("max_tokens"), "max_tokens")
        model = as_text(params.get("model"), "model")
        text, images = _messages(params.get("messages"))
        return Question(
            provider=self.provider,
            model=model,
            system=_system(params.get("system")),
            text=text,
            images=images,
            schema=_schema(params),
            reasoning=_reasoning(params, limit, model),
            max_output_tokens=limit,
            custom_id=self.key(row),
            prefix=_marked(params.get("system"), model),
        )

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        content: list[dict[str, object]] = []
        if reply.reasoning_tokens and question.reasoning not in (None, "none"):
            thought = f"(reasoning of {reply.reasoning_tokens} tokens)"
            content.append({"type": "thinking", "thinking": thought, "signature": "c2FuZGJveA=="})
        if reply.text:
            content.append({"type": "text", "text": reply.text, "citations": None})
        message = {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": question.model,
            "content": content,
            "stop_reason": _STOPS[reply.finish],
            "stop_sequence": None,
            "usage": _usage(reply),
        }
        return {"custom_id": question.custom_id, "result": {"type": "succeeded", "message": message}}

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return {"custom_id": key, "result": {"type": "errored", "error": error_body(rejection)}}

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        if outcome == "failed":
            return self.failure(key, Rejection(500, "Internal server error"))
        return {"custom_id": key, "result": {"type": "canceled" if outcome == "cancelled" else "expired"}}

    def output_ids(self) -> tuple[str, str]:
        return new_id("results_"), new_id("unused_")


def error_body(rejection: Rejection) -> dict[str, object]:
    """Anthropic's error form, for calls and for rows."""
    kind = (
        rejection.code
        if rejection.code in _KINDS
        else _ERRORS.get(rejection.status, "api_error" if rejection.status >= 500 else "invalid_request_error")
    )
    return {"type": "error", "error": {"type": kind, "message": rejection.message}, "request_id": new_id("req_")}


def _bad(message: str) -> Rejection:
    return Rejection(400, message)


def _known(params: Mapping[str, object], version: str) -> None:
    for name in params:
        if name not in _PARAMETERS:
            raise _bad(f"{name}: Extra inputs are not permitted")
    for name in ("stream", "speed"):
        if params.get(name):
            raise _bad(f"{name}: not supported in a batch")
    for name in ("temperature", "top_p", "top_k"):
        if name in params and version >= _WITHOUT_SAMPLING:
            raise _bad(f"{name}: not supported in version {version}")
    temperature(params, 1.0)


def _system(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    blocks = [as_object(block, "system") for block in as_list(value, "system")]
    return "\n".join(as_text(block.get("text"), "system.text") for block in blocks)


def _marked(value: object, model: str) -> CachedPrefix | None:
    """The system text up to its last block with ``cache_control``, where it is long enough for the model's cache."""
    blocks = [as_object(block, "system") for block in as_list(value, "system")] if isinstance(value, list) else []
    marked = [number for number, block in enumerate(blocks, 1) if block.get("cache_control")]
    for number in marked:
        control = as_object(blocks[number - 1]["cache_control"], "system.cache_control")
        one_of(control.get("type"), "system.cache_control.type", ("ephemeral",))
    text = "\n".join(as_text(block.get("text"), "system.text") for block in blocks[: max(marked, default=0)])
    least = next(tokens for names, tokens in _LEAST_CACHED if names.match(model))
    return CachedPrefix(text, bills_writes=True) if marked and text_tokens(text) >= least else None


def _messages(value: object) -> tuple[str, tuple[bytes, ...]]:
    messages = as_list(value, "messages")
    if not messages:
        raise _bad("messages: at least one message is required")
    text: list[str] = []
    images: list[bytes] = []
    for index, entry in enumerate(messages):
        message = as_object(entry, f"messages.{index}")
        role = one_of(message.get("role"), f"messages.{index}.role", ("user", "assistant"))
        for part in _parts(message.get("content"), f"messages.{index}.content"):
            if isinstance(part, bytes):
                images.append(part)
            elif role == "user":
                text.append(part)
    return "\n".join(text), tuple(images)


def _parts(content: object, field: str) -> Iterator[str | bytes]:
    if isinstance(content, str):
        yield content
        return
    for index, entry in enumerate(as_list(content, field)):
        block = as_object(entry, f"{field}.{index}")
        if one_of(block.get("type"), f"{field}.{index}.type", ("text", "image")) == "text":
            yield as_text(block.get("text"), f"{field}.{index}.text")
            continue
        source = as_object(block.get("source"), f"{field}.{index}.source")
        if source.get("type") != "base64":
            raise _bad(f"{field}.{index}.source: only base64 sources; the sandbox fetches nothing from a network")
        yield image_bytes(source.get("data"), source.get("media_type"), f"{field}.{index}.source")


def _config(params: Mapping[str, object]) -> Mapping[str, object]:
    config = as_object(params.get("output_config") or {}, "output_config")
    no_strangers(config, frozenset({"format", "effort", "task_budget"}), "output_config.")
    return config


def _schema(params: Mapping[str, object]) -> Mapping[str, object] | None:
    form = _config(params).get("format")
    if form is None:
        return None
    named = as_object(form, "output_config.format")
    for name in named:
        if name not in ("type", "schema"):
            raise _bad(f"output_config.format.{name}: Extra inputs are not permitted")
    one_of(named.get("type"), "output_config.format.type", ("json_schema",))
    return as_object(named.get("schema"), "output_config.format.schema")


def _reasoning(params: Mapping[str, object], limit: int, model: str) -> str | int | None:
    """A thinking budget if one is set, else the effort word; adaptive thinking without one is "default"."""
    effort = _config(params).get("effort")
    word = None if effort is None else one_of(effort, "output_config.effort", _EFFORTS)
    if params.get("thinking") is None:
        return word
    thinking = as_object(params["thinking"], "thinking")
    kind = one_of(thinking.get("type"), "thinking.type", ("enabled", "disabled", "adaptive", "between_tools"))
    if (kind == "disabled" and _ALWAYS_THINK.match(model)) or (kind == "enabled" and _NO_BUDGETS.match(model)):
        raise _bad(f"thinking.type.{kind} is not supported for this model")
    if kind == "disabled":
        return "none"
    if kind != "enabled":
        return word or "default"
    budget = as_count(thinking.get("budget_tokens"), "thinking.enabled.budget_tokens", _LEAST_BUDGET)
    if budget >= limit:
        raise _bad("`max_tokens` must be greater than `thinking.budget_tokens`")
    return budget


def _usage(reply: ModelReply) -> dict[str, object]:
    return {
        "input_tokens": reply.input_tokens - reply.cached_input_tokens - reply.cache_write_tokens,
        "cache_creation_input_tokens": reply.cache_write_tokens,
        "cache_read_input_tokens": reply.cached_input_tokens,
        "cache_creation": {"ephemeral_5m_input_tokens": reply.cache_write_tokens, "ephemeral_1h_input_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"thinking_tokens": reply.reasoning_tokens},
        "service_tier": "batch",
    }
