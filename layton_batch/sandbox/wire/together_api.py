"""HTTP routes of Together: uploads through a signed address, content-addressed files, bare batch jobs."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

import orjson
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.configuration import SandboxLimits
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import BatchRefusal, Outcome, SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire import model_endpoints
from layton_batch.sandbox.wire.chat_rows import (
    ChatRules,
    chat_question,
    chat_usage,
    completion,
    finish_word,
    thinking_text,
)
from layton_batch.sandbox.wire.gateway import Endpoint, JsonReply, SandboxCall, Wire, bearer, rfc3339
from layton_batch.sandbox.wire.request_checks import as_object, as_text, no_strangers, one_of

_ME = "together"
_DAY = 86400
_CREATE = frozenset({"input_file_id", "endpoint", "completion_window", "model_id", "priority"})
_PURPOSES = ("batch-api", "fine-tune", "eval", "calibration")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STATUS = {
    "validating": "VALIDATING",
    "cancelling": "CANCELING",
    "completed": "COMPLETED",
    "failed": "FAILED",
    "expired": "EXPIRED",
    "cancelled": "CANCELLED",
}


class TogetherApi:
    """Files and batches."""

    def __init__(self, engine: SandboxEngine) -> None:
        self._engine = engine
        engine.speak(TogetherRows(engine.config.limits))

    def wire(self) -> Wire:
        files, batches = "/v1/files", "/v1/batches"
        endpoints = [
            Endpoint("POST", files, "upload", self.announce),
            Endpoint("POST", files + "/upload", "upload", self.upload),
            Endpoint("PUT", "/signed/{id}", "put", self.put, keyless=True),
            Endpoint(
                "POST", files + "/{id}/preprocess", "preprocess", lambda call: JsonReply(_file_view(self._file(call)))
            ),
            Endpoint("GET", files, "list_files", self.list_files),
            Endpoint("GET", files + "/{id}", "file", lambda call: JsonReply(_file_view(self._file(call)))),
            Endpoint("DELETE", files + "/{id}", "delete", self.delete_file),
            Endpoint("GET", files + "/{id}/content", "results", self.content),
            Endpoint("POST", batches, "create", self.create),
            Endpoint("GET", batches, "list", self.list_batches),
            Endpoint("GET", batches + "/{id}", "poll", lambda call: JsonReply(self._view(self._batch(call)))),
            Endpoint("POST", batches + "/{id}/cancel", "cancel", self.cancel),
            Endpoint("GET", "/v1/models", "models", self.models),
        ]
        no_key = Rejection(401, "Missing API key", code="invalid_api_key")
        return Wire(_ME, "/together", endpoints, error_body, bearer, no_key)

    def models(self, _call: SandboxCall) -> Response:
        return JsonReply(model_endpoints.together_list(self._engine.config))

    def announce(self, call: SandboxCall) -> Response:
        """First step of the SDK's upload: the address to put the bytes to, or 409 with the id of the same content."""
        checksum = call.fields.get("checksum", "").lower()
        if _SHA256.fullmatch(checksum) is None:
            raise Rejection(400, "checksum must be the sha256 of the file in hex", param="checksum")
        record = self._record(call.fields.get("file_name", ""), call.fields.get("purpose"), checksum)
        existing = self._engine.store.file(_ME, record.id)
        if existing is not None and existing.ready:
            return _exists(existing)
        self._engine.store.put_file(record)
        headers = {"Location": f"{call.root}/together/signed/{record.id}", "X-Together-File-Id": record.id}
        return Response(b"", 302, headers)

    def put(self, call: SandboxCall) -> Response:
        record = self._engine.store.file(_ME, call.params["id"])
        if record is None:
            raise Rejection(403, "the signed address is not valid")
        size, digest = self._engine.store.save_bytes(_ME, record.id, call.body)
        if digest != record.sha256:
            self._engine.store.blob(_ME, record.id).unlink(missing_ok=True)
            raise Rejection(400, "the bytes do not have the announced checksum")
        self._engine.store.put_file(replace(record, size=size, ready=True))
        return Response(b"")

    def upload(self, call: SandboxCall) -> Response:
        """The older route: the bytes in one multipart call."""
        if call.upload is None:
            raise Rejection(400, "file is required", param="file")
        digest = hashlib.file_digest(cast("io.BytesIO", call.upload.file), "sha256").hexdigest()
        call.upload.file.seek(0)
        name = call.fields.get("file_name") or call.upload.filename or ""
        record = self._record(name, call.fields.get("purpose"), digest)
        existing = self._engine.store.file(_ME, record.id)
        if existing is not None and existing.ready:
            return _exists(existing)
        size, _ = self._engine.store.save_bytes(_ME, record.id, call.upload.file)
        record = replace(record, size=size, ready=True)
        self._engine.store.put_file(record)
        return JsonReply(_file_view(record))

    def _record(self, name: str, purpose: str | None, checksum: str) -> StoredFile:
        if not name.endswith(".jsonl"):
            raise Rejection(400, f"file name {name!r} does not end in .jsonl", param="file_name")
        return StoredFile(
            id=f"file-{checksum[:32]}",
            provider=_ME,
            name=name,
            purpose=one_of(purpose, "purpose", _PURPOSES),
            created=self._engine.now(),
            size=0,
            sha256=checksum,
            kind="input",
            ready=False,
        )

    def list_files(self, call: SandboxCall) -> Response:
        return JsonReply({"data": [_file_view(file) for file in self._engine.store.files(_ME) if file.ready]})

    def delete_file(self, call: SandboxCall) -> Response:
        record = self._file(call)
        self._engine.store.drop_file(_ME, record.id)
        return JsonReply({"id": record.id, "deleted": True})

    def content(self, call: SandboxCall) -> Response:
        return FileResponse(self._engine.store.blob(_ME, self._file(call).id), media_type="application/jsonl")

    def create(self, call: SandboxCall) -> Response:
        """A file id that does not exist is accepted; the job fails later."""
        body = call.json()
        no_strangers(body, _CREATE)
        if body.get("completion_window") not in (None, "", "24h"):
            raise Rejection(400, "completion_window must be 24h", param="completion_window")
        batch = SandboxBatch(
            id=new_id("batch-"),
            provider=_ME,
            created=self._engine.now(),
            input_id=as_text(body.get("input_file_id"), "input_file_id"),
            endpoint=one_of(body.get("endpoint"), "endpoint", ("/v1/chat/completions",)),
            model=str(body.get("model_id") or ""),
            echo={},
        )
        return JsonReply({"job": self._view(self._engine.create(batch)), "warning": None}, 201)

    def list_batches(self, call: SandboxCall) -> Response:
        return JsonReply([self._view(batch) for batch in self._engine.everything(_ME)])

    def cancel(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        if batch.outcome is not None:
            raise Rejection(409, f"batch {batch.id} has ended: {_STATUS[batch.outcome]}", code="conflict")
        return JsonReply(self._view(self._engine.cancel(batch)))

    def _file(self, call: SandboxCall) -> StoredFile:
        record = self._engine.store.file(_ME, call.params["id"])
        if record is None or not record.ready:
            raise Rejection(404, f"file {call.params['id']} not found", code="not_found")
        return record

    def _batch(self, call: SandboxCall) -> SandboxBatch:
        batch = self._engine.current(_ME, call.params["id"])
        if batch is None:
            raise Rejection(404, f"batch {call.params['id']} not found", code="not_found")
        return batch

    def _view(self, batch: SandboxBatch) -> dict[str, object]:
        phase = self._engine.phase(batch)
        odd = batch.fate.name if phase == "odd" and batch.fate is not None else None
        record = self._engine.store.file(_ME, batch.input_id)
        progress = 100.0 if batch.outcome == "completed" else 0.0
        if batch.rows and batch.outcome != "completed":
            progress = round(100 * self._engine.progress(batch) / batch.rows, 1)
        return {
            "id": batch.id,
            "user_id": "sandbox-user",
            "input_file_id": batch.input_id,
            "file_size_bytes": record.size if record is not None else 0,
            "status": odd or _STATUS.get(phase, "IN_PROGRESS"),
            "job_deadline": rfc3339(batch.created + _DAY),
            "created_at": rfc3339(batch.created),
            "completed_at": rfc3339(batch.ended),
            "endpoint": batch.endpoint,
            "model_id": batch.model,
            "progress": progress,
            "output_file_id": batch.output_id if batch.outcome else "",
            "error_file_id": batch.error_id if batch.outcome else "",
            "error": batch.problem.message if batch.problem is not None and batch.outcome else "",
        }


def error_body(rejection: Rejection) -> Mapping[str, object]:
    """Together's error form."""
    kind = "server_error" if rejection.status >= 500 else "invalid_request_error"
    error = {"message": rejection.message, "type": kind, "param": rejection.param, "code": rejection.code}
    return {"id": new_id(""), "error": error}


def _exists(record: StoredFile) -> Response:
    return JsonReply({"file_id": record.id, "message": "a file with the same content exists"}, 409)


def _file_view(record: StoredFile) -> dict[str, object]:
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.size,
        "created_at": int(record.created),
        "filename": record.name,
        "FileType": "jsonl",
        "purpose": record.purpose if record.kind == "input" else "batch-api",
        "LineCount": record.lines or 0,
        "Processed": True,
        "processing_status": "COMPLETED",
    }


_PARAMETERS = frozenset(
    [
        "chat_template_kwargs",
        "compliance",
        "context_length_exceeded_behavior",
        "echo",
        "function_call",
        "logit_bias",
        "min_p",
        "reasoning",
        "repetition_penalty",
        "safety_model",
        "seed",
        "top_k",
    ]
)
_RULES = ChatRules("together", _PARAMETERS, ("low", "medium", "high"), strict_rules=False)


class TogetherRows:
    """Failed rows go to a file of their own; rows that were never run are in neither."""

    provider = "together"
    error_file = True
    early_output = False
    partial = True

    def __init__(self, limits: SandboxLimits) -> None:
        self._rows = limits.rows or 50_000
        self._bytes = limits.file_bytes or 100_000_000
        self._line_bytes = limits.line_bytes or 10_000_000

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        models: set[str] = set()
        number = 0
        try:
            self._bounds(size, number)
            for number, line in enumerate(lines, 1):
                self._bounds(size, number)
                models.add(self._model(line))
            _not_empty(number)
        except Rejection as refused:
            return (
                0,
                "",
                BatchRefusal("validation", f"error validating file at line {number}: {refused.message}", number),
            )
        return number, models.pop() if len(models) == 1 else "", None

    def _bounds(self, size: int, number: int) -> None:
        if size > self._bytes:
            raise Rejection(400, f"file has {size} bytes, the limit is {self._bytes}")
        if number > self._rows:
            raise Rejection(400, f"file has more than {self._rows} requests")

    def _model(self, line: bytes) -> str:
        if len(line) > self._line_bytes:
            raise Rejection(400, f"error reading file: a line has more than {self._line_bytes} bytes")
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Rejection(400, f"invalid JSON: {error}") from error
        if (
            not isinstance(row, dict)
            or not isinstance(row.get("custom_id"), str)
            or not isinstance(row.get("body"), dict)
        ):
            raise Rejection(400, "a line is an object with a string custom_id and an object body")
        model = row["body"].get("model")
        if not isinstance(model, str) or not model:
            raise Rejection(400, "body.model is required")
        return model

    def key(self, row: Row) -> str:
        return str(row["custom_id"])

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        return chat_question(as_object(row["body"], "body"), _RULES, self.key(row))

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        message: dict[str, object] = {"content": reply.text, "tool_calls": []}
        if reply.reasoning_tokens:
            message["reasoning"] = thinking_text(reply)
        # Where the reasoning count is, and the word for an ordinary end, depend on the model; both forms are shown.
        llama = question.model.startswith("meta-llama/")
        usage = chat_usage(reply)
        if llama:
            usage["completion_tokens_details"] = {"reasoning_tokens": reply.reasoning_tokens}
        else:
            usage["reasoning_tokens"] = reply.reasoning_tokens
        if reply.cached_input_tokens:
            usage["prompt_tokens_details"] = {"cached_tokens": reply.cached_input_tokens}
        finish = finish_word(reply)
        body = completion(question, message, "eos" if llama and finish == "stop" else finish, usage)
        return {"id": new_id("br_"), "custom_id": question.custom_id, "response": {"status_code": 200, "body": body}}

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        code = rejection.code if rejection.code in ("batch_server_error", "batch_client_error") else None
        code = code or ("batch_server_error" if rejection.status >= 500 else "batch_client_error")
        return {"id": new_id("br_"), "custom_id": key, "error": {"code": code, "message": rejection.message}}

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        return None

    def output_ids(self) -> tuple[str, str]:
        return new_id("file-"), new_id("file-")


def _not_empty(number: int) -> None:
    if not number:
        raise Rejection(400, "file has no requests")
