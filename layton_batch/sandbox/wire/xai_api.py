"""xAI's batches: files of OpenAI's lines, counts in place of a status word, and results as pages of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import orjson
from starlette.responses import Response

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.store import Outcome, SandboxBatch, new_id
from layton_batch.sandbox.wire.api import DAY, Endpoint, JsonReply, SandboxCall, page, rfc3339
from layton_batch.sandbox.wire.openai_api import OpenAIApi
from layton_batch.sandbox.wire.reading import required
from layton_batch.sandbox.wire.reply_bodies import completion, said

_CHAT = "/v1/chat/completions"


class XaiApi(OpenAIApi):
    """Files and models are OpenAI's, batches are xAI's own."""

    provider = "xai"
    prefix = "/xai"
    error_file = False
    line_bytes = 25_000_000
    urls = (_CHAT,)

    def endpoints(self) -> Sequence[Endpoint]:
        batches = f"{self.at}/batches"
        shared = [endpoint for endpoint in super().endpoints() if not endpoint.path.startswith(batches)]
        return [
            *shared,
            Endpoint("POST", batches, "create", self.create),
            Endpoint("GET", batches, "list", self.list_batches),
            Endpoint("GET", batches + "/{id}", "poll", self.poll),
            Endpoint("GET", batches + "/{id}/results", "results", self.results),
            Endpoint("POST", batches + "/{id}:cancel", "cancel", self.cancel),
        ]

    def refusal(self, rejection: Rejection) -> Mapping[str, object]:
        return {"code": rejection.code or "error", "error": rejection.message}

    def create(self, call: SandboxCall) -> Response:
        body = call.json()
        record = self.store.file(self.provider, required(body, "input_file_id", str))
        if record is None:
            raise Rejection(404, f"File {body['input_file_id']!r} does not exist.")
        batch = SandboxBatch(
            id=new_id("batch_"),
            provider=self.provider,
            created=self.engine.now(),
            input_id=record.id,
            endpoint=_CHAT,
            model="",
            echo={"name": required(body, "name", str)},
        )
        return JsonReply(self.view(call, self.engine.create(batch)))

    def list_batches(self, call: SandboxCall) -> Response:
        after, limit = call.query.get("pagination_token"), call.number("limit", 20, 1, 100)
        shown, more = page(self.engine.everything(self.provider), limit, after)
        token = shown[-1].id if more else None
        return JsonReply({"batches": [self.view(call, batch) for batch in shown], "pagination_token": token})

    def results(self, call: SandboxCall) -> Response:
        batch, limit = self.batch(call), call.number("limit", 100, 1, 1000)
        start = int(call.query.get("pagination_token", "0"))
        rows: list[bytes] = []
        if batch.outcome and batch.output_id:
            with self.store.blob(self.provider, batch.output_id).open("rb") as lines:
                rows = list(islice(lines, start, start + limit))
        token = str(start + limit) if start + limit < batch.output_lines else None
        return JsonReply({"results": [orjson.Fragment(row.rstrip()) for row in rows], "pagination_token": token})

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        usage = {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens - reply.reasoning_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
            "prompt_tokens_details": {"cached_tokens": reply.cached_input_tokens},
            "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
        }
        chat = completion(question, reply, said(reply), usage)
        return _line(question.custom_id, {"response": {"chat_get_completion": chat}})

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return _line(key, {"error": rejection.message})

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        return _line(key, {"error": "Batch cancelled"}) if outcome == "cancelled" else None

    def view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        """A batch that xAI itself ends, such as for a line that cannot be read, is told as one that it cancelled."""
        ended = batch.outcome is not None
        done = batch.succeeded if ended else self.engine.progress(batch)
        rows = batch.rows if batch.checked else 0
        pending = rows - done - batch.failed
        cancelled_at, reason = batch.cancel_asked, None
        if batch.outcome in ("failed", "expired"):
            cancelled_at, reason = batch.ended, batch.problem.message if batch.problem else "The batch has expired."
        state = {
            "num_requests": rows,
            "num_pending": 0 if ended else pending,
            "num_success": done,
            "num_error": batch.failed,
            "num_cancelled": pending if ended else 0,
        }
        shown = {} if self.engine.phase(batch) == "odd" else {"state": state}
        return {
            "batch_id": batch.id,
            **batch.echo,
            "input_file_id": batch.input_id,
            "create_time": rfc3339(batch.created),
            "expire_time": rfc3339(batch.created + 30 * DAY),
            "create_api_key_id": "key",
            "cancel_time": rfc3339(
                cancelled_at if cancelled_at is not None or batch.outcome != "cancelled" else batch.ended
            ),
            "cancel_by_xai_message": reason,
            **shown,
        }


def _line(key: str, result: Mapping[str, object]) -> dict[str, object]:
    return {"batch_request_id": key, "batch_result": result}
