"""The forms of Google's generateContent: request and reply as Gemini's and Vertex's batch lines carry them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from layton_batch.errors import ProviderReplyError, RequestRefusedError
from layton_batch.providers.damaged_rows import malformed, unreadable
from layton_batch.providers.openai_shape import class_of_code, class_of_status
from layton_batch.providers.wire_errors import clean, concerns_account, excerpt, parse_object
from layton_batch.providers.wire_json import JsonObject, at, count, merged, objects, text, whole
from layton_batch.records import EMPTY, Image, JsonValue, ModelSpec, Reasoning, Request, Response, Usage
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "XHIGH"}

_REQUEST_FIELDS = frozenset(
    {
        "systemInstruction", "contents", "generationConfig", "safetySettings", "tools", "toolConfig", "cachedContent",
        "labels", "store", "serviceTier",
    }
)  # fmt: skip
"""A passthrough parameter of another name belongs to ``generationConfig``, as ``temperature`` does."""

_FINISH = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "SAFETY": FinishReason.REFUSAL,
    "RECITATION": FinishReason.REFUSAL,
    "BLOCKLIST": FinishReason.REFUSAL,
    "PROHIBITED_CONTENT": FinishReason.REFUSAL,
    "SPII": FinishReason.REFUSAL,
    "IMAGE_SAFETY": FinishReason.REFUSAL,
}
_RPC = {
    3: ErrorClass.INVALID_REQUEST,  # INVALID_ARGUMENT
    5: ErrorClass.INVALID_REQUEST,  # NOT_FOUND
    7: ErrorClass.INVALID_REQUEST,  # PERMISSION_DENIED
    8: ErrorClass.RATE_LIMITED,  # RESOURCE_EXHAUSTED
    9: ErrorClass.INVALID_REQUEST,  # FAILED_PRECONDITION
    11: ErrorClass.INVALID_REQUEST,  # OUT_OF_RANGE
    12: ErrorClass.INVALID_REQUEST,  # UNIMPLEMENTED
    16: ErrorClass.ACCOUNT,  # UNAUTHENTICATED
}
"""google.rpc.Code; the ones left out (unknown, deadline, internal, unavailable …) are the provider's fault."""

_RPC_CANCELLED = 1

_OWN_CODES = frozenset({"404", "NOT_FOUND"})
"""Codes of the API's own 404; another comes from who knows no such path."""
_OF_A_METHOD = re.compile(r"\bfor API version\b|\b(unknown|no such) method\b|\bmethod not found\b", re.IGNORECASE)
_UNKNOWN_NAME = re.compile(r"\bUnknown name\b", re.IGNORECASE)


# ---- requests ------------------------------------------------------------------------------------------------------


def encode(request: Request) -> dict[str, JsonValue]:
    """One line of a batch file, as an object."""
    return {"key": request.custom_id, "request": body(request)}


def body(request: Request) -> JsonObject:
    """The REST form (camelCase) of one generateContent call; the model is named by the batch, not here."""
    spec, prompt = request.model, request.prompt
    call: dict[str, JsonValue] = {}
    if prompt.system:
        call["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    call["contents"] = [{"role": "user", "parts": [_part(part) for part in prompt.parts]}]
    config: dict[str, JsonValue] = {}
    if prompt.response_schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = prompt.response_schema.schema
    if spec.max_output_tokens is not None:
        config["maxOutputTokens"] = spec.max_output_tokens
    thinking = _thinking(spec.reasoning)
    if thinking:
        config["thinkingConfig"] = thinking
    if config:
        call["generationConfig"] = config
    return merged(call, _sorted_params(spec.params))


def _part(part: str | Image) -> JsonObject:
    if isinstance(part, str):
        return {"text": part}
    return {"inlineData": {"mimeType": part.media_type, "data": part.base64}}


def _thinking(reasoning: Reasoning) -> JsonObject:
    """Levels for the Gemini 3 family, budgets for the 2.5 one; a budget of 0 is what switches thinking off."""
    if reasoning.budget_tokens is not None:
        return {"thinkingBudget": reasoning.budget_tokens}
    if reasoning.effort == "none":
        return {"thinkingBudget": 0}
    return {"thinkingLevel": LEVELS.get(reasoning.effort, reasoning.effort.upper())} if reasoning.effort else {}


def _sorted_params(params: JsonObject) -> JsonObject:
    top = {key: value for key, value in params.items() if key in _REQUEST_FIELDS}
    config = {key: value for key, value in params.items() if key not in _REQUEST_FIELDS}
    return merged(top, {"generationConfig": config}) if config else top


def problems(spec: ModelSpec) -> list[str]:
    """List in words which of a model's settings this API cannot do."""
    effort, budget = spec.reasoning.effort, spec.reasoning.budget_tokens
    listed = []
    if effort is not None and effort != "none" and effort not in LEVELS:
        listed.append(f"reasoning {effort!r} is not one of none, {', '.join(LEVELS)}")
    if effort in LEVELS and "gemini-2" in spec.model:
        listed.append(f"{spec.model} takes a thinking budget, not a level: set reasoning = {{ budget_tokens = … }}")
    if effort == "none" and "gemini-3" in spec.model:
        listed.append(
            f"{spec.model} cannot switch thinking off: the least is reasoning = 'minimal' or, without it, 'low'"
        )
    if budget is not None and budget < -1:
        listed.append(f"reasoning.budget_tokens = {budget}: 0 switches thinking off, -1 leaves it to the model")
    listed += [f"params.{key}: the REST name is wanted, {_camel(key)}" for key in spec.params if "_" in key]
    listed += [
        f"params.{key} is set by layton-batch" for key in ("contents", "systemInstruction") if key in spec.params
    ]
    return listed


def _camel(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(word.capitalize() for word in rest)


# ---- replies -------------------------------------------------------------------------------------------------------


def decode(line: bytes, provider: str) -> Response:
    """One result line. Raises ProviderReplyError where no request can be told from it.

    Vertex writes an error as ``status``: a text, or an object like Gemini's ``error``; an empty one means success.
    """
    row = parse_object(line, provider, "a result line")
    key = text(row, "key") or text(at(row, "metadata"), "key")
    if key is None:
        raise ProviderReplyError(f"{provider}: a result line names no key: {excerpt(line)}")
    error = row.get("error") or row.get("status")
    if error and not objects(at(row, "response"), "candidates"):
        return errored(key, error)
    if isinstance(row.get("response"), Mapping):
        return _answer(key, at(row, "response"))
    return unreadable(key, f"{provider}: the result line of {clean(key, 80)} holds neither a response nor an error")


def errored(custom_id: str, error: JsonValue) -> Response:
    """A row without an answer, from a google.rpc.Status object or its text. Vertex puts the object behind a word, as in
    ``Bad Request: {"error": …}``."""
    if isinstance(error, str) and "{" in error:
        with suppress(ProviderReplyError):
            inner = parse_object(error[error.index("{") :], "vertex", "the text of an error")
            error = at(inner, "error") or inner
    holder = error if isinstance(error, Mapping) else {"message": error}
    code, word = count(holder, "code"), text(holder, "status")
    if code == _RPC_CANCELLED:
        outcome, error_class = RequestOutcome.CANCELLED, ErrorClass.NOT_EXECUTED
    else:
        outcome, error_class = RequestOutcome.ERRORED, error_class_of(holder)
    return Response(
        custom_id,
        outcome,
        error_class=error_class,
        error_code=clean(word, 80) if word else str(code) if code else None,
        error_message=clean(text(holder, "message") or "", 500) or None,
    )


def error_class_of(error: JsonObject) -> ErrorClass:
    """Classify an error for the next attempt. ``code`` is a google.rpc code or an HTTP status."""
    code, word = count(error, "code"), text(error, "status")
    is_rpc = 0 < code < 20
    if concerns_account(None if is_rpc else code, word, text(error, "message")):
        return ErrorClass.ACCOUNT
    if is_rpc:
        return _RPC.get(code, ErrorClass.PROVIDER_FAULT)
    return class_of_status(code or None) or class_of_code((word or "").replace("RESOURCE_EX", "quota"))


def is_of_version(error: RequestRefusedError, *, named: bool) -> bool:
    """Return whether an API version may have refused a call because it lacks its method or a field. ``named``: only
    where it says so; else any 404 counts, also one that may be about what was asked for."""
    if error.status == 400:
        return _UNKNOWN_NAME.search(str(error)) is not None
    if error.status != 404:
        return False
    return not named or error.code not in _OWN_CODES or _OF_A_METHOD.search(str(error)) is not None


def counted(stats: JsonObject, key: str) -> int | None:
    """One of a batch's counts, 0 where it is left out among others; None where nothing usable is told."""
    return whole(stats.get(key, 0)) if stats else None


def all_failed(stats: JsonObject) -> bool:
    """Return whether the provider counts every request of a batch as failed."""
    total, failed = whole(stats.get("requestCount")), whole(stats.get("failedRequestCount"))
    return bool(total) and failed == total and counted(stats, "successfulRequestCount") == 0


def _answer(custom_id: str, reply: JsonObject) -> Response:
    candidates = objects(reply, "candidates")
    candidate = candidates[0] if candidates else EMPTY
    parts = objects(at(candidate, "content"), "parts")
    answer = "".join(text(part, "text") or "" for part in parts if part.get("thought") is not True)
    blocked = text(at(reply, "promptFeedback"), "blockReason") if not candidates else None
    raw = text(candidate, "finishReason") or blocked
    if not answer and raw is None:
        return malformed(custom_id, _usage(at(reply, "usageMetadata")), text(reply, "modelVersion"))
    finish = FinishReason.REFUSAL if blocked else _FINISH.get(raw or "", FinishReason.OTHER)
    why = text(candidate, "finishMessage") or text(at(reply, "promptFeedback"), "blockReasonMessage") or raw
    return Response(
        custom_id,
        RequestOutcome.SUCCEEDED,
        text=answer or None,
        finish_reason=finish,
        raw_finish_reason=clean(raw, 80) if raw else None,
        refusal=why if finish is FinishReason.REFUSAL else None,
        usage=_usage(at(reply, "usageMetadata")),
        served_model=text(reply, "modelVersion"),
    )


def _usage(usage: JsonObject) -> Usage:
    """Billed output is candidates plus thoughts; the prompt's count already includes what came from a cache."""
    thoughts = count(usage, "thoughtsTokenCount")
    sent = count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount")
    return Usage(
        input_tokens=sent,
        cached_input_tokens=min(count(usage, "cachedContentTokenCount"), sent),
        output_tokens=count(usage, "candidatesTokenCount") + thoughts,
        reasoning_tokens=thoughts,
        # Google leaves out what is 0
        is_known=None not in (whole(usage.get("promptTokenCount")), whole(usage.get("candidatesTokenCount", 0))),
    )
