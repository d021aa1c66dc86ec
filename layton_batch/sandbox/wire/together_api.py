"""Together: uploads through a signed address, content-addressed files, bare batch jobs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from starlette.responses import Response

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.store import BatchRefusal, SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire.api import DAY, Endpoint, JsonReply, ProviderApi, SandboxCall, rfc3339
from layton_batch.sandbox.wire.openai_api import chat_question
from layton_batch.sandbox.wire.reading import one_of, required
from layton_batch.sandbox.wire.reply_bodies import chat_usage, completion, thinking_text

_SHA256 = re.compile(r"[0-9a-f]{64}")


class TogetherApi(ProviderApi):
    """Files and batches; failed rows go to a file of their own, rows that were never run are in neither."""

    provider = "together"
    prefix = "/together"
    error_file = True
    statuses: ClassVar[Mapping[str, str]] = {
        "validating": "VALIDATING",
        "running": "IN_PROGRESS",
        "finalizing": "IN_PROGRESS",
        "cancelling": "CANCELING",
        "completed": "COMPLETED",
        "failed": "FAILED",
        "expired": "EXPIRED",
        "cancelled": "CANCELLED",
    }
    line_bytes = 10_000_000

    def endpoints(self) -> Sequence[Endpoint]:
        files, batches = "/v1/files", "/v1/batches"
        return [
            Endpoint("POST", files, "upload", self.announce),
            Endpoint("POST", files + "/upload", "upload", self.upload),
            Endpoint("PUT", "/signed/{id}", "put", self.put, keyless=True),
            Endpoint("POST", files + "/{id}/preprocess", "preprocess", self.file_page),
            Endpoint("GET", files, "list_files", self.list_files),
            Endpoint("GET", files + "/{id}", "file", self.file_page),
            Endpoint("DELETE", files + "/{id}", "delete", self.delete_file),
            Endpoint("GET", files + "/{id}/content", "results", self.content),
            Endpoint("POST", batches, "create", self.create),
            Endpoint("GET", batches, "list", self.list_batches),
            Endpoint("GET", batches + "/{id}", "poll", self.poll),
            Endpoint("POST", batches + "/{id}/cancel", "cancel", self.cancel),
            Endpoint("GET", "/v1/models", "models", self.models),
        ]

    def refusal(self, rejection: Rejection) -> Mapping[str, object]:
        kind = "server_error" if rejection.status >= 500 else "invalid_request_error"
        error = {"message": rejection.message, "type": kind, "param": rejection.param, "code": rejection.code}
        return {"id": new_id(""), "error": error}

    def models(self, _call: SandboxCall) -> Response:
        return JsonReply([{**self.model_view(model), "type": "chat"} for model in self.catalogue()])

    def announce(self, call: SandboxCall) -> Response:
        """First step of the SDK's upload: the address to put the bytes to, or 409 with the id of the same content."""
        checksum = call.fields.get("checksum", "").lower()
        if _SHA256.fullmatch(checksum) is None:
            raise Rejection(400, "checksum must be the sha256 of the file in hex", param="checksum")
        record = StoredFile(
            id=f"file-{checksum[:32]}",
            provider=self.provider,
            name=call.fields.get("file_name", ""),
            purpose=one_of(call.fields.get("purpose"), "purpose", ("batch-api",)),
            created=self.engine.now(),
            size=0,
            sha256=checksum,
            kind="input",
            ready=False,
        )
        if not record.name.endswith(".jsonl"):
            raise Rejection(400, f"file name {record.name!r} does not end in .jsonl", param="file_name")
        if self._have(record.id):
            return JsonReply({"file_id": record.id, "message": "a file with the same content exists"}, 409)
        self.store.put_file(record)
        headers = {"Location": f"{call.root}/together/signed/{record.id}", "X-Together-File-Id": record.id}
        return Response(b"", 302, headers)

    def put(self, call: SandboxCall) -> Response:
        record = self.store.file(self.provider, call.params["id"])
        if record is None:
            raise Rejection(403, "the signed address is not valid")
        size, digest = self.store.save_bytes(self.provider, record.id, call.body)
        if digest != record.sha256:
            self.store.blob(self.provider, record.id).unlink(missing_ok=True)
            raise Rejection(400, "the bytes do not have the announced checksum")
        self.store.put_file(replace(record, size=size, ready=True))
        return Response(b"")

    def upload(self, call: SandboxCall) -> Response:
        """The older route: the bytes in one multipart call."""
        if call.upload is None:
            raise Rejection(400, "file is required", param="file")
        digest = hashlib.file_digest(call.upload.file, "sha256").hexdigest()  # type: ignore[arg-type]
        call.upload.file.seek(0)
        file_id = f"file-{digest[:32]}"
        if self._have(file_id):
            return JsonReply({"file_id": file_id, "message": "a file with the same content exists"}, 409)
        record = self.uploaded(call, file_id, ("batch-api",))
        self.store.put_file(record)
        return JsonReply(_file_view(record))

    def _have(self, file_id: str) -> bool:
        existing = self.store.file(self.provider, file_id)
        return existing is not None and existing.ready

    def file_page(self, call: SandboxCall) -> Response:
        return JsonReply(_file_view(self.file(call)))

    def list_files(self, call: SandboxCall) -> Response:
        return JsonReply({"data": [_file_view(file) for file in self.store.files(self.provider) if file.ready]})

    def create(self, call: SandboxCall) -> Response:
        """A file id that does not exist is accepted; the job fails later."""
        body = call.json()
        one_of(body.get("completion_window") or "24h", "completion_window", ("24h",))
        batch = SandboxBatch(
            id=new_id("batch-"),
            provider=self.provider,
            created=self.engine.now(),
            input_id=required(body, "input_file_id", str),
            endpoint=one_of(body.get("endpoint"), "endpoint", ("/v1/chat/completions",)),
            model=str(body.get("model_id") or ""),
            echo={},
        )
        return JsonReply({"job": self.view(call, self.engine.create(batch)), "warning": None}, 201)

    def list_batches(self, call: SandboxCall) -> Response:
        return JsonReply([self.view(call, batch) for batch in self.engine.everything(self.provider)])

    def admit(self, row: Row, batch: SandboxBatch, keys: set[str]) -> str:
        required(row, "custom_id", str)
        return required(required(row, "body", dict), "model", str, "body.")

    def batch_refusal(self, refused: Rejection, line: int | None) -> BatchRefusal:
        return BatchRefusal("validation", f"error validating file at line {line or 0}: {refused.message}", line)

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        return chat_question(self.provider, required(row, "body", dict), self.key(row))

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        message: dict[str, object] = {"content": reply.text, "tool_calls": []}
        if reply.reasoning_tokens:
            message["reasoning"] = thinking_text(reply)
        usage = chat_usage(reply)
        body = completion(question, reply, message, usage)
        # Where the reasoning count is, and the word for an ordinary end, depend on the model; both forms are shown.
        if not question.model.startswith("meta-llama/"):
            del usage["completion_tokens_details"]
            usage["reasoning_tokens"] = reply.reasoning_tokens
        elif reply.finish != "length":
            body["choices"] = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "eos"}]
        return {"id": new_id("br_"), "custom_id": question.custom_id, "response": {"status_code": 200, "body": body}}

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        code = "batch_server_error" if rejection.status >= 500 else "batch_client_error"
        if str(rejection.code).startswith("batch_"):
            code = str(rejection.code)
        return {"id": new_id("br_"), "custom_id": key, "error": {"code": code, "message": rejection.message}}

    def output_ids(self) -> tuple[str, str]:
        return new_id("file-"), new_id("file-")

    def view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        record = self.store.file(self.provider, batch.input_id)
        progress = 100.0 if batch.outcome == "completed" else 0.0
        if batch.rows and batch.outcome != "completed":
            progress = round(100 * self.engine.progress(batch) / batch.rows, 1)
        return {
            "id": batch.id,
            "user_id": "sandbox-user",
            "input_file_id": batch.input_id,
            "file_size_bytes": record.size if record is not None else 0,
            "status": self.status(batch),
            "job_deadline": rfc3339(batch.created + DAY),
            "created_at": rfc3339(batch.created),
            "completed_at": rfc3339(batch.ended),
            "endpoint": batch.endpoint,
            "model_id": batch.model,
            "progress": progress,
            "output_file_id": batch.output_id if batch.outcome else "",
            "error_file_id": batch.error_id if batch.outcome else "",
            "error": batch.problem.message if batch.problem is not None and batch.outcome else "",
        }


def _file_view(record: StoredFile) -> dict[str, object]:
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.size,
        "created_at": int(record.created),
        "filename": record.name,
        "FileType": "jsonl",
        "purpose": "batch-api",
        "LineCount": record.lines or 0,
        "Processed": True,
        "processing_status": "COMPLETED",
    }
