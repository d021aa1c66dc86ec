"""HTTP routes of Anthropic's message batches: no files, the requests come in the create call."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from typing import IO

import orjson
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.engine.dialect import Rejection
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import SandboxBatch, new_id
from layton_batch.sandbox.wire import model_endpoints
from layton_batch.sandbox.wire.anthropic_rows import AnthropicRows, error_body
from layton_batch.sandbox.wire.gateway import Endpoint, JsonReply, SandboxCall, Wire, bearer, rfc3339

_AT = "/v1/messages/batches"
_PREFIX = "/anthropic"
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DAY = 86400


class AnthropicApi:
    """Message batches."""

    def __init__(self, engine: SandboxEngine) -> None:
        self._engine = engine
        self._rows = engine.config.limits.rows or 100_000
        self._bytes = engine.config.limits.file_bytes or 256_000_000
        engine.speak(AnthropicRows())

    def wire(self) -> Wire:
        return Wire(
            provider="anthropic",
            prefix=_PREFIX,
            endpoints=[
                Endpoint("POST", _AT, "create", self.create),
                Endpoint("GET", _AT, "list", self.list_batches),
                Endpoint("GET", _AT + "/{id}", "poll", lambda call: JsonReply(self._view(call, self._batch(call)))),
                Endpoint("DELETE", _AT + "/{id}", "delete", self.delete),
                Endpoint("POST", _AT + "/{id}/cancel", "cancel", self.cancel),
                Endpoint("GET", _AT + "/{id}/results", "results", self.results),
                Endpoint("GET", "/v1/models/{id}", "models", self.model),
            ],
            refusal=error_body,
            key=_key,
            no_key=Rejection(401, "x-api-key header is required"),
        )

    def model(self, call: SandboxCall) -> Response:
        return JsonReply(model_endpoints.anthropic_page(self._engine.config, call.params["id"]))

    def create(self, call: SandboxCall) -> Response:
        version = call.headers.get("anthropic-version")
        if not version:
            raise Rejection(400, "anthropic-version: header is required")
        size = call.body.seek(0, 2)
        if size > self._bytes:
            raise Rejection(413, f"Request of {size} bytes exceeds the maximum size of {self._bytes} bytes")
        input_id = new_id("requests_")
        counted = _Count()
        try:
            self._engine.store.save_bytes("anthropic", input_id, self._lines(call, counted))
        except BadDocument as error:
            raise Rejection(400, f"The request body is not valid JSON: {error}") from error
        batch = SandboxBatch(
            id=new_id("msgbatch_"),
            provider="anthropic",
            created=self._engine.now(),
            input_id=input_id,
            endpoint="/v1/messages",
            model=counted.model,
            echo={"version": version},
            rows=counted.rows,
        )
        return JsonReply(self._view(call, self._engine.create(batch)))

    def _lines(self, call: SandboxCall, counted: _Count) -> Iterator[bytes]:
        """One line of stored input per request; the loop refuses what the create call refuses."""
        seen: set[str] = set()
        for index, element in enumerate(elements(call.body, "requests")):
            if index >= self._rows:
                raise Rejection(413, f"requests: a batch may have at most {self._rows} requests")
            request = _request(index, element)
            key = str(request["custom_id"])
            if key in seen:
                raise Rejection(400, f"requests.{index}.custom_id: {key!r} is not unique in this batch")
            seen.add(key)
            params = request["params"]
            counted.add(str(params.get("model", "")) if isinstance(params, dict) else "")
            # Line ends can only stand between the tokens of JSON, where a blank does as well.
            yield element.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
        if not seen:
            raise Rejection(400, "requests: at least one request is required")

    def list_batches(self, call: SandboxCall) -> Response:
        limit = call.number("limit", 20, 1, 1000)
        batches = self._engine.everything("anthropic")
        names = [batch.id for batch in batches]
        after, before = call.query.get("after_id"), call.query.get("before_id")
        for cursor in (after, before):
            if cursor and cursor not in names:
                raise Rejection(400, f"cursor {cursor!r} is not a message batch")
        start = names.index(after) + 1 if after else 0
        stop = names.index(before) if before else len(batches)
        page = (
            batches[max(stop - limit, 0) : stop] if before and not after else batches[start : min(start + limit, stop)]
        )
        more = stop > limit if before and not after else start + limit < stop
        reply = {
            "data": [self._view(call, batch) for batch in page],
            "has_more": more,
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }
        return JsonReply(reply)

    def cancel(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        if batch.outcome is not None:
            raise Rejection(400, f"Batch {batch.id} has ended and cannot be canceled")
        return JsonReply(self._view(call, self._engine.cancel(batch)))

    def delete(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        if batch.outcome is None:
            raise Rejection(400, f"Batch {batch.id} is still processing; cancel it before deleting it")
        self._engine.store.drop_batch("anthropic", batch.id)
        for name in filter(None, (batch.input_id, batch.output_id)):
            self._engine.store.drop_file("anthropic", name)
        return JsonReply({"id": batch.id, "type": "message_batch_deleted"})

    def results(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        if batch.outcome is None:
            raise Rejection(404, f"Batch {batch.id} has no results yet")
        if not batch.output_id:
            return Response(b"", media_type="application/x-jsonl")
        return FileResponse(self._engine.store.blob("anthropic", batch.output_id), media_type="application/x-jsonl")

    def _batch(self, call: SandboxCall) -> SandboxBatch:
        batch = self._engine.current("anthropic", call.params["id"])
        if batch is None:
            raise Rejection(404, f"Message batch {call.params['id']} not found")
        return batch

    def _view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        phase = self._engine.phase(batch)
        status = "in_progress"
        if phase == "odd" and batch.fate is not None:
            status = batch.fate.name
        elif phase == "cancelling":
            status = "canceling"
        elif batch.outcome is not None:
            status = "ended"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": status,
            "request_counts": _counts(batch),
            "created_at": rfc3339(batch.created),
            "expires_at": rfc3339(batch.created + _DAY),
            "ended_at": rfc3339(batch.ended),
            "cancel_initiated_at": rfc3339(batch.ended if batch.outcome == "cancelled" else batch.cancel_asked),
            "archived_at": None,
            "results_url": f"{call.root}{_PREFIX}{_AT}/{batch.id}/results" if batch.outcome is not None else None,
        }


class _Count:
    """Counts of a batch's requests: the number of rows, and their model if all rows share one."""

    def __init__(self) -> None:
        self.rows = 0
        self.model = ""

    def add(self, model: str) -> None:
        self.model = model if self.rows == 0 or model == self.model else ""
        self.rows += 1


def _request(index: int, element: bytes) -> Mapping[str, object]:
    try:
        request = orjson.loads(element)
    except orjson.JSONDecodeError as error:
        raise BadDocument(f"requests.{index}: {error}") from error
    if (
        not isinstance(request, dict)
        or set(request) != {"custom_id", "params"}
        or not isinstance(request["params"], dict)
    ):
        raise Rejection(400, f"requests.{index}: expected an object with exactly custom_id and params")
    key = request["custom_id"]
    if not isinstance(key, str) or _CUSTOM_ID.fullmatch(key) is None:
        raise Rejection(400, f"requests.{index}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    return request


def _key(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    return headers.get("x-api-key", "") or bearer(headers, query)


def _counts(batch: SandboxBatch) -> dict[str, int]:
    """All in `processing` until the end."""
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if batch.outcome is None:
        return {**counts, "processing": batch.rows}
    lapsed = {"cancelled": "canceled", "expired": "expired"}.get(batch.outcome, "errored")
    counts.update(succeeded=batch.succeeded, errored=batch.failed)
    counts[lapsed] += batch.unfinished
    return counts


# Possessive quantifiers: a string of megabytes (an image) is passed in one step, without a backtracking stack.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],]', re.DOTALL)


class BadDocument(ValueError):
    """The document is not JSON of the expected shape."""


def elements(source: IO[bytes], name: str) -> Iterator[bytes]:
    """The raw elements of the array under the top-level key `name`, in order. That each is JSON is for the caller to
    check.

    Raises BadDocument, at the latest at the end, if the rest of the document is not a JSON object with that array.
    """
    source.seek(0, 2)
    if source.tell() == 0:
        raise BadDocument("the body is empty")
    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as text:
        yield from _split(text, name)


def _split(text: mmap.mmap, name: str) -> Iterator[bytes]:
    depth, start, opened, closed, previous = 0, 0, -1, -1, b""
    for token in _TOKEN.finditer(text):
        mark = text[token.start() : token.start() + 1]
        if mark in b"{[":
            depth += 1
            if mark == b"[" and depth == 2 and opened < 0 and _named(previous, name):
                opened = start = token.end()
        elif mark in b"}]":
            depth -= 1
            if opened >= 0 and closed < 0 and depth == 1:
                closed = token.start()
        inside = opened >= 0 and closed < 0 and depth == 2 and mark == b","
        if (inside or closed == token.start()) and opened >= 0:
            element = text[start : token.start()].strip()
            if element or inside or start != opened:
                yield element
            start = token.end()
        previous = text[token.start() : token.end()] if mark == b'"' and depth == 1 else previous
    if closed < 0:
        raise BadDocument(f"the body is not a JSON object with an array under {name!r}")
    _rest(text[:opened] + text[closed:])


def _named(previous: bytes, name: str) -> bool:
    return previous == orjson.dumps(name)


def _rest(remainder: bytes) -> None:
    try:
        orjson.loads(remainder)
    except orjson.JSONDecodeError as error:
        raise BadDocument(f"could not parse the body as JSON: {error}") from error
