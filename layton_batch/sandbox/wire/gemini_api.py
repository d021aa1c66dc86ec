"""The Gemini Developer API: resumable uploads, batch operations, downloads; each version alike, in camelCase."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.lifecycle import Rejection, Row, lines_of
from layton_batch.sandbox.engine.store import SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire.api import JsonReply, ProviderApi, SandboxCall, phase_words, rfc3339
from layton_batch.sandbox.wire.reading import (
    Body,
    conversation,
    of_kind,
    output_limit,
    required,
    section,
    thinking_text,
)

_NAME = re.compile(r"files/[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_FILE_LIFE = 48 * 3600
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
_ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class GeminiApi(ProviderApi):
    """Files and batch operations. Good and failed rows share one file; an expired or cancelled job has none."""

    provider = "gemini"
    prefix = "/gemini"
    address_name = "GOOGLE_GEMINI"
    partial = False
    statuses = phase_words("PENDING RUNNING RUNNING RUNNING SUCCEEDED FAILED EXPIRED CANCELLED", "BATCH_STATE_")
    batch_id = "batches/"
    file_id = "files/batch-"
    key_header = "x-goog-api-key"
    page_words = ("pageSize", "pageToken")
    rows = 1_000_000  # no limit is documented
    file_bytes = 2_000_000_000
    routes = """
        POST /upload/{version}/files -upload
        GET /{version}/files/{id}:download results
        GET /{version}/files/{id} file
        POST /{version}/models/{id}:batchGenerateContent create
        GET /{version}/models/{id} models model
        POST /{version}/batches/{id}:cancel cancel
        GET /{version}/batches list
        GET /{version}/batches/{id} poll
    """

    def refusal(self, rejection: Rejection) -> dict[str, object]:
        own = rejection.code if rejection.code is not None and rejection.code.isupper() else None
        other = "INTERNAL" if rejection.status >= 500 else "FAILED_PRECONDITION"
        status = own or _ERRORS.get(rejection.status, other)
        return {"error": {"code": rejection.status, "message": rejection.message, "status": status}}

    def model_view(self, model: str) -> dict[str, object]:
        return {"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": ["batchGenerateContent"]}

    # ---- files

    def upload(self, call: SandboxCall) -> object:
        """Only the start of an upload needs a key: the address it returns is the permission for the parts."""
        command = call.headers.get("x-goog-upload-command", "")
        if command == "start":
            self.admit_call(call.headers)
            return self._start(call)
        if "upload_id" in call.query and "upload" in command:
            return self._part(call, final="finalize" in command)
        raise Rejection(400, "the upload needs the resumable protocol: start, then upload, then upload, finalize")

    def _start(self, call: SandboxCall) -> object:
        wanted = section(call.json(), "file")
        name = of_kind(wanted.get("name") or new_id("files/", 6), str, "file.name")
        if _NAME.fullmatch(name) is None:
            message = "file.name must be files/ and up to 40 lowercase letters, digits or dashes, no dash at either end"
            raise Rejection(400, message)
        existing = self.store.file(self.provider, name)
        if existing is not None and existing.ready:
            raise Rejection(409, f"File {name} already exists.")
        self.store.blob(self.provider, name).unlink(missing_ok=True)
        self.store.save(StoredFile(name, self.provider, name, "batch", self.engine.now(), 0, "", ready=False))
        target = f"{call.root}{call.path}?upload_id={name.removeprefix('files/')}&upload_protocol=resumable"
        return JsonReply({}, headers={"x-goog-upload-url": target, "x-goog-upload-status": "active"})

    def _part(self, call: SandboxCall, *, final: bool) -> object:
        record = self.store.file(self.provider, f"files/{call.query['upload_id']}")
        if record is None or record.ready:
            raise Rejection(404, "no such upload is under way")
        path = self.store.blob(self.provider, record.id)
        have = path.stat().st_size if path.is_file() else 0
        if call.headers.get("x-goog-upload-offset") != str(have):
            raise Rejection(400, f"the upload stands at {have} bytes")
        with path.open("ab") as out:
            shutil.copyfileobj(call.body, out, 1 << 20)
            size = out.tell()
        self.check_size(size)
        if not final:
            return JsonReply({}, headers={"x-goog-upload-status": "active"})
        record = replace(record, size=size, ready=True)
        self.store.save(record)
        return JsonReply({"file": self.file_view(record)}, headers={"x-goog-upload-status": "final"})

    def stored_file(self, call: SandboxCall) -> StoredFile:
        record = self.store.file(self.provider, f"files/{call.params['id']}")
        if record is None or not record.ready:
            message = f"You do not have permission to access the File {call.params['id']} or it may not exist."
            raise Rejection(403, message)
        return record

    def file_view(self, record: StoredFile) -> dict[str, object]:
        return {
            "name": record.id,
            "mimeType": "application/jsonl",
            "sizeBytes": str(record.size),
            "createTime": rfc3339(record.created),
            "expirationTime": rfc3339(record.created + _FILE_LIFE),
            "uri": f"{self.root}{self.prefix}/v1beta/{record.id}",
            "state": "ACTIVE",
            "source": "UPLOADED",
        }

    # ---- batches

    def create(self, call: SandboxCall) -> object:
        """One malformed row refuses the whole batch."""
        wanted = required(call.json(), "batch", dict)
        source = section(wanted, "inputConfig")
        record = self.input_file(name := required(source, "fileName", str))
        batch = SandboxBatch("", self.provider, 0.0, name, "", call.params["id"], {})
        _, _, problem = self.check(batch, lines_of(self.store.blob(self.provider, name)), record.size)
        if problem is not None:
            raise Rejection(400, f"Line {problem.line} of {name}: {problem.message}")
        echo = {"displayName": str(wanted.get("displayName") or "")}
        return self.view(self.create_batch(input_id=name, endpoint="generateContent", model=batch.model, echo=echo))

    def batch(self, call: SandboxCall) -> SandboxBatch:
        return super().batch(replace(call, params={"id": self.batch_id + call.params["id"]}))

    def listing(self, views: Sequence[Mapping[str, object]], cursor: str | None) -> object:
        return {"operations": views, **({"nextPageToken": cursor} if cursor else {})}

    def cancel(self, call: SandboxCall) -> object:
        super().cancel(call)
        return {}

    def key(self, row: Row) -> str:
        return str(row["key"])

    def admit(self, row: Row, batch: SandboxBatch, _keys: set[str]) -> str:
        of_kind(row.get("key"), str, "key")
        return self.question(row, batch).model

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        request = required(row, "request", dict)
        config = section(request, "generationConfig")
        instructions = section(request, "systemInstruction").get("parts")
        prompt = conversation(required(request, "contents", list), instructions, content="parts")
        schema = section(config, "responseJsonSchema") or None
        if schema is not None and config.get("responseMimeType") != "application/json":
            raise Rejection(400, "a response schema needs responseMimeType application/json")
        reasoning, limit = _reasoning(section(config, "thinkingConfig")), output_limit(config, "maxOutputTokens")
        return Question(self.provider, batch.model, *prompt, schema, reasoning, limit, self.key(row))

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        response: dict[str, object] = {
            "usageMetadata": _usage(reply),
            "modelVersion": question.model,
            "responseId": new_id(""),
        }
        config = section(section(required(row, "request", dict), "generationConfig"), "thinkingConfig")
        parts: list[dict[str, object]] = []
        if config.get("includeThoughts") and reply.reasoning_tokens:
            parts.append({"text": thinking_text(reply), "thought": True})
        if reply.text:
            parts.append({"text": reply.text})
        finish = {"length": "MAX_TOKENS", "refusal": "SAFETY"}.get(reply.finish, "STOP")
        content = {"role": "model", "parts": parts} if parts else {"role": "model"}
        response["candidates"] = [{"content": content, "finishReason": finish, "index": 0}]
        return {"key": question.custom_id, "response": response}

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return {"key": key, "error": {"code": rejection.status, "message": rejection.message}}

    def view(self, batch: SandboxBatch) -> dict[str, object]:
        pending = batch.rows - batch.succeeded if batch.ended is None else 0
        stats = {
            "requestCount": batch.rows,
            "pendingRequestCount": pending,
            "successfulRequestCount": batch.succeeded,
            "failedRequestCount": batch.failed,
        }
        metadata: dict[str, object] = {
            "@type": _TYPE,
            "model": f"models/{batch.model}",
            "displayName": batch.echo["displayName"],
            "state": self.status(batch),
            "createTime": rfc3339(batch.created),
            "updateTime": rfc3339(batch.ended or self.engine.now()),
            "batchStats": {name: str(count) for name, count in _nonzero(stats).items()},
            "inputConfig": {"fileName": batch.input_id},
            "name": batch.id,
        }
        view: dict[str, object] = {"name": batch.id, "metadata": metadata}
        if batch.ended is None:
            return view
        metadata["endTime"] = rfc3339(batch.ended)
        if batch.phase != "completed":
            return {**view, "done": True, "error": _operation_error(batch)}
        metadata["output"] = {"responsesFile": batch.output_id}
        return {**view, "done": True, "response": metadata["output"]}


def _reasoning(thinking: Body) -> str | int | None:
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if level is not None and budget is not None:
        raise Rejection(400, "thinkingLevel and thinkingBudget cannot both be set")
    if level is not None:
        return of_kind(level, str, "thinkingLevel").lower()
    return None if budget is None else of_kind(budget, int, "thinkingBudget")


def _usage(reply: ModelReply) -> dict[str, int]:
    """Thoughts are counted apart from the candidates."""
    counts = {
        "promptTokenCount": reply.input_tokens,
        "cachedContentTokenCount": reply.cached_input_tokens,
        "candidatesTokenCount": reply.output_tokens - reply.reasoning_tokens,
        "thoughtsTokenCount": reply.reasoning_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
    return _nonzero(counts)


def _nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    """Zeros are left out, as proto JSON does."""
    return {name: count for name, count in counts.items() if count}


def _operation_error(batch: SandboxBatch) -> dict[str, object]:
    if batch.problem is not None:
        return {"code": 13, "message": batch.problem.message}
    return {"code": 1 if batch.phase == "cancelled" else 4, "message": f"The batch was {batch.phase}."}
