"""xAI's batches: files of OpenAI's lines, counts in place of a status word, and results as pages of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import orjson

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.lifecycle import PHASES, Rejection, Row
from layton_batch.sandbox.engine.store import SandboxBatch
from layton_batch.sandbox.wire.api import CHAT, DAY, SandboxCall, rfc3339
from layton_batch.sandbox.wire.openai_api import OpenAIApi
from layton_batch.sandbox.wire.reading import completion, message_with_refusal, required

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
        return self.view(call, self.create_batch(input_id=input_id, echo={"name": required(body, "name", str)}))

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
        return _line(question.custom_id, {"response": {"chat_get_completion": {**chat, "usage": usage}}})

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return _line(key, {"error": rejection.message})

    def unfinished(self, key: str, outcome: str) -> dict[str, object] | None:
        return _line(key, {"error": "Batch cancelled"}) if outcome == "cancelled" else None

    def view(self, _call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
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


def _line(key: str, result: Mapping[str, object]) -> dict[str, object]:
    return {"batch_request_id": key, "batch_result": result}
