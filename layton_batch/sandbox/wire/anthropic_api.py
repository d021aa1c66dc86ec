"""Anthropic's message batches: no files, the requests come in the create call and all results in one stream."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, ClassVar

import orjson
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.answerers.questions import CachedPrefix, ModelReply, Question
from layton_batch.sandbox.answerers.reply_forms import text_tokens
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.store import BatchRefusal, Outcome, SandboxBatch, new_id
from layton_batch.sandbox.wire.api import DAY, Endpoint, JsonReply, ProviderApi, SandboxCall, page, rfc3339
from layton_batch.sandbox.wire.reading import Body, conversation, json_object, required, section
from layton_batch.sandbox.wire.reply_bodies import thinking_text

_AT = "/v1/messages/batches"
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LEAST_CACHED = (
    (re.compile(r"claude-(?:opus-5(?:-20|$)|(?:fable|mythos)-5)"), 512),
    (re.compile(r"claude-(?:opus-4-7|sonnet-4-6)"), 2048),
    (re.compile(r"claude-(?:opus-4-[56]|haiku-4-5)"), 4096),
    (re.compile(""), 1024),
)
"""Fewest tokens of a prefix that a model's cache keeps; a shorter one is read anew each time, without an error."""
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
_KINDS = frozenset({*_ERRORS.values(), "api_error", "timeout_error", "billing_error"})


class AnthropicApi(ProviderApi):
    """Message batches."""

    provider = "anthropic"
    prefix = "/anthropic"
    statuses: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("validating", "running", "finalizing"), "in_progress"),
        "cancelling": "canceling",
        **dict.fromkeys(("completed", "failed", "expired", "cancelled"), "ended"),
    }
    rows = 100_000
    file_bytes = 256_000_000
    no_key = Rejection(401, "x-api-key header is required")

    def endpoints(self) -> Sequence[Endpoint]:
        return [
            Endpoint("POST", _AT, "create", self.create),
            Endpoint("GET", _AT, "list", self.list_batches),
            Endpoint("GET", _AT + "/{id}", "poll", self.poll),
            Endpoint("DELETE", _AT + "/{id}", "delete", self.delete_batch),
            Endpoint("POST", _AT + "/{id}/cancel", "cancel", self.cancel),
            Endpoint("GET", _AT + "/{id}/results", "results", self.results),
            Endpoint("GET", "/v1/models/{id}", "models", self.model),
        ]

    def caller_key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return headers.get("x-api-key", "") or super().caller_key(headers, query)

    def refusal(self, rejection: Rejection) -> dict[str, object]:
        other = "api_error" if rejection.status >= 500 else "invalid_request_error"
        kind = rejection.code if rejection.code in _KINDS else _ERRORS.get(rejection.status, other)
        return {"type": "error", "error": {"type": kind, "message": rejection.message}, "request_id": new_id("req_")}

    def model(self, call: SandboxCall) -> Response:
        about = {
            "type": "model",
            "created_at": "1970-01-01T00:00:00Z",
            "lifecycle": "active",
            "deprecated_at": None,
            "retires_at": None,
            "line": None,
            "capabilities": {"batch": {"supported": True}},
        }
        model = self.known_model(call)
        return JsonReply({**about, "id": model, "display_name": model})

    def create(self, call: SandboxCall) -> Response:
        if not call.headers.get("anthropic-version"):
            raise Rejection(400, "anthropic-version: header is required")
        self.check_size(call.body.seek(0, 2), 413)
        input_id = new_id("requests_")
        keys: set[str] = set()
        models: set[str] = set()
        self.store.save_bytes(self.provider, input_id, self._lines(call, keys, models))
        batch = SandboxBatch(
            id=new_id("msgbatch_"),
            provider=self.provider,
            created=self.engine.now(),
            input_id=input_id,
            endpoint="/v1/messages",
            model=models.pop() if len(models) == 1 else "",
            echo={},
            rows=len(keys),
        )
        return JsonReply(self.view(call, self.engine.create(batch)))

    def _lines(self, call: SandboxCall, keys: set[str], models: set[str]) -> Iterator[bytes]:
        """One line of stored input per request; the loop refuses what the create call refuses."""
        for index, element in enumerate(elements(call.body, "requests")):
            where = f"requests.{index}"
            request = json_object(element, where)
            key = required(request, "custom_id", str, f"{where}.")
            params = required(request, "params", dict, f"{where}.")
            if index >= self.rows:
                raise Rejection(413, f"requests: a batch may have at most {self.rows} requests")
            if _CUSTOM_ID.fullmatch(key) is None:
                raise Rejection(400, f"{where}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
            if key in keys:
                raise Rejection(400, f"{where}.custom_id: {key!r} is not unique in this batch")
            keys.add(key)
            models.add(str(params.get("model", "")))
            # Line ends can only stand between the tokens of JSON, where a blank does as well.
            yield element.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
        if not keys:
            raise Rejection(400, "requests: at least one request is required")

    def list_batches(self, call: SandboxCall) -> Response:
        batches = self.engine.everything(self.provider)
        shown, more = page(batches, call.number("limit", 20, 1, 1000), call.query.get("after_id"))
        ends = {"first_id": shown[0].id if shown else None, "last_id": shown[-1].id if shown else None}
        return JsonReply({"data": [self.view(call, batch) for batch in shown], "has_more": more, **ends})

    def results(self, call: SandboxCall) -> Response:
        batch = self.batch(call)
        if batch.outcome is None:
            raise Rejection(404, f"Batch {batch.id} has no results yet")
        if not batch.output_id:
            return Response(b"", media_type="application/x-jsonl")
        return FileResponse(self.store.blob(self.provider, batch.output_id), media_type="application/x-jsonl")

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Everything that concerns the batch was checked when it was created."""
        return batch.rows, "", None

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        params = required(row, "params", dict)
        model = required(params, "model", str)
        prompt = conversation(required(params, "messages", list), params.get("system"))
        if params.get("stream"):
            raise Rejection(400, "stream: not supported in a batch")
        return Question(
            provider=self.provider,
            model=model,
            system=prompt.system,
            text=prompt.text,
            images=prompt.images,
            schema=section(section(params, "output_config"), "format").get("schema"),  # type: ignore[arg-type]
            reasoning=_reasoning(params),
            max_output_tokens=required(params, "max_tokens", int),
            custom_id=self.key(row),
            prefix=_marked(params.get("system"), model),
        )

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

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        if outcome == "failed":
            return self.failure(key, Rejection(500, "Internal server error"))
        return {"custom_id": key, "result": {"type": "canceled" if outcome == "cancelled" else "expired"}}

    def output_ids(self) -> tuple[str, str]:
        return new_id("results_"), new_id("unused_")

    def view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        ended = batch.outcome is not None
        results = f"{call.root}{self.prefix}{_AT}/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": self.status(batch),
            "request_counts": _counts(batch),
            "created_at": rfc3339(batch.created),
            "expires_at": rfc3339(batch.created + DAY),
            "ended_at": rfc3339(batch.ended),
            "cancel_initiated_at": rfc3339(batch.ended if batch.outcome == "cancelled" else batch.cancel_asked),
            "archived_at": None,
            "results_url": results if ended else None,
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


def _marked(system: object, model: str) -> CachedPrefix | None:
    """The system prompt up to its last cache mark, if it is long enough for the model's cache."""
    blocks = [block for block in system if isinstance(block, dict)] if isinstance(system, list) else []
    marks = [number for number, block in enumerate(blocks, 1) if block.get("cache_control") is not None]
    if not marks:
        return None
    text = "\n".join(str(block.get("text", "")) for block in blocks[: marks[-1]])
    least = next(tokens for pattern, tokens in _LEAST_CACHED if pattern.match(model))
    return CachedPrefix(text, bills_writes=True) if text_tokens(text) >= least else None


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


def elements(source: IO[bytes], name: str) -> Iterator[bytes]:
    """The raw elements of the array under the top-level key `name`, in order, without the whole body in memory. That
    each is JSON is for the caller to check. Raises Rejection, at the latest at the end, if the rest of the document is
    not a JSON object with that array."""
    source.seek(0, 2)
    if source.tell() == 0:
        raise Rejection(400, "the body is empty")
    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as text:
        depth, start, opened, closed, previous = 0, 0, -1, -1, b""
        for token in _TOKEN.finditer(text):
            mark = text[token.start() : token.start() + 1]
            if mark in b"{[":
                depth += 1
                if mark == b"[" and depth == 2 and opened < 0 and previous == orjson.dumps(name):
                    opened = start = token.end()
            elif mark in b"}]":
                depth -= 1
                if opened >= 0 and closed < 0 and depth == 1:
                    closed = token.start()
            inside = opened >= 0 and closed < 0 and depth == 2 and mark == b","
            if inside or closed == token.start():
                element = text[start : token.start()].strip()
                if element or inside or start != opened:
                    yield element
                start = token.end()
            previous = text[token.start() : token.end()] if mark == b'"' and depth == 1 else previous
        if closed < 0:
            raise Rejection(400, f"the body is not a JSON object with an array under {name!r}")
        json_object(text[:opened] + text[closed:], "the body")
