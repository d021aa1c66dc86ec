"""OpenAI's files and batches, and the providers of its shape: Groq, Doubleword and xAI, whose batches are its own:
counts in place of a status word, and results as pages of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice

import orjson

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.lifecycle import PHASES, Rejection, Row
from layton_batch.sandbox.engine.store import SandboxBatch
from layton_batch.sandbox.wire.api import CHAT, DAY, ProviderApi, SandboxCall, rfc3339
from layton_batch.sandbox.wire.reading import (
    Body,
    completion,
    conversation,
    effort_or_budget,
    error_of,
    json_schema,
    message_with_refusal,
    one_of,
    output_limit,
    required,
    response,
    result_line,
    section,
    usage_view,
)

_RESPONSES = "/v1/responses"


class OpenAIApi(ProviderApi):
    """Files and batches of OpenAI."""

    provider = "openai"
    prefix = "/openai/v1"
    error_file = True
    one_model = True
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
        return {"error": error_of(rejection)}

    def create(self, call: SandboxCall) -> object:
        body = call.json()
        batch = self.create_batch(
            input_id=self.input_file(required(body, "input_file_id", str), 400).id,
            endpoint=one_of(body.get("endpoint"), "endpoint", self.urls),
            echo={
                "completion_window": one_of(body.get("completion_window"), "completion_window", self.windows),
                "metadata": section(body, "metadata") or None,
            },
        )
        return self.view(batch)

    def admit(self, row: Row, batch: SandboxBatch, keys: set[str]) -> str:
        key = required(row, "custom_id", str)
        if key in keys:
            message = f"The custom_id {key!r} is used more than once in this file."
            raise Rejection(400, message, code="duplicate_custom_id")
        keys.add(key)
        method, url = required(row, "method", str), required(row, "url", str)
        if method != "POST" or url != batch.endpoint:
            message = f"{method} {url} does not match the batch endpoint POST {batch.endpoint}."
            raise Rejection(400, message, code="invalid_url")
        return required(required(row, "body", dict), "model", str, "body.")

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        if batch.endpoint == _RESPONSES:
            return self._response(required(row, "body", dict), self.key(row))
        return super().question(row, batch)

    def _response(self, body: Body, key: str) -> Question:
        prompt = conversation(required(body, "input", list), body.get("instructions"))
        form = section(section(body, "text"), "format")
        schema = json_schema(form if form.get("type") == "json_schema" else {}, "text.format")
        model, limit = required(body, "model", str), output_limit(body, "max_output_tokens")
        return Question(self.provider, model, *prompt, schema, effort_or_budget(body), limit, key)

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        if row["url"] == _RESPONSES:
            return result_line(question.custom_id, 200, response(question, reply))
        return result_line(question.custom_id, 200, completion(question, reply, message_with_refusal(reply)))

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return result_line(key, rejection.status, self.refusal(rejection))

    def unfinished(self, key: str, outcome: str) -> dict[str, object] | None:
        if outcome == "failed":
            return None
        error = {"code": f"batch_{outcome}", "message": f"This request was not executed: the batch {outcome}."}
        return result_line(key, error=error)

    def view(self, batch: SandboxBatch) -> dict[str, object]:
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "input_file_id": batch.input_id,
            "output_file_id": batch.output_id or None,
            "error_file_id": batch.error_id or None,
            "status": self.status(batch),
            "errors": self.errors({**asdict(batch.problem), "param": None}) if batch.problem else None,
            "request_counts": {
                "total": 0 if batch.phase == "validating" else batch.rows,
                "completed": batch.succeeded,
                "failed": batch.failed,
            },
            "created_at": int(batch.created),
            "expires_at": int(batch.created) + DAY,
            **batch.echo,
            **({f"{batch.phase}_at": int(batch.ended)} if batch.ended is not None else {}),
            "model": batch.model or None,
            "usage": usage_view(batch.usage),
        }

    def errors(self, problem: dict[str, object]) -> object:
        return {"object": "list", "data": [problem]}


class GroqApi(OpenAIApi):
    """Groq: batches of several models, their errors as a bare list, their pages by an opaque cursor."""

    provider = "groq"
    prefix = "/groq"
    at = "/openai/v1"
    one_model = False
    file_bytes = 100_000_000
    file_id = "file_"
    page_words = ("limit", "cursor")
    urls = (CHAT,)
    windows = ("24h", "48h", "72h", "96h", "120h", "144h", "168h", *(f"{days}d" for days in range(1, 8)))

    def listing(self, views: Sequence[Mapping[str, object]], cursor: str | None) -> object:
        return {"object": "list", "data": views, "paging": {"next_cursor": cursor}}

    def errors(self, problem: dict[str, object]) -> object:
        return [problem]


class DoublewordApi(OpenAIApi):
    """Doubleword: OpenAI's form with limits of its own."""

    provider = "doubleword"
    prefix = "/doubleword/v1"
    file_bytes = 100_000_000
    line_bytes = 10_485_760
    urls = (CHAT,)
    windows = ("1h", "24h")


_PAGE = 1000


class XaiApi(OpenAIApi):
    """Files and models are OpenAI's, batches are xAI's own."""

    provider = "xai"
    prefix = "/xai/v1"
    error_file = False
    line_bytes = 25_000_000
    page_words = ("limit", "pagination_token")
    urls = (CHAT,)
    routes = """
        POST /files upload
        POST /batches create
        GET /batches list
        GET /batches/{id} poll
        GET /batches/{id}/results results
        POST /batches/{id}:cancel cancel
    """

    def refusal(self, rejection: Rejection) -> dict[str, object]:
        return {"code": rejection.code or "error", "error": rejection.message}

    def create(self, call: SandboxCall) -> object:
        body = call.json()
        input_id = self.input_file(required(body, "input_file_id", str)).id
        return self.view(self.create_batch(input_id=input_id, echo={"name": required(body, "name", str)}))

    def listing(self, views: Sequence[Mapping[str, object]], cursor: str | None) -> object:
        return {"batches": views, "pagination_token": cursor}

    def results(self, call: SandboxCall) -> object:
        batch, limit = self.batch(call), call.number("limit", 100, 1, _PAGE)
        start = call.number("pagination_token", 0, 0, self.rows)
        rows: Sequence[bytes] = ()
        if batch.output_id:
            with self.store.blob(self.provider, batch.output_id).open("rb") as lines:
                rows = list(islice(lines, start, start + limit + 1))
        more = str(start + limit) if len(rows) > limit else None
        return {"results": [orjson.Fragment(row) for row in rows[:limit]], "pagination_token": more}

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        chat = completion(question, reply, message_with_refusal(reply))
        visible = {"completion_tokens": reply.output_tokens - reply.reasoning_tokens}
        usage = {**dict(chat["usage"]), **visible}  # type: ignore[call-overload]
        return _result_row(question.custom_id, {"response": {"chat_get_completion": {**chat, "usage": usage}}})

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return _result_row(key, {"error": rejection.message})

    def unfinished(self, key: str, outcome: str) -> dict[str, object] | None:
        return _result_row(key, {"error": "Batch cancelled"}) if outcome == "cancelled" else None

    def view(self, batch: SandboxBatch) -> dict[str, object]:
        """A batch that xAI itself ends, such as for a line that cannot be read, is told as one that it cancelled."""
        rows = 0 if batch.phase == "validating" else batch.rows
        pending = rows - batch.succeeded - batch.failed
        cancelled_at, reason = batch.cancel_asked, None
        if batch.ended is not None and batch.phase != "completed":
            cancelled_at = cancelled_at or batch.ended
        if batch.phase in ("failed", "expired"):
            reason = batch.problem.message if batch.problem else "The batch has expired."
        state = {
            "num_requests": rows,
            "num_pending": pending if batch.ended is None else 0,
            "num_success": batch.succeeded,
            "num_error": batch.failed,
            "num_cancelled": 0 if batch.ended is None else pending,
        }
        return {
            "batch_id": batch.id,
            **batch.echo,
            "input_file_id": batch.input_id,
            "create_time": rfc3339(batch.created),
            "expire_time": rfc3339(batch.created + 30 * DAY),
            "cancel_time": rfc3339(cancelled_at),
            "cancel_by_xai_message": reason,
            **({"state": state} if batch.phase in PHASES else {}),
        }


def _result_row(key: str, result: Mapping[str, object]) -> dict[str, object]:
    return {"batch_request_id": key, "batch_result": result}
