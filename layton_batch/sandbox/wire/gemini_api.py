"""The Gemini Developer API: resumable uploads, batch operations, downloads; v1 and v1beta alike, in camelCase."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import orjson
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.execution import lines_of
from layton_batch.sandbox.engine.store import BatchRefusal, SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire.api import Endpoint, JsonReply, ProviderApi, SandboxCall, page, rfc3339
from layton_batch.sandbox.wire.reading import Body, conversation, json_object, of_kind, output_limit, required, section
from layton_batch.sandbox.wire.reply_bodies import thinking_text

_NAME = re.compile(r"files/[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_LONGEST_ID = 40
_INLINE_BYTES = 20_000_000
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
    partial = False
    batch_prefix = "batches/"
    file_prefix = "files/"
    statuses: ClassVar[Mapping[str, str]] = {
        phase: f"BATCH_STATE_{word}"
        for phase, word in {
            "validating": "PENDING",
            "running": "RUNNING",
            "finalizing": "RUNNING",
            "cancelling": "RUNNING",
            "completed": "SUCCEEDED",
            "failed": "FAILED",
            "expired": "EXPIRED",
            "cancelled": "CANCELLED",
        }.items()
    }
    file_bytes = 2_000_000_000
    no_key = Rejection(401, "Method doesn't allow unregistered callers. Please use API Key.")

    def endpoints(self) -> Sequence[Endpoint]:
        endpoints = []
        for at in ("/v1", "/v1beta"):
            endpoints += [
                Endpoint("POST", f"/upload{at}/files", "upload", self.upload, keyless=True),
                Endpoint("GET", f"{at}/files/{{id}}:download", "results", self.download),
                Endpoint("GET", f"/download{at}/files/{{id}}:download", "results", self.download),
                Endpoint("GET", f"{at}/files", "list_files", self.list_files),
                Endpoint("GET", f"{at}/files/{{id}}", "file", self.file_page),
                Endpoint("DELETE", f"{at}/files/{{id}}", "delete", self.delete_file),
                Endpoint("POST", f"{at}/models/{{id}}:batchGenerateContent", "create", self.create),
                Endpoint("GET", f"{at}/models/{{id}}", "models", self.model),
                Endpoint("POST", f"{at}/batches/{{id}}:cancel", "cancel", self.cancel),
                Endpoint("GET", f"{at}/batches", "list", self.list_batches),
                Endpoint("GET", f"{at}/batches/{{id}}", "poll", self.poll),
                Endpoint("DELETE", f"{at}/batches/{{id}}", "delete", self.delete_batch),
            ]
        return endpoints

    def caller_key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return headers.get("x-goog-api-key", "") or query.get("key", "")

    def refusal(self, rejection: Rejection) -> Mapping[str, object]:
        own = rejection.code if rejection.code is not None and rejection.code.isupper() else None
        other = "INTERNAL" if rejection.status >= 500 else "FAILED_PRECONDITION"
        status = own or _ERRORS.get(rejection.status, other)
        return {"error": {"code": rejection.status, "message": rejection.message, "status": status}}

    def model(self, call: SandboxCall) -> Response:
        model = self.known_model(call, "NOT_FOUND")
        methods = ["generateContent", "countTokens", "batchGenerateContent"]
        return JsonReply({"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": methods})

    def upload(self, call: SandboxCall) -> Response:
        """Only the start of an upload needs a key: the address it returns is the permission for the parts."""
        command = call.headers.get("x-goog-upload-command", "")
        if command == "start":
            if not self.caller_key(call.headers, call.query):
                raise self.no_key
            return self._start(call)
        if "upload_id" in call.query and "upload" in command:
            return self._part(call, final="finalize" in command)
        raise Rejection(400, "the upload needs the resumable protocol: start, then upload, then upload, finalize")

    def _start(self, call: SandboxCall) -> Response:
        wanted = section(call.json(), "file")
        name = of_kind(wanted.get("name") or new_id("files/", 6), str, "file.name")
        if _NAME.fullmatch(name) is None:
            message = "file.name must be files/ and up to 40 lowercase letters, digits or dashes, no dash at either end"
            raise Rejection(400, message)
        existing = self.store.file(self.provider, name)
        if existing is not None and existing.ready:
            raise Rejection(409, f"File {name} already exists.")
        mime = call.headers.get("x-goog-upload-header-content-type") or _either(wanted, "mimeType", "mime_type")
        now = self.engine.now()
        record = StoredFile(
            id=name,
            provider=self.provider,
            name=call.headers.get("x-goog-upload-file-name", name),
            purpose="batch",
            created=now,
            size=0,
            sha256="",
            kind="input",
            mime=str(mime or "application/octet-stream"),
            display_name=str(_either(wanted, "displayName", "display_name") or ""),
            expires=now + _FILE_LIFE,
            ready=False,
        )
        self.store.blob(self.provider, name).unlink(missing_ok=True)
        self.store.put_file(record)
        target = f"{call.root}{call.path}?upload_id={name.removeprefix('files/')}&upload_protocol=resumable"
        return JsonReply({}, headers={"x-goog-upload-url": target, "x-goog-upload-status": "active"})

    def _part(self, call: SandboxCall, *, final: bool) -> Response:
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
        with path.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        record = replace(record, size=size, sha256=digest, ready=True)
        self.store.put_file(record)
        return JsonReply({"file": _file_view(call, record)}, headers={"x-goog-upload-status": "final"})

    def list_files(self, call: SandboxCall) -> Response:
        files = [file for file in self.store.files(self.provider) if file.ready and file.mime]
        shown, more = page(files, call.number("pageSize", 10, 1, 100), call.query.get("pageToken"))
        token = {"nextPageToken": shown[-1].id} if more else {}
        return JsonReply({"files": [_file_view(call, file) for file in shown], **token})

    def file_page(self, call: SandboxCall) -> Response:
        return JsonReply(_file_view(call, self.file(call)))

    def file(self, call: SandboxCall) -> StoredFile:
        name = call.params["id"]
        if len(name) > _LONGEST_ID:
            raise Rejection(400, f"File id {name} has more than {_LONGEST_ID} characters.")
        record = self.store.file(self.provider, f"files/{name}")
        if record is None or not record.ready:
            raise Rejection(403, f"You do not have permission to access the File {name} or it may not exist.")
        return record

    def download(self, call: SandboxCall) -> Response:
        name = f"files/{call.params['id']}"
        record = self.store.file(self.provider, name)
        if record is None or record.kind == "input":
            raise Rejection(404, f"File {name} not found; only generated files can be downloaded.")
        return FileResponse(self.store.blob(self.provider, name), media_type="application/octet-stream")

    def create(self, call: SandboxCall) -> Response:
        wanted = required(call.json(), "batch", dict)
        source = of_kind(_either(wanted, "inputConfig", "input_config"), dict, "batch.inputConfig")
        name = _either(source, "fileName", "file_name")
        inline = name is None
        batch = SandboxBatch(
            id=new_id("batches/", 18),
            provider=self.provider,
            created=self.engine.now(),
            input_id=self._inline(call, source) if inline else of_kind(name, str, "batch.inputConfig.fileName"),
            endpoint="generateContent",
            model=call.params["id"],
            echo={"displayName": str(_either(wanted, "displayName", "display_name") or ""), "inline": inline},
        )
        batch = replace(batch, rows=self._checked(batch))
        return JsonReply(self.view(call, self.engine.create(batch)))

    def _inline(self, call: SandboxCall, source: Body) -> str:
        if call.body.tell() > _INLINE_BYTES:
            raise Rejection(400, f"inline requests may have {_INLINE_BYTES} bytes in all; use a file")
        rows = []
        for entry in required(section(source, "requests"), "requests", list):
            item = of_kind(entry, dict, "requests")
            rows.append({"key": str(section(item, "metadata").get("key", "")), "request": item.get("request")})
        input_id = new_id("files/inline-", 8)
        self.store.save_bytes(self.provider, input_id, (orjson.dumps(row) + b"\n" for row in rows))
        return input_id

    def _checked(self, batch: SandboxBatch) -> int:
        """One malformed row refuses the whole batch. Returns the number of rows."""
        record = self.store.file(self.provider, batch.input_id)
        path = self.store.blob(self.provider, batch.input_id)
        if not path.is_file() or (record is not None and not record.ready):
            raise Rejection(404, f"File {batch.input_id} not found.")
        number = 0
        for number, line in enumerate(lines_of(path), 1):
            try:
                row = json_object(line, "the row")
                of_kind(row.get("key"), str, "key")
                self.question(row, batch)
            except Rejection as rejection:
                raise Rejection(400, f"Line {number} of {batch.input_id}: {rejection.message}") from rejection
        if not number:
            raise Rejection(400, f"{batch.input_id} has no requests.")
        return number

    def list_batches(self, call: SandboxCall) -> Response:
        batches = self.engine.everything(self.provider)
        shown, more = page(batches, call.number("pageSize", 50, 1, 100), call.query.get("pageToken"))
        token = {"nextPageToken": shown[-1].id} if more else {}
        return JsonReply({"operations": [self.view(call, batch) for batch in shown], **token})

    def cancel(self, call: SandboxCall) -> Response:
        super().cancel(call)
        return JsonReply({})

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Every row was checked when the batch was created."""
        return batch.rows, "", None

    def key(self, row: Row) -> str:
        return str(row["key"])

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        request = required(row, "request", dict)
        config = section(request, "generationConfig")
        instructions = section(request, "systemInstruction").get("parts")
        prompt = conversation(required(request, "contents", list), instructions, content="parts")
        schema = config.get("responseJsonSchema") or config.get("responseSchema")
        if schema is not None and config.get("responseMimeType") != "application/json":
            raise Rejection(400, "a response schema needs responseMimeType application/json")
        return Question(
            provider=self.provider,
            model=batch.model,
            system=prompt.system,
            text=prompt.text,
            images=prompt.images,
            schema=None if schema is None else of_kind(schema, dict, "responseJsonSchema"),
            reasoning=_reasoning(section(config, "thinkingConfig")),
            max_output_tokens=output_limit(config, "maxOutputTokens"),
            custom_id=str(row["key"]),
        )

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        response: dict[str, object] = {
            "usageMetadata": _usage(reply),
            "modelVersion": question.model,
            "responseId": new_id(""),
        }
        if reply.finish == "refusal" and not reply.output_tokens:
            response["promptFeedback"] = {"blockReason": "PROHIBITED_CONTENT"}
            return {"key": question.custom_id, "response": response}
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

    def output_ids(self) -> tuple[str, str]:
        return new_id("files/batch-", 18), new_id("files/unused-", 18)

    def view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        metadata: dict[str, object] = {
            "@type": _TYPE,
            "model": f"models/{batch.model}",
            "displayName": batch.echo["displayName"],
            "state": self.status(batch),
            "createTime": rfc3339(batch.created),
            "updateTime": rfc3339(batch.ended or self.engine.now()),
            "batchStats": self._stats(batch),
            "inputConfig": {"requests": {}} if batch.echo["inline"] else {"fileName": batch.input_id},
            "name": batch.id,
        }
        view: dict[str, object] = {"name": batch.id, "metadata": metadata}
        if batch.outcome is None:
            return view
        metadata["endTime"] = rfc3339(batch.ended)
        if batch.outcome != "completed":
            return {**view, "done": True, "error": _operation_error(batch)}
        metadata["output"] = self._output(batch)
        return {**view, "done": True, "response": metadata["output"]}

    def _output(self, batch: SandboxBatch) -> dict[str, object]:
        if not batch.echo["inline"]:
            return {"responsesFile": batch.output_id}
        lines = lines_of(self.store.blob(self.provider, batch.output_id)) if batch.output_id else ()
        rows = [orjson.loads(line) for line in lines]
        return {
            "inlinedResponses": {"inlinedResponses": [{"metadata": {"key": row.pop("key")}, **row} for row in rows]}
        }

    def _stats(self, batch: SandboxBatch) -> dict[str, str]:
        """Counts as strings; zeros are left out, as proto JSON does."""
        pending = 0 if batch.outcome else batch.rows - self.engine.progress(batch)
        done = batch.succeeded if batch.outcome else batch.rows - pending
        counts = {
            "requestCount": batch.rows,
            "pendingRequestCount": pending,
            "successfulRequestCount": done,
            "failedRequestCount": batch.failed,
        }
        return {name: str(count) for name, count in counts.items() if count}


def _reasoning(thinking: Body) -> str | int | None:
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if level is not None and budget is not None:
        raise Rejection(400, "thinkingLevel and thinkingBudget cannot both be set")
    if level is not None:
        return of_kind(level, str, "thinkingLevel").lower()
    return None if budget is None else of_kind(budget, int, "thinkingBudget")


def _usage(reply: ModelReply) -> dict[str, int]:
    """Thoughts are counted apart from the candidates; zero counts are left out, as proto JSON does."""
    counts = {
        "promptTokenCount": reply.input_tokens,
        "cachedContentTokenCount": reply.cached_input_tokens,
        "candidatesTokenCount": reply.output_tokens - reply.reasoning_tokens,
        "thoughtsTokenCount": reply.reasoning_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
    return {name: count for name, count in counts.items() if count}


def _file_view(call: SandboxCall, record: StoredFile) -> dict[str, object]:
    view: dict[str, object] = {
        "name": record.id,
        "mimeType": record.mime,
        "sizeBytes": str(record.size),
        "createTime": rfc3339(record.created),
        "updateTime": rfc3339(record.created),
        "expirationTime": rfc3339(record.expires),
        "sha256Hash": base64.b64encode(record.sha256.encode()).decode(),
        "uri": f"{call.root}/gemini/v1beta/{record.id}",
        "state": "ACTIVE",
        "source": "UPLOADED",
    }
    return {**view, "displayName": record.display_name} if record.display_name else view


def _operation_error(batch: SandboxBatch) -> dict[str, object]:
    if batch.problem is not None:
        return {"code": 13, "message": batch.problem.message}
    return {"code": 1 if batch.outcome == "cancelled" else 4, "message": f"The batch was {batch.outcome}."}


def _either(body: Body, camel: str, snake: str) -> object:
    return body[camel] if camel in body else body.get(snake)
