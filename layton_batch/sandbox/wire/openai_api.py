"""OpenAI's files and batches, and the two providers of its shape: Groq and Doubleword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from starlette.responses import FileResponse, Response

from layton_batch.sandbox.answerers.questions import CachedPrefix, ModelReply, Question
from layton_batch.sandbox.answerers.reply_forms import text_tokens
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.store import Outcome, SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire.api import DAY, Endpoint, JsonReply, ProviderApi, SandboxCall, openai_page, page
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
from layton_batch.sandbox.wire.reply_bodies import chat_usage, completion, response, said, thinking_text

_CHAT, _RESPONSES = "/v1/chat/completions", "/v1/responses"
_LEAST_CACHED, _CACHE_STEP = 1024, 128
"""Tokens from which OpenAI keeps a prompt's begin for the next one without being asked, and in which steps it bills
what was read again. Nobody else of this form states a cached price for batches."""
_LAPSED = {
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
    "cancelled": ("batch_cancelled", "This request was not executed because the batch was cancelled."),
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
    prefix = "/openai"
    error_file = True
    statuses: ClassVar[Mapping[str, str]] = {"running": "in_progress"}
    file_bytes = 200_000_000
    at = "/v1"
    file_name = "file-"
    urls: tuple[str, ...] = (_CHAT, _RESPONSES)
    windows: tuple[str, ...] = ("24h",)

    def endpoints(self) -> Sequence[Endpoint]:
        files, batches, models = f"{self.at}/files", f"{self.at}/batches", f"{self.at}/models"
        return [
            Endpoint("POST", files, "upload", self.upload),
            Endpoint("GET", files, "list_files", self.list_files),
            Endpoint("GET", files + "/{id}", "file", lambda call: JsonReply(_file_view(self.file(call)))),
            Endpoint("DELETE", files + "/{id}", "delete", self.delete_file),
            Endpoint("GET", files + "/{id}/content", "results", self.content),
            Endpoint("POST", batches, "create", self.create),
            Endpoint("GET", batches, "list", self.list_batches),
            Endpoint("GET", batches + "/{id}", "poll", self.poll),
            Endpoint("POST", batches + "/{id}/cancel", "cancel", self.cancel),
            Endpoint("GET", models, "models", self.models),
            Endpoint("GET", models + "/{id:path}", "models", self.model),
        ]

    def refusal(self, rejection: Rejection) -> Mapping[str, object]:
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = kinds.get(rejection.status, "server_error" if rejection.status >= 500 else "invalid_request_error")
        error = {"message": rejection.message, "type": kind, "param": rejection.param, "code": rejection.code}
        return {"error": error}

    def models(self, _call: SandboxCall) -> Response:
        return JsonReply({"object": "list", "data": [self.model_view(model) for model in self.catalogue()]})

    def model(self, call: SandboxCall) -> Response:
        return JsonReply({**self.model_view(self.known_model(call, "model_not_found")), "shutdown_date": None})

    def upload(self, call: SandboxCall) -> Response:
        record = self.uploaded(call, new_id(self.file_name), ("batch",))
        lifetime = call.fields.get("expires_after[seconds]", "")
        seconds = int(lifetime) if lifetime.isdigit() else 30 * DAY
        record = replace(record, expires=record.created + seconds)
        self.store.put_file(record)
        return JsonReply(_file_view(record))

    def list_files(self, call: SandboxCall) -> Response:
        purpose = call.query.get("purpose")
        files = [file for file in self.store.files(self.provider) if purpose in (None, file.purpose)]
        if call.query.get("order") == "asc":
            files.reverse()
        return openai_page(call, files, 10_000, _file_view)

    def create(self, call: SandboxCall) -> Response:
        body = call.json()
        record = self.store.file(self.provider, required(body, "input_file_id", str))
        if record is None or record.purpose != "batch":
            message = f"No file with id {body['input_file_id']!r} and purpose 'batch' exists."
            raise Rejection(400, message, code="invalid_input_file", param="input_file_id")
        batch = SandboxBatch(
            id=new_id("batch_"),
            provider=self.provider,
            created=self.engine.now(),
            input_id=record.id,
            endpoint=one_of(required(body, "endpoint", str), "endpoint", self.urls),
            model="",
            echo={
                "completion_window": one_of(body.get("completion_window"), "completion_window", self.windows),
                "metadata": _metadata(body),
            },
        )
        return JsonReply(self.view(call, self.engine.create(batch)))

    def list_batches(self, call: SandboxCall) -> Response:
        return openai_page(call, self.engine.everything(self.provider), 100, lambda batch: self.view(call, batch))

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
        read = self._response if batch.endpoint == _RESPONSES else self._chat
        question = read(body, self.key(row))
        if self.provider != "openai" or text_tokens(question.system) < _LEAST_CACHED:
            return question
        return replace(question, prefix=CachedPrefix(question.system, _CACHE_STEP))

    def _chat(self, body: Body, key: str) -> Question:
        return chat_question(self.provider, body, key, strict=True)

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
        return _line(question.custom_id, 200, completion(question, reply, message, chat_usage(reply)))

    def message(self, _body: Body, reply: ModelReply) -> dict[str, object]:
        return said(reply)

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return _line(key, rejection.status, self.refusal(rejection))

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        if outcome not in _LAPSED:
            return None
        code, message = _LAPSED[outcome]
        error = {"code": code, "message": message}
        return {"id": new_id("batch_req_"), "custom_id": key, "response": None, "error": error}

    def output_ids(self) -> tuple[str, str]:
        return new_id(self.file_name), new_id(self.file_name)

    def view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        ended = batch.outcome is not None
        phase = self.engine.phase(batch)
        running = batch.problem is None and (ended or phase not in ("validating", "cancelling"))
        done = batch.succeeded if ended else self.engine.progress(batch)
        over = None if batch.ended is None else int(batch.ended)
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "input_file_id": batch.input_id,
            "output_file_id": (batch.output_id or None) if ended or self.early_output else None,
            "error_file_id": (batch.error_id or None) if ended else None,
            "status": self.status(batch),
            "errors": self.errors(_problems(batch)),
            "request_counts": {"total": batch.rows, "completed": done, "failed": batch.failed if ended else 0},
            "created_at": int(batch.created),
            "expires_at": int(batch.created) + DAY,
            **batch.echo,
            "in_progress_at": int(self.engine.started(batch)) if running else None,
            "cancelling_at": None if batch.cancel_asked is None else int(batch.cancel_asked),
            "finalizing_at": over if batch.outcome == "completed" else None,
            **{
                f"{outcome}_at": over if batch.outcome == outcome else None
                for outcome in ("completed", "failed", "expired", "cancelled")
            },
            **self.stated_usage(batch),
        }

    def errors(self, problems: list[dict[str, object]]) -> object:
        return {"object": "list", "data": problems} if problems else None

    def stated_usage(self, batch: SandboxBatch) -> dict[str, object]:
        usage = batch.usage
        sums = {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_input_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        return {"model": batch.model or None, "usage": sums}


class GroqApi(OpenAIApi):
    """Groq: batches of several models, their errors as a bare list, their pages by an opaque cursor."""

    provider = "groq"
    prefix = "/groq"
    file_bytes = 100_000_000
    at = "/openai/v1"
    file_name = "file_"
    urls = (_CHAT,)
    windows = ("24h", "48h", "72h", "96h", "120h", "144h", "168h", *(f"{days}d" for days in range(1, 8)))

    def check_models(self, models: set[str]) -> None:
        """Any number of them."""

    def list_batches(self, call: SandboxCall) -> Response:
        wanted = {name for name in call.query.get("id", "").split(",") if name}
        chosen = [batch for batch in self.engine.everything(self.provider) if not wanted or batch.id in wanted]
        shown, more = page(chosen, 20, call.query.get("cursor"))
        cursor = shown[-1].id if more else None
        data = [self.view(call, batch) for batch in shown]
        return JsonReply({"object": "list", "data": data, "paging": {"next_cursor": cursor}})

    def message(self, body: Body, reply: ModelReply) -> dict[str, object]:
        shown = body.get("reasoning_format") == "parsed" or body.get("include_reasoning") is True
        reasoning = {"reasoning": thinking_text(reply)} if shown and reply.reasoning_tokens else {}
        return {"content": reply.text, **reasoning}

    def errors(self, problems: list[dict[str, object]]) -> object:
        return problems or None

    def stated_usage(self, batch: SandboxBatch) -> dict[str, object]:
        return {}


class DoublewordApi(OpenAIApi):
    """Doubleword: results can be read line by line while the batch runs."""

    provider = "doubleword"
    prefix = "/doubleword"
    early_output = True
    file_bytes = 100_000_000
    line_bytes = 10_485_760
    urls = (_CHAT,)
    windows = ("1h", "24h")

    def admit(self, row: Row, batch: SandboxBatch, keys: set[str]) -> str:
        model = super().admit(row, batch, keys)
        if len(self.key(row)) > 64:
            raise Rejection(400, f"custom_id {self.key(row)!r} is longer than 64 characters.", param="custom_id")
        return model

    def content(self, call: SandboxCall) -> Response:
        record = self.file(call)
        path = self.store.blob(self.provider, record.id)
        batch = self.engine.current(self.provider, record.batch_id)
        if record.kind != "output" or batch is None:
            return FileResponse(path, media_type="application/jsonl")
        offset = call.number("offset", 0, 0, 10**9)
        last = min(offset + call.number("limit", 10**9, 1, 10**9), batch.output_lines)
        headers = {"X-Incomplete": "false" if batch.outcome else "true", "X-Last-Line": str(last)}
        if batch.outcome and (offset, last) == (0, batch.output_lines):
            return FileResponse(path, media_type="application/jsonl", headers=headers)
        with path.open("rb") as rows:
            wanted = [line for number, line in zip(range(last), rows, strict=False) if number >= offset]
        return Response(b"".join(wanted), media_type="application/jsonl", headers=headers)

    def stated_usage(self, batch: SandboxBatch) -> dict[str, object]:
        return {}


def _line(key: str, status: int, body: Mapping[str, object]) -> dict[str, object]:
    reply = {"status_code": status, "request_id": new_id("req_"), "body": body}
    return {"id": new_id("batch_req_"), "custom_id": key, "response": reply, "error": None}


def _file_view(record: StoredFile) -> dict[str, object]:
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.size,
        "created_at": int(record.created),
        "expires_at": None if record.expires is None else int(record.expires),
        "filename": record.name,
        "purpose": record.purpose,
        "status": "processed",
        "status_details": None,
    }


def _problems(batch: SandboxBatch) -> list[dict[str, object]]:
    problem = batch.problem
    if problem is None or batch.outcome is None:
        return []
    return [{"code": problem.code, "line": problem.line, "message": problem.message, "param": problem.param}]


def _metadata(body: Body) -> Body | None:
    pairs = section(body, "metadata")
    if len(pairs) > 16 or any(len(name) > 64 or len(str(text)) > 512 for name, text in pairs.items()):
        message = "Invalid 'metadata': at most 16 pairs, keys of up to 64 and values of up to 512 characters."
        raise Rejection(400, message, code="invalid_value", param="metadata")
    return pairs or None
