"""The forms of Anthropic's Messages API: a request as a line, a result line as a Response. No network."""

from __future__ import annotations

from layton_batch import model_table
from layton_batch.errors import ProviderReplyError
from layton_batch.providers.damaged_rows import malformed, unreadable
from layton_batch.providers.wire_errors import clean, concerns_account, parse_object
from layton_batch.providers.wire_json import JsonObject, at, count, merged, objects, text, whole
from layton_batch.records import Image, JsonValue, ModelSpec, Request, Response, Usage
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

DEFAULT_MAX_TOKENS, TOKENS_BEYOND_THINKING = model_table.STATED_LIMITS["anthropic"]
LEAST_BUDGET = 1_024
BYTES_PER_TOKEN = 4
"""Bytes of instructions in English for each token, roughly."""
EFFORTS = ("none", "low", "medium", "high", "xhigh", "max")

_STOPS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
}
_ERRORS = {
    "invalid_request_error": ErrorClass.INVALID_REQUEST,
    "not_found_error": ErrorClass.INVALID_REQUEST,
    "request_too_large": ErrorClass.TOO_LARGE,
    "rate_limit_error": ErrorClass.RATE_LIMITED,
}
_NOT_RUN = {"canceled": RequestOutcome.CANCELLED, "expired": RequestOutcome.EXPIRED}


# ---- requests ------------------------------------------------------------------------------------------------------


def problems(spec: ModelSpec) -> list[str]:
    """List in words which of a model's settings this API cannot do."""
    effort, budget, limit = spec.reasoning.effort, spec.reasoning.budget_tokens, spec.max_output_tokens
    listed = []
    if effort is not None and effort not in EFFORTS:
        listed.append(f"reasoning {effort!r} is not one of {', '.join(EFFORTS)}")
    if budget is not None and budget < LEAST_BUDGET:
        listed.append(f"reasoning.budget_tokens = {budget} is below the least budget, {LEAST_BUDGET}")
    if budget is not None and limit is not None and budget >= limit:
        listed.append(f"reasoning.budget_tokens = {budget} must be below max_output_tokens = {limit}")
    listed += [f"params.{key} is not allowed in a batch" for key in ("stream", "speed") if key in spec.params]
    return listed


def encode(request: Request) -> dict[str, JsonValue]:
    """One line of a batch file, as an object."""
    return {"custom_id": request.custom_id, "params": _params(request)}


def _params(request: Request) -> JsonObject:
    spec, prompt = request.model, request.prompt
    params: dict[str, JsonValue] = {"model": spec.model, "max_tokens": _max_tokens(spec)}
    if prompt.system:
        params["system"] = _system(prompt.system, spec.model)
    params["messages"] = [{"role": "user", "content": [_block(part) for part in prompt.parts if part]}]
    output: dict[str, JsonValue] = {}
    if spec.reasoning.budget_tokens is not None:
        params["thinking"] = {"type": "enabled", "budget_tokens": spec.reasoning.budget_tokens}
    elif spec.reasoning.effort == "none":
        params["thinking"] = {"type": "disabled"}
    elif spec.reasoning.effort is not None:
        output["effort"] = spec.reasoning.effort
        if _thinks_adaptively(spec.model):  # else the effort alone leaves thinking off, without a word
            params["thinking"] = {"type": "adaptive"}
    if prompt.response_schema is not None:
        output["format"] = {"type": "json_schema", "schema": prompt.response_schema.closed}
    if output:
        params["output_config"] = output
    return merged(params, spec.params)


def _system(system: str, model: str) -> JsonValue:
    """The system text. It is the same in all requests of a job, so a batch reads it from the cache where it is long
    enough for the model's: by documents 30 to 98 % of the rows of a batch do, and reading costs a tenth of input,
    keeping a quarter more than input. A shorter text is sent as it is, for the mark would do nothing."""
    model_facts = model_table.load().model("anthropic", model)
    least = model_facts.least_cached_tokens if model_facts is not None else None
    if least is None or len(system.encode("utf-8", "surrogatepass")) < least.fact * BYTES_PER_TOKEN:
        return system
    return [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]


def _thinks_adaptively(model: str) -> bool:
    """Return whether an effort of this model means adaptive thinking: Claude 4.6 and later."""
    facts = model_table.load().model("anthropic", model)
    return facts is not None and facts.thinking is not None and "adaptive" in facts.thinking.fact


def _max_tokens(spec: ModelSpec) -> int:
    """The API refuses a request without a limit; thinking tokens count towards it."""
    if spec.max_output_tokens is not None:
        return spec.max_output_tokens
    budget = spec.reasoning.budget_tokens
    return DEFAULT_MAX_TOKENS if budget is None else budget + TOKENS_BEYOND_THINKING


def _block(part: str | Image) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.base64}}


# ---- replies -------------------------------------------------------------------------------------------------------


def decode(line: bytes) -> Response:
    """One result line. Raises ProviderReplyError where no request can be told from it."""
    row = parse_object(line, "anthropic", "result line")
    custom_id, result = text(row, "custom_id"), at(row, "result")
    if custom_id is None:
        raise ProviderReplyError("anthropic: result line without a custom_id")
    kind = text(result, "type")
    if kind == "succeeded":
        return _answer(custom_id, at(result, "message"))
    if kind == "errored":
        return _error(custom_id, at(result, "error"))
    if kind in _NOT_RUN:
        return Response(custom_id, _NOT_RUN[kind], error_class=ErrorClass.NOT_EXECUTED, error_code=kind)
    return unreadable(custom_id, f"anthropic: result line of {custom_id}: unknown result {clean(str(kind))!r}")


def _answer(custom_id: str, message: JsonObject) -> Response:
    stop = text(message, "stop_reason")
    texts = [text(block, "text") or "" for block in objects(message, "content") if block.get("type") == "text"]
    finish = _STOPS.get(stop or "", FinishReason.OTHER)
    explains_silence = finish in (
        FinishReason.REFUSAL,
        FinishReason.LENGTH,
    )  # what explains that there is nothing to read
    if not explains_silence and not isinstance(message.get("content"), list):
        return malformed(custom_id, _usage(at(message, "usage")), text(message, "model"))
    return Response(
        custom_id,
        RequestOutcome.SUCCEEDED,
        text="".join(texts) or None,
        finish_reason=finish,
        raw_finish_reason=stop,
        refusal=_refusal(message) if finish is FinishReason.REFUSAL else None,
        usage=_usage(at(message, "usage")),
        served_model=text(message, "model"),
    )


def _refusal(message: JsonObject) -> str:
    details = at(message, "stop_details")
    return text(details, "explanation") or text(details, "category") or "the model refused"


def _usage(usage: JsonObject) -> Usage:
    output = count(usage, "output_tokens")
    read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count(usage, "input_tokens") + read + written,
        cached_input_tokens=read,
        output_tokens=output,
        reasoning_tokens=min(count(at(usage, "output_tokens_details"), "thinking_tokens"), output),
        cache_write_tokens=written,
        hour_write_tokens=count(at(usage, "cache_creation"), "ephemeral_1h_input_tokens"),
        is_known=None not in (whole(usage.get("input_tokens")), whole(usage.get("output_tokens"))),
    )


def _error(custom_id: str, error: JsonObject) -> Response:
    inner = at(error, "error") or error
    kind, message = text(inner, "type"), text(inner, "message")
    error_class = _ERRORS.get(kind or "", ErrorClass.PROVIDER_FAULT)
    return Response(
        custom_id,
        RequestOutcome.ERRORED,
        error_class=ErrorClass.ACCOUNT if concerns_account(None, kind, message) else error_class,
        error_code=kind,
        error_message=message,
    )
