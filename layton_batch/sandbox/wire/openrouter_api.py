"""HTTP routes of OpenRouter's batches: no files, requests in the create call and results in the batch object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import orjson
from starlette.responses import Response

from layton_batch.sandbox.engine.dialect import Rejection
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import SandboxBatch, new_id
from layton_batch.sandbox.wire import model_endpoints
from layton_batch.sandbox.wire.gateway import Endpoint, JsonReply, SandboxCall, Wire, bearer
from layton_batch.sandbox.wire.openrouter_rows import OpenRouterRows, error_body
from layton_batch.sandbox.wire.request_checks import as_list, as_object, as_text, no_strangers, one_of

_AT = "/api/v1/batches"
_CREATE = frozenset({"endpoint", "model", "completion_window", "provider", "callback_url", "requests"})
_ENDPOINTS = ("/v1/chat/completions",)
"""Of the documented four those that are played."""
_STATUS = {"running": "in_progress"}


class OpenRouterApi:
    """Batches of one model each."""

    def __init__(self, engine: SandboxEngine) -> None:
        self._engine = engine
        self._rows = engine.config.limits.rows or 5_000
        self._bytes = engine.config.limits.file_bytes or 200_000_000
        engine.speak(OpenRouterRows())

    def wire(self) -> Wire:
        return Wire(
            provider="openrouter",
            prefix="/openrouter",
            endpoints=[
                Endpoint("POST", _AT, "create", self.create),
                Endpoint("GET", _AT, "list", self.list_batches),
                Endpoint("GET", _AT + "/{id}", "poll", lambda call: JsonReply(self._whole(self._batch(call)))),
                Endpoint("DELETE", _AT + "/{id}", "delete", self.delete),
                Endpoint("GET", "/api/v1/models", "models", self.models),
            ],
            refusal=error_body,
            key=bearer,
            no_key=Rejection(401, "No auth credentials found."),
        )

    def models(self, _call: SandboxCall) -> Response:
        return JsonReply(model_endpoints.openrouter_list(self._engine.config))

    def create(self, call: SandboxCall) -> Response:
        size = call.body.seek(0, 2)
        call.body.seek(0)
        if size > self._bytes:
            raise Rejection(413, f"The body has {size} bytes; a batch may have {self._bytes}.")
        body = call.json()
        model = _checked(body)
        requests = as_list(body["requests"], "requests")
        if not 0 < len(requests) <= self._rows:
            raise Rejection(400, f"requests must hold 1 to {self._rows} requests, not {len(requests)}.")
        input_id = new_id("requests_")
        self._engine.store.save_bytes("openrouter", input_id, _lines(requests, model))
        batch = SandboxBatch(
            id=new_id("batch-"),
            provider="openrouter",
            created=self._engine.now(),
            input_id=input_id,
            endpoint=_ENDPOINTS[0],
            model=model.removesuffix(model_endpoints.BATCH_ENTRY),
            echo={"model": model},
            rows=len(requests),
        )
        return JsonReply(self._view(self._engine.create(batch)), 202)

    def list_batches(self, call: SandboxCall) -> Response:
        limit = call.number("limit", 20, 1, 100)
        batches = self._engine.everything("openrouter")
        wanted = call.query.getlist("status")
        shown = [batch for batch in batches if not wanted or self._status(batch) in wanted]
        start = _after(shown, call.query.get("after"))
        page = shown[start : start + limit]
        reply = {
            "object": "list",
            "data": [self._view(batch) for batch in page],
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
            "has_more": start + limit < len(shown),
        }
        return JsonReply(reply)

    def delete(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        if batch.outcome is None:
            raise Rejection(409, "The batch is still in progress.")
        self._engine.store.drop_batch("openrouter", batch.id)
        for name in filter(None, (batch.input_id, batch.output_id)):
            self._engine.store.drop_file("openrouter", name)
        return JsonReply({"id": batch.id, "deletion": {"openrouter": "deleted"}})

    def _batch(self, call: SandboxCall) -> SandboxBatch:
        batch = self._engine.current("openrouter", call.params["id"])
        if batch is None:
            raise Rejection(404, "Batch not found.")
        return batch

    def _status(self, batch: SandboxBatch) -> str:
        phase = self._engine.phase(batch)
        return batch.fate.name if phase == "odd" and batch.fate is not None else _STATUS.get(phase, phase)

    def _view(self, batch: SandboxBatch) -> dict[str, object]:
        """Return the batch as lists show it, without results."""
        ended = batch.outcome is not None
        completed = batch.succeeded if ended else self._engine.progress(batch)
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "model": batch.echo["model"],
            "provider": None,
            "completion_window": "24h",
            "status": self._status(batch),
            "created_at": int(batch.created),
            "finalized_at": None if batch.ended is None else int(batch.ended),
            "expires_at": int(batch.created) + 86_400,
            "request_counts": {"total": batch.rows, "completed": completed, "failed": batch.failed},
            "usage": self._usage(batch) if batch.outcome == "completed" else None,
            "results": None,
            "error": {"message": batch.problem.message} if ended and batch.problem is not None else None,
        }

    def _whole(self, batch: SandboxBatch) -> dict[str, object]:
        view = self._view(batch)
        if batch.outcome == "completed":
            path = self._engine.store.blob("openrouter", batch.output_id)
            lines = path.read_bytes().splitlines() if batch.output_id else []
            view["results"] = [orjson.Fragment(line) for line in lines]
        return view

    def _usage(self, batch: SandboxBatch) -> dict[str, object]:
        input_, output = batch.usage.input_tokens, batch.usage.output_tokens
        bills = [row.usd for row in self._engine.store.billed() if row.batch_id == batch.id]
        cost = float(sum((Decimal(usd) for usd in bills if usd is not None), Decimal(0)))
        tokens = {"prompt_tokens": input_, "completion_tokens": output, "total_tokens": input_ + output}
        return {**tokens, "cost": cost if None not in bills else None, "is_byok": False}


def _checked(body: Mapping[str, object]) -> str:
    """The batch's model. The body is read as a stream, so that what stands behind the requests is not there."""
    before = list(body)[: list(body).index("requests")] if "requests" in body else list(body)
    if "endpoint" not in before or "model" not in before:
        raise Rejection(400, "'endpoint' and 'model' must appear before 'requests' in the request body.")
    no_strangers(body, _CREATE)
    one_of(body["endpoint"], "endpoint", _ENDPOINTS)
    one_of(body.get("completion_window", "24h"), "completion_window", ("24h",))
    if "requests" not in body:
        raise Rejection(400, "'requests' is required.")
    return as_text(body["model"], "model")


def _lines(requests: Sequence[object], model: str) -> Iterator[bytes]:
    for index, entry in enumerate(requests):
        request = as_object(entry, f"requests[{index}]")
        if set(request) != {"custom_id", "body"} or not request["custom_id"]:
            raise Rejection(400, f"requests[{index}] must have exactly custom_id and body.")
        as_text(request["custom_id"], f"requests[{index}].custom_id")
        named = as_object(request["body"], f"requests[{index}].body").get("model", model)
        if named != model:
            raise Rejection(400, f"requests[{index}].body.model does not match the batch's model.")
        yield orjson.dumps(request) + b"\n"


def _after(batches: Sequence[SandboxBatch], cursor: str | None) -> int:
    if not cursor:
        return 0
    for index, batch in enumerate(batches):
        if batch.id == cursor:
            return index + 1
    raise Rejection(404, "Batch not found.")
