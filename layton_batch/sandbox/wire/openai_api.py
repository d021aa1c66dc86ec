"""OpenAI's files and batches, and the two providers of its shape: Groq and Doubleword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from layton_batch.sandbox.answerers.questions import CachedPrefix, ModelReply, Question
from layton_batch.sandbox.answerers.reply_forms import text_tokens
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.lifecycle import OUTCOMES
from layton_batch.sandbox.engine.store import SandboxBatch, new_id
from layton_batch.sandbox.wire.api import CHAT, DAY, ProviderApi, SandboxCall
from layton_batch.sandbox.wire.reading import (
    Body,
    conversation,
    of_kind,
    one_of,
    output_limit,
    required,
    section,
    strict_schema,
)
from layton_batch.sandbox.wire.reply_bodies import completion, refusable, response, thinking_text, usage_view

_RESPONSES = "/v1/responses"
_LEAST_CACHED, _CACHE_STEP = 1024, 128
"""Tokens from which OpenAI keeps a prompt's begin for the next one without being asked, and in which steps it bills
what was read again. Nobody else of this form states a cached price for batches."""
_LAPSED = {
    "expired": "This request could not be executed before the completion window expired.",
    "cancelled": "This request was not executed because the batch was cancelled.",
}


def chat_question(provider: str, body: Body, key: str, model: str = "", *, strict: bool = False) -> Question:
    """Read a chat body. ``model`` is the batch's own where rows need not name one; ``strict``: a schema that asks for
    it is held to OpenAI's rules. Raises Rejection."""
    prompt = conversation(required(body, "messages", list))
    return Question(
        provider=provider,
        model=str(body.get("model") or model),
        system=prompt.system,
        text=prompt.text,
        images=prompt.images,
        schema=_schema(section(section(body, "response_format"), "json_schema"), "response_format", strict=strict),
        reasoning=_reasoning(body),
        max_output_tokens=output_limit(body, "max_completion_tokens", "max_tokens"),
        custom_id=key,
    )


def _schema(form: Body, parameter: str, *, strict: bool) -> Body | None:
    """The schema out of `{"name", "schema", "strict"}`, if one is asked for."""
    if not form:
        return None
    schema = required(form, "schema", dict, f"{parameter}.")
    required(form, "name", str, f"{parameter}.")
    return strict_schema(schema, parameter) if strict and form.get("strict") is True else schema


def _reasoning(body: Body) -> str | int | None:
    """The effort word, however the provider has it said; "default" where thinking is only switched on."""
    effort = body.get("reasoning_effort")
    if effort is not None:
        return of_kind(effort, str, "reasoning_effort")
    reasoning = section(body, "reasoning")
    for name in ("effort", "max_tokens"):
        value = reasoning.get(name)
        if isinstance(value, str | int):
            return value
    for switch in (reasoning, section(body, "chat_template_kwargs")):
        for name in ("enabled", "thinking", "enable_thinking"):
            if isinstance(switch.get(name), bool):
                return "default" if switch[name] else "none"
    return "default" if body.get("prompt_mode") == "reasoning" else None


class OpenAIApi(ProviderApi):
    """Files and batches of OpenAI."""

    provider = "openai"
    prefix = "/openai/v1"
    error_file = True
    file_bytes = 200_000_000
    urls: tuple[str, ...] = (CHAT, _RESPONSES)
    windows: tuple[str, ...] = ("24h",)
    routes = """
        POST /files upload
        GET /files list_files
        GET /files/{id} file
        GET /files/{id}/content results
        POST /batches create
        GET /batches list
        GET /batches/{id} poll
        POST /batches/{id}/cancel cancel
        GET /models models
        GET /models/{id:path} models model
    """

    def refusal(self, rejection: Rejection) -> dict[str, object]:
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = kinds.get(rejection.status, "server_error" if rejection.status >= 500 else "invalid_request_error")
        error = {"message": rejection.message, "type": kind, "param": rejection.param, "code": rejection.code}
        return {"error": error}

    def create(self, call: SandboxCall) -> object:
        body = call.json()
        input_id = required(body, "input_file_id", str)
        if self.store.file(self.provider, input_id) is None:
            raise Rejection(400, f"No file with id {input_id!r} exists.", code="invalid_input_file")
        batch = self.created(
            input_id=input_id,
            endpoint=one_of(body.get("endpoint"), "endpoint", self.urls),
            echo={
                "completion_window": one_of(body.get("completion_window"), "completion_window", self.windows),
                "metadata": _metadata(body),
            },
        )
        return self.view(call, batch)

    def admit(self, row: Row, batch: SandboxBatch, keys: set[str]) -> str:
        key = required(row, "custom_id", str)
        if key in keys:
            message = f"The custom_id {key!r} is used more than once in this file."
            raise Rejection(400, message, code="duplicate_custom_id", param="custom_id")
        keys.add(key)
        method, url = required(row, "method", str), required(row, "url", str)
        if method != "POST" or url != batch.endpoint:
            message = f"{method} {url} does not match the batch endpoint POST {batch.endpoint}."
            raise Rejection(400, message, code="invalid_url", param="url")
        body = required(row, "body", dict)
        if body.get("stream"):
            raise Rejection(400, "Streaming is not supported in a batch.", code="streaming_unsupported", param="stream")
        return required(body, "model", str, "body.")

    def check_models(self, models: set[str]) -> None:
        if len(models) > 1:
            message = f"All requests of a batch must name one model, not {sorted(models)}."
            raise Rejection(400, message, code="mismatched_model", param="body.model")

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        body = required(row, "body", dict)
        if batch.endpoint == _RESPONSES:
            question = self._response(body, self.key(row))
        else:
            question = chat_question(self.provider, body, self.key(row), strict=True)
        if self.provider != "openai" or text_tokens(question.system) < _LEAST_CACHED:
            return question
        return replace(question, prefix=CachedPrefix(question.system, _CACHE_STEP))

    def _response(self, body: Body, key: str) -> Question:
        request_input = body.get("input")
        messages = [{"content": request_input}] if isinstance(request_input, str) else required(body, "input", list)
        prompt = conversation(messages, body.get("instructions"))
        form = section(section(body, "text"), "format")
        return Question(
            provider=self.provider,
            model=required(body, "model", str),
            system=prompt.system,
            text=prompt.text,
            images=prompt.images,
            schema=_schema(form if form.get("type") == "json_schema" else {}, "text.format", strict=True),
            reasoning=_reasoning(body),
            max_output_tokens=output_limit(body, "max_output_tokens"),
            custom_id=key,
        )

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        if row["url"] == _RESPONSES:
            return _line(question.custom_id, 200, response(question, reply))
        message = self.message(required(row, "body", dict), reply)
        return _line(question.custom_id, 200, completion(question, reply, message))

    def message(self, _body: Body, reply: ModelReply) -> dict[str, object]:
        return refusable(reply)

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return _line(key, rejection.status, self.refusal(rejection))

    def unfinished(self, key: str, outcome: str) -> dict[str, object] | None:
        if outcome not in _LAPSED:
            return None
        error = {"code": f"batch_{outcome}", "message": _LAPSED[outcome]}
        return {"id": new_id("batch_req_"), "custom_id": key, "response": None, "error": error}

    def view(self, _call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        problem, ended = batch.problem, None if batch.ended is None else int(batch.ended)
        runs = problem is None and batch.phase not in ("validating", "cancelling")
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "input_file_id": batch.input_id,
            "output_file_id": batch.output_id or None,
            "error_file_id": batch.error_id or None,
            "status": self.status(batch),
            "errors": self.errors(asdict(problem)) if problem else None,
            "request_counts": {
                "total": 0 if batch.phase == "validating" else batch.rows,
                "completed": batch.succeeded,
                "failed": batch.failed,
            },
            "created_at": int(batch.created),
            "expires_at": int(batch.created) + DAY,
            **batch.echo,
            "in_progress_at": int(batch.started) if runs else None,
            "cancelling_at": None if batch.cancel_asked is None else int(batch.cancel_asked),
            "finalizing_at": ended if batch.phase == "completed" else None,
            **{f"{outcome}_at": ended if batch.phase == outcome else None for outcome in OUTCOMES},
            **self.stated_usage(batch),
        }

    def errors(self, problem: dict[str, object]) -> object:
        return {"object": "list", "data": [problem]}

    def stated_usage(self, batch: SandboxBatch) -> dict[str, object]:
        return {"model": batch.model or None, "usage": usage_view(batch.usage)}


class GroqApi(OpenAIApi):
    """Groq: batches of several models, their errors as a bare list, their pages by an opaque cursor."""

    provider = "groq"
    prefix = "/groq"
    at = "/openai/v1"
    file_bytes = 100_000_000
    file_id = "file_"
    page_words = ("limit", "cursor")
    urls = (CHAT,)
    windows = ("24h", "48h", "72h", "96h", "120h", "144h", "168h", *(f"{days}d" for days in range(1, 8)))

    def check_models(self, models: set[str]) -> None:
        """Any number of them."""

    def listing(self, views: Sequence[Mapping[str, object]], cursor: str | None) -> object:
        return {"object": "list", "data": views, "paging": {"next_cursor": cursor}}

    def message(self, body: Body, reply: ModelReply) -> dict[str, object]:
        shown = body.get("reasoning_format") == "parsed" or body.get("include_reasoning") is True
        reasoning = {"reasoning": thinking_text(reply)} if shown and reply.reasoning_tokens else {}
        return {"content": reply.text, **reasoning}

    def errors(self, problem: dict[str, object]) -> object:
        return [problem]

    def stated_usage(self, _batch: SandboxBatch) -> dict[str, object]:
        return {}


class DoublewordApi(OpenAIApi):
    """Doubleword: OpenAI's form with limits of its own."""

    provider = "doubleword"
    prefix = "/doubleword/v1"
    file_bytes = 100_000_000
    line_bytes = 10_485_760
    urls = (CHAT,)
    windows = ("1h", "24h")

    def admit(self, row: Row, batch: SandboxBatch, keys: set[str]) -> str:
        model = super().admit(row, batch, keys)
        if len(self.key(row)) > 64:
            raise Rejection(400, f"custom_id {self.key(row)!r} is longer than 64 characters.", param="custom_id")
        return model

    def stated_usage(self, _batch: SandboxBatch) -> dict[str, object]:
        return {}


def _line(key: str, status: int, body: Mapping[str, object]) -> dict[str, object]:
    reply = {"status_code": status, "request_id": new_id("req_"), "body": body}
    return {"id": new_id("batch_req_"), "custom_id": key, "response": reply, "error": None}


def _metadata(body: Body) -> Body | None:
    pairs = section(body, "metadata")
    if len(pairs) > 16 or any(len(name) > 64 or len(str(text)) > 512 for name, text in pairs.items()):
        message = "Invalid 'metadata': at most 16 pairs, keys of up to 64 and values of up to 512 characters."
        raise Rejection(400, message, code="invalid_value", param="metadata")
    return pairs or None
