"""Together: uploads through a signed address, content-addressed files, bare batch jobs."""

from __future__ import annotations

import re
from dataclasses import replace

from starlette.responses import Response

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.lifecycle import Rejection, Row
from layton_batch.sandbox.engine.store import BatchRefusal, SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire.api import CHAT, DAY, JsonReply, ProviderApi, SandboxCall, phase_words, rfc3339
from layton_batch.sandbox.wire.reading import completion, error_of, one_of, required, result_line, thinking_text


class TogetherApi(ProviderApi):
    """Files and batches; failed rows go to a file of their own, rows that were never run are in neither."""

    provider = "together"
    prefix = "/together"
    error_file = True
    statuses = phase_words("VALIDATING IN_PROGRESS IN_PROGRESS CANCELING COMPLETED FAILED EXPIRED CANCELLED")
    batch_id = "batch-"
    line_bytes = 10_000_000
    routes = """
        POST /v1/files upload
        PUT /signed/{id} -put
        POST /v1/files/{id}/preprocess preprocess file
        GET /v1/files/{id} file
        GET /v1/files/{id}/content results
        POST /v1/batches create
        GET /v1/batches list
        GET /v1/batches/{id} poll
        POST /v1/batches/{id}/cancel cancel
        GET /v1/models models
    """

    def refusal(self, rejection: Rejection) -> dict[str, object]:
        return {"id": new_id(""), "error": error_of(rejection)}

    def models(self, _call: SandboxCall) -> object:
        return [self.model_view(model) for model in self.catalogue()]

    def upload(self, call: SandboxCall) -> object:
        """First step of the SDK's upload: the address to put the bytes to, or 409 with the id of the same content."""
        checksum, name = call.fields.get("checksum", "").lower(), call.fields.get("file_name", "")
        if re.fullmatch("[0-9a-f]{64}", checksum) is None:
            raise Rejection(400, "checksum must be the sha256 of the file in hex")
        purpose = one_of(call.fields.get("purpose"), "purpose", ("batch-api",))
        if not name.endswith(".jsonl"):
            raise Rejection(400, f"file name {name!r} does not end in .jsonl")
        file_id = f"file-{checksum[:32]}"
        existing = self.store.file(self.provider, file_id)
        if existing is not None and existing.ready:
            return JsonReply({"file_id": file_id, "message": "a file with the same content exists"}, 409)
        self.store.save(StoredFile(file_id, self.provider, name, purpose, self.engine.now(), 0, checksum, ready=False))
        headers = {"Location": f"{call.root}{self.prefix}/signed/{file_id}", "X-Together-File-Id": file_id}
        return Response(b"", 302, headers)

    def put(self, call: SandboxCall) -> object:
        record = self.store.file(self.provider, call.params["id"])
        if record is None:
            raise Rejection(403, "the signed address is not valid")
        size, digest = self.store.save_bytes(self.provider, record.id, call.body)
        if digest != record.sha256:
            raise Rejection(400, "the bytes do not have the announced checksum")
        self.store.save(replace(record, size=size, ready=True))
        return Response(b"")

    def file_view(self, record: StoredFile) -> dict[str, object]:
        return {**super().file_view(record), "FileType": "jsonl", "Processed": True, "LineCount": 0}

    def create(self, call: SandboxCall) -> object:
        """A file id that does not exist is accepted; the job fails later."""
        body = call.json()
        one_of(body.get("endpoint"), "endpoint", (CHAT,))
        batch = self.create_batch(input_id=required(body, "input_file_id", str), echo={})
        return JsonReply({"job": self.view(batch), "warning": None}, 201)

    def list(self, call: SandboxCall) -> object:
        return [self.view(batch) for batch in self.engine.everything(self)]

    def admit(self, row: Row, _batch: SandboxBatch, _keys: set[str]) -> str:
        required(row, "custom_id", str)
        return required(required(row, "body", dict), "model", str, "body.")

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        thoughts = {"reasoning": thinking_text(reply)} if reply.reasoning_tokens else {}
        body = completion(question, reply, {"content": reply.text, "tool_calls": [], **thoughts})
        return result_line(question.custom_id, 200, body)

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        code = "batch_server_error" if rejection.status >= 500 else "batch_client_error"
        return result_line(key, error={"code": code, "message": rejection.message})

    def view(self, batch: SandboxBatch) -> dict[str, object]:
        record = self.store.file(self.provider, batch.input_id)
        done = 1.0 if batch.phase == "completed" else batch.succeeded / (batch.rows or 1)
        return {
            "id": batch.id,
            "input_file_id": batch.input_id,
            "file_size_bytes": record.size if record is not None else 0,
            "status": self.status(batch),
            "job_deadline": rfc3339(batch.created + DAY),
            "created_at": rfc3339(batch.created),
            "completed_at": rfc3339(batch.ended),
            "endpoint": batch.endpoint,
            "model_id": batch.model,
            "progress": round(100 * done, 1),
            "output_file_id": batch.output_id,
            "error_file_id": batch.error_id,
            "error": _words(batch.problem) if batch.problem is not None else "",
        }


def _words(problem: BatchRefusal) -> str:
    return f"error validating file at line {problem.line}: {problem.message}" if problem.line else problem.message
