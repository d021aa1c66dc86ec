"""Mistral: files that are validated at upload, and batch jobs over them."""

from __future__ import annotations

import orjson

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.lifecycle import Rejection, Row, lines_of
from layton_batch.sandbox.engine.store import SandboxBatch, StoredFile
from layton_batch.sandbox.wire.api import CHAT, ProviderApi, SandboxCall, phase_words
from layton_batch.sandbox.wire.reading import (
    chat_question,
    completion,
    error_of,
    json_object,
    one_of,
    required,
    result_line,
    section,
    thinking_text,
)

_WORDS = "QUEUED RUNNING RUNNING CANCELLATION_REQUESTED SUCCESS FAILED TIMEOUT_EXCEEDED CANCELLED"


class MistralApi(ProviderApi):
    """Files and batch jobs; failed rows go to a file of their own, rows that were never run are in neither."""

    provider = "mistral"
    prefix = "/mistral"
    error_file = True
    statuses = phase_words(_WORDS)
    batch_id = "job-"
    rows = 100_000
    file_bytes = 512_000_000
    routes = """
        POST /v1/files upload
        GET /v1/files list_files
        GET /v1/files/{id} file
        GET /v1/files/{id}/content results
        POST /v1/batch/jobs create
        GET /v1/batch/jobs list
        GET /v1/batch/jobs/{id} poll
        POST /v1/batch/jobs/{id}/cancel cancel
        GET /v1/models/{id} models model
    """

    def refusal(self, rejection: Rejection) -> dict[str, object]:
        """A list of details for 422, one message otherwise."""
        if rejection.status == 422:
            return {"detail": [{"type": "value_error", "loc": ["body"], "msg": rejection.message}]}
        if rejection.status == 401:
            return {"detail": rejection.message}
        return {"object": "error", **error_of(rejection)}

    def model_view(self, model: str) -> dict[str, object]:
        return {**super().model_view(model), "capabilities": {"completion_chat": True}, "aliases": [], "type": "base"}

    def check_upload(self, record: StoredFile) -> None:
        """Rows have a chat body; a missing or repeated custom_id is not this API's concern."""
        self.check_size(record.size, 413)
        number = 0
        for number, line in enumerate(lines_of(self.store.blob(self.provider, record.id)), 1):
            try:
                chat_question(self.provider, required(json_object(line, "the row"), "body", dict), "")
            except Rejection as refused:
                raise Rejection(422, f"line {number}: {refused.message}") from refused
        if not number:
            raise Rejection(422, "the file is empty")

    def file_view(self, record: StoredFile) -> dict[str, object]:
        result = {"sample_type": "batch_result", "source": "mistral"}
        request = {"sample_type": "batch_request", "source": "upload"}
        return {**super().file_view(record), **(request if record.purpose == "batch" else result)}

    def create(self, call: SandboxCall) -> object:
        body = call.json()
        one_of(body.get("endpoint"), "endpoint", (CHAT,))
        files, model = required(body, "input_files", list), required(body, "model", str)
        echo = {"input_files": files, "metadata": section(body, "metadata") or None}
        input_id = self.input_file(files[0] if len(files) == 1 else files).id
        return self.view(self.create_batch(input_id=input_id, model=model, echo=echo))

    def list(self, call: SandboxCall) -> object:
        size, batches = call.number("page_size", 100, 1, 1000), self.engine.everything(self)
        start = call.number("page", 0, 0, 10**6) * size
        views = [self.view(batch) for batch in batches[start : start + size]]
        return {"object": "list", "data": views, "total": len(batches)}

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        body = required(row, "body", dict)
        if body.get("model") not in (None, batch.model):
            message = f"the job's model is {batch.model}, this row asks for {body['model']}"
            raise Rejection(400, message, code="invalid_model")
        return super().question(row, batch)

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        content: object = reply.text
        if reply.reasoning_tokens and question.reasoning not in (None, "none"):
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": thinking_text(reply)}], "closed": True}
            content = [thought, {"type": "text", "text": reply.text}]
        body = completion(question, reply, {"content": content, "tool_calls": None, "prefix": False})
        return result_line(question.custom_id, 200, body)

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return result_line(key, rejection.status, orjson.dumps(self.refusal(rejection)).decode())

    def view(self, batch: SandboxBatch) -> dict[str, object]:
        errors = [{"message": batch.problem.message, "count": 1}] if batch.problem is not None else []
        if batch.failed:
            errors.append({"message": "some requests failed; see the error file", "count": batch.failed})
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "model": batch.model,
            **batch.echo,
            "status": self.status(batch),
            "errors": errors,
            "created_at": int(batch.created),
            "started_at": int(batch.started) if batch.phase != "validating" else None,
            "completed_at": None if batch.ended is None else int(batch.ended),
            "total_requests": batch.rows,
            "completed_requests": batch.succeeded + batch.failed,
            "succeeded_requests": batch.succeeded,
            "failed_requests": batch.failed,
            "output_file": batch.output_id or None,
            "error_file": batch.error_id or None,
        }
