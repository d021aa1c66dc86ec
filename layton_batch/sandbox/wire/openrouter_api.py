"""OpenRouter's batches: no files, requests in the create call and results in the batch object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.lifecycle import Rejection, Row, lines_of
from layton_batch.sandbox.engine.store import SandboxBatch, charge, new_id
from layton_batch.sandbox.wire.api import CHAT, DAY, ProviderApi, SandboxCall
from layton_batch.sandbox.wire.reading import (
    Body,
    completion,
    error_of,
    message_with_refusal,
    of_kind,
    one_of,
    required,
    result_line,
    thinking_text,
)

_BATCH_ENTRY = ":batch"
"""Ending of the catalogue's second entry of a model, the one with the price of batches."""


class OpenRouterApi(ProviderApi):
    """Batches of one model each; one array of results holds all rows, and a batch that does not complete shows none."""

    provider = "openrouter"
    prefix = "/openrouter/api/v1"
    partial = False
    batch_id = "batch-"
    rows = 5_000
    file_bytes = 200_000_000
    routes = """
        POST /batches create
        GET /batches list
        GET /batches/{id} poll
        GET /models models
    """

    def refusal(self, rejection: Rejection) -> dict[str, object]:
        return {"error": {"code": rejection.status, "message": rejection.message}}

    def catalogue(self) -> Sequence[str]:
        return [entry for model in super().catalogue() for entry in (model, model + _BATCH_ENTRY)]

    def create(self, call: SandboxCall) -> object:
        """The body is read as a stream, so that what stands behind the requests is not there."""
        self.check_size(call.body.seek(0, 2), 413)
        call.body.seek(0)
        body = call.json()
        before = list(body)[: list(body).index("requests")] if "requests" in body else []
        if not {"endpoint", "model"} <= set(before):
            raise Rejection(400, "'endpoint' and 'model' must appear before 'requests' in the request body.")
        one_of(body["endpoint"], "endpoint", (CHAT,))
        model, requests = required(body, "model", str), required(body, "requests", list)
        if len(requests) > self.rows:
            raise Rejection(400, f"requests must hold 1 to {self.rows} requests, not {len(requests)}.")
        input_id = new_id(self.file_id)
        self.store.save_bytes(self.provider, input_id, _lines(requests, model))
        batch = self.create_batch(input_id=input_id, model=model.removesuffix(_BATCH_ENTRY), echo={"model": model})
        return self.view(batch)

    def admit(self, row: Row, batch: SandboxBatch, keys: set[str]) -> str:
        """Every request is checked after the batch was accepted; the first one that is refused fails the batch."""
        key = self.key(row)
        try:
            pictures = self.question(row, batch).images
        except Rejection as rejection:
            raise Rejection(400, f"Request {key!r}: {rejection.message}") from rejection
        if key in keys or pictures:
            reason = "Duplicate custom_id" if key in keys else "data: URIs of images are rejected"
            raise Rejection(400, f"Request {key!r}: {reason}")
        keys.add(key)
        return batch.model

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        message = {**message_with_refusal(reply), "reasoning": thinking_text(reply) if reply.reasoning_tokens else None}
        return result_line(question.custom_id, 200, completion(question, reply, message))

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return result_line(key, error=error_of(rejection))

    def poll(self, call: SandboxCall) -> object:
        batch = self.batch(call)
        view = self.view(batch)
        if batch.phase == "completed":
            lines = lines_of(self.store.blob(self.provider, batch.output_id)) if batch.output_id else ()
            view["results"] = list(map(orjson.Fragment, lines))
        return view

    def view(self, batch: SandboxBatch) -> dict[str, object]:
        """The batch as lists show it, without results."""
        failed = batch.ended is not None and batch.problem is not None
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
            "request_counts": {"total": batch.rows, "completed": batch.succeeded, "failed": batch.failed},
            "usage": self._usage(batch) if batch.phase == "completed" else None,
            "results": None,
            "error": {"message": batch.problem.message} if failed and batch.problem else None,
        }

    def _usage(self, batch: SandboxBatch) -> dict[str, object]:
        read, written = batch.usage.input_tokens, batch.usage.output_tokens
        cost = charge(self.provider, batch.model, batch.usage)
        tokens = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        return {**tokens, "cost": None if cost is None else float(cost), "is_byok": False}


def _lines(requests: Sequence[object], model: str) -> Iterator[bytes]:
    for index, entry in enumerate(requests):
        request: Body = of_kind(entry, dict, f"requests[{index}]")
        required(request, "custom_id", str, f"requests[{index}].")
        if required(request, "body", dict, f"requests[{index}].").get("model", model) != model:
            raise Rejection(400, f"requests[{index}].body.model does not match the batch's model.")
        yield orjson.dumps(request) + b"\n"
