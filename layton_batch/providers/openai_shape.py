"""The chat-completions form that several batch APIs share: request bodies, batch objects, result lines. No network.

Sources: OpenAI's batch guide and API reference, and what the other providers document as their differences from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from layton_batch.errors import ProviderReplyError, UnknownStatusError
from layton_batch.providers.chat_usage import usage_of
from layton_batch.providers.damaged_rows import malformed, unreadable
from layton_batch.providers.protocol import NO_REASON, NO_REPLY, StatusMeaning
from layton_batch.providers.wire_errors import REFUSALS, clean, concerns_account, excerpt, parse_json, parse_object
from layton_batch.providers.wire_json import whole
from layton_batch.records import (
    Image,
    JsonValue,
    ModelSpec,
    Prompt,
    Request,
    Response,
    ResponseSchema,
    Snapshot,
    Usage,
)
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, RequestOutcome

ENDPOINT = "/v1/chat/completions"

STATUS_MAP: Mapping[str, StatusMeaning] = MappingProxyType(
    {
        "validating": StatusMeaning(Lifecycle.IN_FLIGHT),
        "in_progress": StatusMeaning(Lifecycle.IN_FLIGHT),
        "finalizing": StatusMeaning(Lifecycle.IN_FLIGHT),
        "cancelling": StatusMeaning(Lifecycle.CANCELLING),
        "completed": StatusMeaning(Lifecycle.ENDED, BatchOutcome.COMPLETED),
        "failed": StatusMeaning(Lifecycle.ENDED, BatchOutcome.FAILED),
        "expired": StatusMeaning(Lifecycle.ENDED, BatchOutcome.EXPIRED),
        "cancelled": StatusMeaning(Lifecycle.ENDED, BatchOutcome.CANCELLED),
    }
)

_FINISH = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.REFUSAL,
}
_VALIDATION = frozenset(
    {
        "context_length_exceeded",
        "duplicate_custom_id",
        "empty_file",
        "mismatched_model",
        "missing_required_parameter",
        "model_mismatch",
        "model_not_found",
        "streaming_unsupported",
        "unknown_parameter",
        "unsupported_parameter",
        "unsupported_value",
        "url_mismatch",
    }
)


# ---- what is asked -------------------------------------------------------------------------------------------------


def chat_body(
    request: Request, *, reasoning: Mapping[str, JsonValue], max_tokens_key: str, model: bool = True
) -> dict[str, JsonValue]:
    """The body of one chat completion; the model's ``params`` go in last and win. ``model``: whether to name it."""
    spec, prompt = request.model, request.prompt
    body: dict[str, JsonValue] = {"model": spec.model} if model else {}
    body["messages"] = messages(prompt)
    if prompt.response_schema is not None:
        body["response_format"] = response_format(prompt.response_schema)
    body.update(reasoning)
    if spec.max_output_tokens is not None:
        body[max_tokens_key] = spec.max_output_tokens
    body.update(spec.params)
    return body


def messages(prompt: Prompt) -> list[JsonValue]:
    """A system message, where there is a system text, and one user message.

    Text alone is sent as a string, not as a list of parts: some hosted models' templates take only that.
    """
    texts = [part for part in prompt.parts if isinstance(part, str)]
    only_text = len(texts) == len(prompt.parts)
    content: JsonValue = "\n\n".join(texts) if only_text else [_part(part) for part in prompt.parts]
    system: list[JsonValue] = [{"role": "system", "content": prompt.system}] if prompt.system else []
    return [*system, {"role": "user", "content": content}]


def _part(part: str | Image) -> JsonValue:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.base64}"


def response_format(schema: ResponseSchema) -> JsonValue:
    """The strict form, with what strict mode demands of every object filled in where the schema left it open."""
    strict: JsonValue = {"name": schema.name, "strict": True, "schema": schema.closed}
    return {"type": "json_schema", "json_schema": strict}


def spec_problems(spec: ModelSpec, *, efforts: Sequence[str]) -> list[str]:
    """List what an API with efforts alone cannot do of a model's settings, each with what to change."""
    problems = []
    efforts_listed = ", ".join(efforts)
    if spec.reasoning.budget_tokens is not None:
        problems.append(
            f"{spec.provider} knows reasoning efforts, not budgets: set reasoning to one of {efforts_listed}"
        )
    if spec.reasoning.effort is not None and spec.reasoning.effort not in efforts:
        problems.append(
            f"{spec.provider} does not know reasoning effort {spec.reasoning.effort!r}: use one of {efforts_listed}"
        )
    problems += [
        f"params.{key} cannot be overridden: leave it out" for key in ("model", "messages") if key in spec.params
    ]
    problems += [
        f"params.{key} does not work in a batch: leave it out" for key in ("stream", "n") if spec.params.get(key)
    ]
    return problems


# ---- batch objects -------------------------------------------------------------------------------------------------


def meaning(
    status_map: Mapping[str, StatusMeaning], word: JsonValue, provider: str, provider_id: str
) -> tuple[str, StatusMeaning]:
    """The status word and its meaning. UnknownStatusError names a word that the provider's documents do not."""
    if not isinstance(word, str):
        raise ProviderReplyError(f"{provider}: batch {provider_id} shows no status")
    if word not in status_map:
        raise UnknownStatusError(
            f"{provider}: batch {provider_id} has status {clean(word, 80)!r}, which its documents do not name",
            code=clean(word, 80),
        )
    return word, status_map[word]


def snapshot_of(
    batch: Mapping[str, JsonValue],
    provider_id: str,
    provider: str,
    status_map: Mapping[str, StatusMeaning] = STATUS_MAP,
) -> Snapshot:
    """A reading of an OpenAI-shaped batch object. Files count only once it has ended: some servers name them before."""
    word, means = meaning(status_map, batch.get("status"), provider, provider_id)
    counts = batch.get("request_counts")
    counts = counts if isinstance(counts, Mapping) else {}
    ended = means.state is Lifecycle.ENDED
    message, error_class = _batch_errors(batch.get("errors"))
    failed = means.outcome is BatchOutcome.FAILED
    return Snapshot(
        provider_id=provider_id,
        provider_status=word,
        state=means.state,
        outcome=means.outcome,
        results_ref=text_or_none(batch.get("output_file_id")) if ended else None,
        errors_ref=text_or_none(batch.get("error_file_id")) if ended else None,
        total=whole(counts.get("total")),
        succeeded=whole(counts.get("completed")),
        failed=whole(counts.get("failed")),
        message=message or (NO_REASON if failed else None),
        error_class=error_class if failed else ErrorClass.NONE,
    )


def _batch_errors(errors: JsonValue) -> tuple[str | None, ErrorClass]:
    """The first errors of a batch in words and their class; they come as ``{data: [...]}``, as a bare list, or not."""
    listed = errors.get("data") if isinstance(errors, Mapping) else errors
    entries = listed if isinstance(listed, list) else [listed] if listed else []
    reasons = [_batch_error(entry) for entry in entries[:3]]
    codes = [_in_words(entry.get("code") or "") for entry in entries if isinstance(entry, Mapping)]
    telling = (
        error_class for code in codes if code and (error_class := class_of_code(code)) is not ErrorClass.PROVIDER_FAULT
    )
    return "; ".join(reasons) or None, next(telling, ErrorClass.PROVIDER_FAULT)


def _batch_error(entry: JsonValue) -> str:
    if not isinstance(entry, Mapping):
        return clean(_in_words(entry))
    line = f"line {_in_words(entry['line'])}" if entry.get("line") is not None else ""
    words = (line, _in_words(entry.get("code") or ""), _in_words(entry.get("message") or ""))
    return clean(": ".join(word for word in words if word)) or "an error without a text"


def _in_words(value: JsonValue) -> str:
    """A text as it is, anything else as Python writes it, which it cannot of what is nested a thousand deep."""
    try:
        return str(value)
    except RecursionError:
        return "an error nested too deeply to be shown"


def text_or_none(value: JsonValue) -> str | None:
    """A non-empty string, else None: absent ids come as null, as "" or not at all."""
    return value if isinstance(value, str) and value else None


# ---- result lines --------------------------------------------------------------------------------------------------
# What JSON calls an object is a dict here: asking for a Mapping takes a fifth of the time of a line.


def decode_row(raw: bytes, provider: str, reply: Callable[[str, JsonValue], Response] | None = None) -> Response:
    """One line of an output or error file; ``reply`` reads what was answered (None: a chat completion). Raises
    ProviderReplyError where no request can be told from it."""
    row = parse_object(raw, provider, "a result line")
    custom_id = row.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        raise ProviderReplyError(f"{provider}: a result line names no custom_id: {excerpt(raw)}")
    response, error = row.get("response"), row.get("error")
    if isinstance(response, dict):
        body = _unwrapped(response.get("body"), provider)
        status = _status(response, body)
        if status is not None and 200 <= status < 300 and not _only_an_error(body):
            return (reply or chat_reply)(custom_id, body)
        if status is not None:
            problem = error or body or response.get("message")
            return errored(custom_id, status if status >= 300 or status == 0 else None, problem)
        if not error or _answers(body):
            return _unreadable(custom_id, provider, "has a status_code that is none", raw)
    if error:
        return errored(custom_id, None, error)
    return _unreadable(custom_id, provider, "holds neither a response nor an error", raw)


def _unreadable(custom_id: str, provider: str, why: str, raw: bytes) -> Response:
    return unreadable(custom_id, f"{provider}: the result line of {clean(custom_id, 80)} {why}: {excerpt(raw)}")


def _status(response: Mapping[str, JsonValue], body: JsonValue) -> int | None:
    """The row's HTTP status (0: it never got a reply); None where it has none, or one that is none."""
    value = response.get("status_code")
    if value is None and isinstance(body, dict) and body:
        return 200  # some servers leave it out
    status = whole(value)
    return status if status is not None and (status == 0 or 200 <= status < 600) else None


def _unwrapped(body: JsonValue, provider: str) -> JsonValue:
    """A body that is JSON inside a string (failed rows of some providers) taken out of it; other strings stay text."""
    if isinstance(body, str) and body.lstrip().startswith("{"):
        try:
            return parse_json(body, provider, "a result line's body")
        except ProviderReplyError:
            return body
    return body


def _only_an_error(body: JsonValue) -> bool:
    return isinstance(body, dict) and bool(body.get("error")) and not body.get("choices")


def _answers(body: JsonValue) -> bool:
    """Return whether a body holds something besides an error, which may have been paid for."""
    return bool(body) and not _only_an_error(body)


def chat_reply(custom_id: str, body: JsonValue) -> Response:
    """A reply that was paid for; without a message, or with a content of another type, it is malformed, not lost."""
    if not isinstance(body, dict):
        return malformed(custom_id, Usage(is_known=False))
    usage, served_model = usage_of(body.get("usage")), text_or_none(body.get("model"))
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not (isinstance(choice, dict) and isinstance(message, dict)):
        return malformed(custom_id, usage, served_model)
    content, refusal = message.get("content"), text_or_none(message.get("refusal"))
    raw_finish = text_or_none(choice.get("finish_reason"))
    finish = FinishReason.REFUSAL if refusal else _FINISH.get(raw_finish or "", FinishReason.OTHER)
    explains_silence = finish in (
        FinishReason.REFUSAL,
        FinishReason.LENGTH,
    )  # what explains that there is nothing to read
    if not explains_silence and not (content is None or isinstance(content, str | list)):
        return malformed(custom_id, usage, served_model)
    return Response(
        custom_id=custom_id,
        outcome=RequestOutcome.SUCCEEDED,
        text=content_text(content),
        finish_reason=finish,
        raw_finish_reason=clean(raw_finish, 80) if raw_finish else None,
        refusal=refusal,
        usage=usage,
        served_model=served_model,
    )


def content_text(content: JsonValue) -> str | None:
    """The answer's text: a string, or the ``text`` parts of a list (thinking and other parts are left out)."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = []
    for part in content:
        text = part if isinstance(part, str) else None
        if isinstance(part, Mapping) and part.get("type", "text") in ("text", "output_text"):
            inner = part.get("text")
            text = inner if isinstance(inner, str) else None
        if text is not None:
            texts.append(text)
    return "".join(texts)


def errored(custom_id: str, status: int | None, error: JsonValue) -> Response:
    """A row without an answer: by its HTTP status, by an error object ``{code, message}`` or by an error's text."""
    holder = error.get("error", error) if isinstance(error, Mapping) else error
    holder = holder if holder else error
    code = holder.get("code") or holder.get("type") if isinstance(holder, Mapping) else None
    message = holder.get("message") or holder.get("detail") if isinstance(holder, Mapping) else holder
    word = clean(str(code), 80) if isinstance(code, str | int) and code else None
    outcome = _UNANSWERED.get((word or "").lower())
    if status == 0 and outcome is None:
        word = NO_REPLY
    numeric = int(word) if word and word.isascii() and word.isdigit() else None
    status = status if status is not None else numeric
    error_message = clean(_in_words(message), 500) if message else None
    error_class = class_of_status(status) or class_of_code(word or "")
    if word in (None, *_WITHOUT_MEANING) and not status:
        error_class = class_of_text(error_message or "")
    if outcome is not None:
        error_class = ErrorClass.NOT_EXECUTED
    elif concerns_account(status, word, error_message):
        error_class = ErrorClass.ACCOUNT
    return Response(
        custom_id=custom_id,
        outcome=outcome or RequestOutcome.ERRORED,
        error_class=error_class,
        error_code=word or (str(status) if status else None),
        error_message=error_message,
    )


_UNANSWERED = {
    "batch_expired": RequestOutcome.EXPIRED,
    "batch_cancelled": RequestOutcome.CANCELLED,
    "batch_canceled": RequestOutcome.CANCELLED,
}
_WITHOUT_MEANING = ("batch_client_error",)
"""Codes that stand for errors of every kind, so that the text decides. Together's is also used for internal errors."""


def class_of_status(status: int | None) -> ErrorClass | None:
    """Classify a failed row's HTTP status for the next attempt; None where it says nothing. 0: no reply came."""
    if status is None or not (status == 0 or 400 <= status <= 599):
        return None
    if status == 429:
        return ErrorClass.RATE_LIMITED
    if status == 413:
        return ErrorClass.TOO_LARGE
    return ErrorClass.INVALID_REQUEST if status in REFUSALS else ErrorClass.PROVIDER_FAULT


def class_of_code(code: str) -> ErrorClass:
    """Classify an error code without an HTTP status. Unknown codes count as the provider's fault: sending the
    row again is bounded and errored rows are not billed, while giving it up would lose an answer."""
    word = code.lower()
    if concerns_account(None, word, None):
        return ErrorClass.ACCOUNT
    if "rate_limit" in word or "token_limit" in word or "quota" in word:
        return ErrorClass.RATE_LIMITED
    if "too_large" in word or word == "too_many_tasks":  # the file has more rows than a batch may have
        return ErrorClass.TOO_LARGE
    ours = word in _VALIDATION or word.startswith("invalid")
    return ErrorClass.INVALID_REQUEST if ours else ErrorClass.PROVIDER_FAULT


_LIMITED = re.compile(r"rate.?limit|enqueued|quota", re.IGNORECASE)
_OURS = re.compile(
    r"\binvalid|not supported|unsupported|malformed|\bpars|not found|duplicate|\breading|\bmust be\b|\ballowed\b"
    r"|validation",
    re.IGNORECASE,
)


def class_of_text(text: str) -> ErrorClass:
    """Classify an error that says why in prose only. What does not sound like our doing is worth another try: it cost
    nothing."""
    if _LIMITED.search(text):
        return ErrorClass.RATE_LIMITED
    return ErrorClass.INVALID_REQUEST if _OURS.search(text) else ErrorClass.PROVIDER_FAULT
