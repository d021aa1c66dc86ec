"""Anthropic's message batches: no files, the requests come in the create call and all results in one stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.lifecycle import Rejection, Row
from layton_batch.sandbox.engine.store import SandboxBatch, new_id
from layton_batch.sandbox.wire.api import DAY, ProviderApi, SandboxCall, phase_words, rfc3339
from layton_batch.sandbox.wire.reading import Body, conversation, json_object, required, section, thinking_text

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


class _Create(msgspec.Struct):
    """Body of a create call; its requests are kept as they came, for a body may have 256 MB."""

    requests: list[msgspec.Raw]


class AnthropicApi(ProviderApi):
    """Message batches."""

    provider = "anthropic"
    prefix = "/anthropic"
    statuses = phase_words("in_progress in_progress in_progress canceling ended ended ended ended")
    batch_id = "msgbatch_"
    key_header = "x-api-key"
    page_words = ("limit", "after_id")
    rows = 100_000
    file_bytes = 256_000_000
    routes = """
        POST /v1/messages/batches create
        GET /v1/messages/batches list
        GET /v1/messages/batches/{id} poll
        POST /v1/messages/batches/{id}/cancel cancel
        GET /v1/messages/batches/{id}/results results
        GET /v1/models/{id} models model
    """

    def refusal(self, rejection: Rejection) -> dict[str, object]:
        kind = rejection.code or ""
        if not kind.endswith("_error"):
            kind = _ERRORS.get(rejection.status, "api_error" if rejection.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": rejection.message}, "request_id": new_id("req_")}

    def model_view(self, model: str) -> dict[str, object]:
        about = {"type": "model", "created_at": "1970-01-01T00:00:00Z", "lifecycle": "active"}
        return {**about, "id": model, "display_name": model, "capabilities": {"batch": {"supported": True}}}

    def create(self, call: SandboxCall) -> object:
        if not call.headers.get("anthropic-version"):
            raise Rejection(400, "anthropic-version: header is required")
        self.check_size(call.body.seek(0, 2), 413)
        call.body.seek(0)
        try:
            requests = msgspec.json.decode(call.body.read(), type=_Create).requests
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Rejection(400, f"the body is not a JSON object with an array of requests: {error}") from error
        input_id = new_id(self.file_id)
        self.store.save_bytes(self.provider, input_id, self._lines(requests))
        return self.view(self.create_batch(input_id=input_id, endpoint="/v1/messages", echo={}))

    def _lines(self, requests: Sequence[msgspec.Raw]) -> Iterator[bytes]:
        """One line of stored input per request. Raises Rejection for what the create call refuses."""
        keys = set[str]()
        for index, raw in enumerate(requests):
            element, where = bytes(raw), f"requests.{index}"
            self.check_line(index + 1, element, 413)
            request = json_object(element, where)
            key = required(request, "custom_id", str, f"{where}.")
            required(request, "params", dict, f"{where}.")
            if re.fullmatch("[a-zA-Z0-9_-]{1,64}", key) is None:
                raise Rejection(400, f"{where}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
            if key in keys:
                raise Rejection(400, f"{where}.custom_id: {key!r} is not unique in this batch")
            keys.add(key)
            # Line ends can only stand between the tokens of JSON, where a blank does as well.
            yield element.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
        if not keys:
            raise Rejection(400, "requests: at least one request is required")

    def results(self, call: SandboxCall) -> object:
        batch = self.batch(call)
        if batch.ended is None:
            raise Rejection(404, f"Batch {batch.id} has no results yet")
        if not batch.output_id:
            return Response(b"", media_type="application/x-jsonl")
        return FileResponse(self.store.blob(self.provider, batch.output_id), media_type="application/x-jsonl")

    def admit(self, row: Row, _batch: SandboxBatch, _keys: set[str]) -> str:
        """Every row is admitted: the create call checked the batch, and a bad parameter becomes an errored row."""
        return str(section(row, "params").get("model", ""))

    def question(self, row: Row, _batch: SandboxBatch) -> Question:
        params = required(row, "params", dict)
        model = required(params, "model", str)
        prompt = conversation(required(params, "messages", list), params.get("system"))
        if params.get("stream"):
            raise Rejection(400, "stream: not supported in a batch")
        schema = section(section(section(params, "output_config"), "format"), "schema") or None
        limit = required(params, "max_tokens", int)
        return Question(self.provider, model, *prompt, schema, _reasoning(params), limit, self.key(row))

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        content: list[dict[str, object]] = []
        if reply.reasoning_tokens and question.reasoning not in (None, "none"):
            content.append({"type": "thinking", "thinking": thinking_text(reply), "signature": "c2FuZGJveA=="})
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
        return {"custom_id": key, "result": {"type": "errored", "error": self.refusal(rejection)}}

    def unfinished(self, key: str, outcome: str) -> dict[str, object] | None:
        if outcome == "failed":
            return self.failure(key, Rejection(500, "Internal server error"))
        return {"custom_id": key, "result": {"type": "canceled" if outcome == "cancelled" else "expired"}}

    def view(self, batch: SandboxBatch) -> dict[str, object]:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if batch.ended is None:  # all in `processing` until the end
            counts["processing"] = batch.rows
        else:
            counts.update(succeeded=batch.succeeded, errored=batch.failed)
            counts[{"cancelled": "canceled", "expired": "expired"}.get(batch.phase, "errored")] += batch.unfinished
        results = f"{self.root}{self.prefix}/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": self.status(batch),
            "request_counts": counts,
            "created_at": rfc3339(batch.created),
            "expires_at": rfc3339(batch.created + DAY),
            "ended_at": rfc3339(batch.ended),
            "cancel_initiated_at": rfc3339(batch.ended if batch.phase == "cancelled" else batch.cancel_asked),
            "archived_at": None,
            "results_url": results if batch.ended is not None else None,
        }


def _reasoning(params: Body) -> str | int | None:
    """A thinking budget if one is set, else the effort word; adaptive thinking without one is "default"."""
    effort = section(params, "output_config").get("effort")
    thinking = section(params, "thinking")
    kind = thinking.get("type")
    if kind == "disabled":
        return "none"
    if kind == "enabled":
        return required(thinking, "budget_tokens", int, "thinking.enabled.")
    return str(effort) if effort else "default" if kind else None


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
