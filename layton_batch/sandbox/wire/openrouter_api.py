"""OpenRouter's batches: no files, requests in the create call and results in the batch object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import ClassVar

import orjson
from starlette.responses import Response

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.store import BatchRefusal, SandboxBatch, new_id
from layton_batch.sandbox.wire.api import (
    DAY,
    MODELS_CREATED,
    Endpoint,
    JsonReply,
    ProviderApi,
    SandboxCall,
    openai_page,
)
from layton_batch.sandbox.wire.openai_api import chat_question
from layton_batch.sandbox.wire.reading import Body, of_kind, one_of, required
from layton_batch.sandbox.wire.reply_bodies import chat_usage, completion, said, thinking_text

_AT = "/api/v1/batches"
_BATCH_ENTRY = ":batch"
"""Ending of the catalogue's second entry of a model, the one with the price of batches."""


class OpenRouterApi(ProviderApi):
    """Batches of one model each; one array of results holds all rows, and a batch that does not complete shows none."""

    provider = "openrouter"
    prefix = "/openrouter"
    partial = False
    statuses: ClassVar[Mapping[str, str]] = {"running": "in_progress"}
    rows = 5_000
    file_bytes = 200_000_000

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            Endpoint("POST", _AT, "create", self.create),
            Endpoint("GET", _AT, "list", self.list_batches),
            Endpoint("GET", _AT + "/{id}", "poll", self.poll),
            Endpoint("DELETE", _AT + "/{id}", "delete", self.delete_batch),
            Endpoint("GET", "/api/v1/models", "models", self.models),
        ]

    def refusal(self, rejection: Rejection) -> Mapping[str, object]:
        return {"error": {"code": rejection.status, "message": rejection.message}}

    def models(self, _call: SandboxCall) -> Response:
        ids = dict.fromkeys(model.removesuffix(_BATCH_ENTRY) for model in self.catalogue())
        entries = [entry for model in ids for entry in (model, model + _BATCH_ENTRY)]
        return JsonReply({"data": [{"id": model, "name": model, "created": MODELS_CREATED} for model in entries]})

    def create(self, call: SandboxCall) -> Response:
        """The body is read as a stream, so that what stands behind the requests is not there."""
        self.check_size(call.body.seek(0, 2), 413)
        call.body.seek(0)
        body = call.json()
        before = list(body)[: list(body).index("requests")] if "requests" in body else []
        if not {"endpoint", "model"} <= set(before):
            raise Rejection(400, "'endpoint' and 'model' must appear before 'requests' in the request body.")
        endpoint = one_of(body["endpoint"], "endpoint", ("/v1/chat/completions",))
        one_of(body.get("completion_window", "24h"), "completion_window", ("24h",))
        model, requests = required(body, "model", str), required(body, "requests", list)
        if len(requests) > self.rows:
            raise Rejection(400, f"requests must hold 1 to {self.rows} requests, not {len(requests)}.")
        input_id = new_id("requests_")
        self.store.save_bytes(self.provider, input_id, _lines(requests, model))
        batch = SandboxBatch(
            id=new_id("batch-"),
            provider=self.provider,
            created=self.engine.now(),
            input_id=input_id,
            endpoint=endpoint,
            model=model.removesuffix(_BATCH_ENTRY),
            echo={"model": model},
            rows=len(requests),
        )
        return JsonReply(self._summary(self.engine.create(batch)), 202)

    def list_batches(self, call: SandboxCall) -> Response:
        wanted = call.query.getlist("status")
        batches = self.engine.everything(self.provider)
        shown = [batch for batch in batches if not wanted or self.status(batch) in wanted]
        return openai_page(call, shown, 100, self._summary)

    def admit(self, row: Row, batch: SandboxBatch, keys: set[str]) -> str:
        """Every request is checked after the batch was accepted; the first one that is refused fails the batch."""
        key = self.key(row)
        try:
            pictures = self.question(row, batch).images
        except Rejection as rejection:
            raise Rejection(400, f"Request {key!r}: {rejection.message}") from rejection
        if key in keys or pictures:
            reason = "its custom_id is used more than once" if key in keys else "data: URIs of images are rejected"
            raise Rejection(400, f"Request {key!r}: {reason}")
        keys.add(key)
        return batch.model

    def batch_refusal(self, refused: Rejection, line: int | None) -> BatchRefusal:
        return BatchRefusal("invalid_request_error", refused.message)

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Google's models take one response format a batch."""
        formats: set[bytes] = set()

        def noted() -> Iterator[bytes]:
            for line in lines:
                formats.add(orjson.dumps(orjson.loads(line)["body"].get("response_format")))
                yield line

        rows, model, problem = super().check(batch, noted(), size)
        if problem is None and batch.model.startswith("google/") and len(formats) > 1:
            return 0, "", BatchRefusal("invalid_request_error", "response_format differs between the requests")
        return rows, model, problem

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        return chat_question(self.provider, required(row, "body", dict), self.key(row), batch.model, strict=True)

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        message = {**said(reply), "reasoning": thinking_text(reply) if reply.reasoning_tokens else None}
        body = {**completion(question, reply, message, chat_usage(reply)), "id": new_id("gen-batch-")}
        response = {"status_code": 200, "request_id": new_id("request_"), "body": body}
        return _line(question.custom_id, response, None)

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        kind = rejection.code or ("server_error" if rejection.status >= 500 else "invalid_request_error")
        return _line(key, None, {"type": kind, "message": rejection.message, "param": rejection.param})

    def output_ids(self) -> tuple[str, str]:
        return new_id("results_"), new_id("errors_")

    def view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        view = self._summary(batch)
        if batch.outcome == "completed":
            path = self.store.blob(self.provider, batch.output_id)
            lines = path.read_bytes().splitlines() if batch.output_id else []
            view["results"] = [orjson.Fragment(line) for line in lines]
        return view

    def _summary(self, batch: SandboxBatch) -> dict[str, object]:
        """Return the batch as lists show it, without results."""
        ended = batch.outcome is not None
        completed = batch.succeeded if ended else self.engine.progress(batch)
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "model": batch.echo["model"],
            "provider": None,
            "completion_window": "24h",
            "status": self.status(batch),
            "created_at": int(batch.created),
            "finalized_at": None if batch.ended is None else int(batch.ended),
            "expires_at": int(batch.created) + DAY,
            "request_counts": {"total": batch.rows, "completed": completed, "failed": batch.failed},
            "usage": self._usage(batch) if batch.outcome == "completed" else None,
            "results": None,
            "error": {"message": batch.problem.message} if ended and batch.problem is not None else None,
        }

    def _usage(self, batch: SandboxBatch) -> dict[str, object]:
        read, written = batch.usage.input_tokens, batch.usage.output_tokens
        bills = [row.usd for row in self.store.billed() if row.batch_id == batch.id]
        cost = float(sum((Decimal(usd) for usd in bills if usd is not None), Decimal(0)))
        tokens = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        return {**tokens, "cost": cost if None not in bills else None, "is_byok": False}


def _lines(requests: Sequence[object], model: str) -> Iterator[bytes]:
    for index, entry in enumerate(requests):
        request: Body = of_kind(entry, dict, f"requests[{index}]")
        required(request, "custom_id", str, f"requests[{index}].")
        if required(request, "body", dict, f"requests[{index}].").get("model", model) != model:
            raise Rejection(400, f"requests[{index}].body.model does not match the batch's model.")
        yield orjson.dumps(request) + b"\n"


def _line(key: str, response: Mapping[str, object] | None, error: Mapping[str, object] | None) -> dict[str, object]:
    return {"id": new_id("batch_req_"), "custom_id": key, "response": response, "error": error}
