"""HTTP routes of the Gemini Developer API: resumable uploads, batch operations, downloads; v1 and v1beta alike."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import orjson
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.engine.dialect import Rejection
from layton_batch.sandbox.engine.execution import lines_of
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire import model_endpoints
from layton_batch.sandbox.wire.gateway import Endpoint, JsonReply, SandboxCall, Wire, rfc3339, save_upload
from layton_batch.sandbox.wire.gemini_rows import GeminiRows, error_body
from layton_batch.sandbox.wire.request_checks import as_list, as_object, as_text

_ME = "gemini"
_NAME = re.compile(r"files/[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_LONGEST_ID = 40
_FILE_BYTES = 2_000_000_000
_INLINE_BYTES = 20_000_000
_FILE_LIFE = 48 * 3600
_STATES = {
    "validating": "PENDING",
    "completed": "SUCCEEDED",
    "failed": "FAILED",
    "expired": "EXPIRED",
    "cancelled": "CANCELLED",
}
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"


class GeminiApi:
    """Files and batch operations."""

    def __init__(self, engine: SandboxEngine) -> None:
        self._engine = engine
        self._rows = GeminiRows()
        self._bytes = engine.config.limits.file_bytes or _FILE_BYTES
        engine.speak(self._rows)

    def wire(self) -> Wire:
        endpoints = []
        for version in ("v1", "v1beta"):
            at = f"/{version}"
            endpoints += [
                Endpoint("POST", f"/upload{at}/files", "upload", self.upload, keyless=True),
                Endpoint("GET", f"{at}/files/{{id}}:download", "results", self.download),
                Endpoint("GET", f"/download{at}/files/{{id}}:download", "results", self.download),
                Endpoint("GET", f"{at}/files", "list_files", self.list_files),
                Endpoint("GET", f"{at}/files/{{id}}", "file", self.get_file),
                Endpoint("DELETE", f"{at}/files/{{id}}", "delete", self.delete_file),
                Endpoint("POST", f"{at}/models/{{model}}:batchGenerateContent", "create", self.create),
                Endpoint("GET", f"{at}/models/{{model}}", "models", self.model),
                Endpoint("POST", f"{at}/batches/{{id}}:cancel", "cancel", self.cancel),
                Endpoint("GET", f"{at}/batches", "list", self.list_batches),
                Endpoint("GET", f"{at}/batches/{{id}}", "poll", lambda call: JsonReply(self._view(self._batch(call)))),
                Endpoint("DELETE", f"{at}/batches/{{id}}", "delete", self.delete_batch),
            ]
        return Wire(_ME, "/gemini", endpoints, error_body, _key, _no_key())

    def model(self, call: SandboxCall) -> Response:
        return JsonReply(model_endpoints.gemini_page(self._engine.config, call.params["model"]))

    def upload(self, call: SandboxCall) -> Response:
        command = call.headers.get("x-goog-upload-command", "")
        if command == "start" and call.headers.get("x-goog-upload-protocol") == "resumable":
            return self._start(call)
        if "upload_id" in call.query and "upload" in command:
            return self._part(call, final="finalize" in command)
        raise Rejection(400, "the upload needs the resumable protocol: start, then upload, then upload, finalize")

    def _start(self, call: SandboxCall) -> Response:
        """Only the start of an upload needs a key: the address it returns is the permission for the parts."""
        if not _key(call.headers, call.query):
            raise _no_key()
        wanted = as_object(call.json().get("file") or {}, "file")
        name = as_text(wanted.get("name") or new_id("files/", 6), "file.name")
        if _NAME.fullmatch(name) is None:
            message = "file.name must be files/ and up to 40 lowercase letters, digits or dashes, no dash at either end"
            raise Rejection(400, message)
        existing = self._engine.store.file(_ME, name)
        if existing is not None and existing.ready:
            raise Rejection(409, f"File {name} already exists.")
        mime = (
            call.headers.get("x-goog-upload-header-content-type") or wanted.get("mime_type") or wanted.get("mimeType")
        )
        now = self._engine.now()
        record = StoredFile(
            id=name,
            provider=_ME,
            name=call.headers.get("x-goog-upload-file-name", name),
            purpose="batch",
            created=now,
            size=0,
            sha256="",
            kind="input",
            mime=str(mime or "application/octet-stream"),
            display_name=str(wanted.get("display_name") or wanted.get("displayName") or ""),
            expires=now + _FILE_LIFE,
            ready=False,
        )
        self._engine.store.blob(_ME, name).unlink(missing_ok=True)
        self._engine.store.put_file(record)
        target = f"{call.root}{call.path}?upload_id={name.removeprefix('files/')}&upload_protocol=resumable"
        headers = {"x-goog-upload-url": target, "x-goog-upload-status": "active"}
        return JsonReply({}, headers=headers)

    def _part(self, call: SandboxCall, *, final: bool) -> Response:
        record = self._engine.store.file(_ME, f"files/{call.query['upload_id']}")
        if record is None or record.ready:
            raise Rejection(404, "no such upload is under way")
        path = self._engine.store.blob(_ME, record.id)
        have = path.stat().st_size if path.is_file() else 0
        if call.headers.get("x-goog-upload-offset") != str(have):
            raise Rejection(
                400, f"the upload stands at {have} bytes, not at {call.headers.get('x-goog-upload-offset')}"
            )
        size = save_upload(call.body, path)
        if size > self._bytes:
            raise Rejection(400, f"the file has more than the {self._bytes} bytes allowed")
        if not final:
            return JsonReply({}, headers={"x-goog-upload-status": "active"})
        with path.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        record = replace(record, size=size, sha256=digest, ready=True)
        self._engine.store.put_file(record)
        return JsonReply({"file": _file_view(call, record)}, headers={"x-goog-upload-status": "final"})

    def list_files(self, call: SandboxCall) -> Response:
        files = [f for f in self._engine.store.files(_ME) if f.kind == "input" and f.ready and f.mime]
        page, token = _page(call, [f.id for f in files], 10, 100)
        views = [_file_view(call, f) for f in files if f.id in page]
        return JsonReply({"files": views, **token})

    def get_file(self, call: SandboxCall) -> Response:
        return JsonReply(_file_view(call, self._input(call)))

    def delete_file(self, call: SandboxCall) -> Response:
        self._engine.store.drop_file(_ME, self._input(call).id)
        return JsonReply({})

    def _input(self, call: SandboxCall) -> StoredFile:
        name = call.params["id"]
        if len(name) > _LONGEST_ID:
            raise Rejection(400, f"File id {name} has more than {_LONGEST_ID} characters.")
        record = self._engine.store.file(_ME, f"files/{name}")
        if record is None or not record.ready:
            raise Rejection(403, f"You do not have permission to access the File {name} or it may not exist.")
        return record

    def download(self, call: SandboxCall) -> Response:
        name = f"files/{call.params['id']}"
        record = self._engine.store.file(_ME, name)
        if record is None:
            raise Rejection(404, f"File {name} not found.")
        if record.kind == "input":
            raise Rejection(400, f"File {name} was uploaded; only generated files can be downloaded.")
        return FileResponse(self._engine.store.blob(_ME, name), media_type="application/octet-stream")

    def create(self, call: SandboxCall) -> Response:
        wanted = as_object(call.json().get("batch"), "batch")
        source = as_object(_either(wanted, "inputConfig", "input_config"), "batch.inputConfig")
        name = _either(source, "fileName", "file_name")
        inline = name is None
        input_id = self._inline(call, source) if inline else as_text(name, "batch.inputConfig.fileName")
        batch = SandboxBatch(
            id=new_id("batches/", 18),
            provider=_ME,
            created=self._engine.now(),
            input_id=input_id,
            endpoint="generateContent",
            model=call.params["model"],
            echo={
                "displayName": as_text(_either(wanted, "displayName", "display_name") or "", "displayName"),
                "inline": inline,
            },
        )
        batch = replace(batch, rows=self._checked(batch))
        return JsonReply(self._view(self._engine.create(batch)))

    def _inline(self, call: SandboxCall, source: Mapping[str, object]) -> str:
        if call.body.tell() > _INLINE_BYTES:
            raise Rejection(400, f"inline requests may have {_INLINE_BYTES} bytes in all; use a file")
        requests = as_list(as_object(source.get("requests"), "requests").get("requests"), "requests.requests")
        rows = []
        for index, entry in enumerate(requests):
            item = as_object(entry, f"requests[{index}]")
            key = as_object(item.get("metadata") or {}, f"requests[{index}].metadata").get("key", "")
            rows.append({"key": str(key), "request": item.get("request")})
        input_id = new_id("files/inline-", 8)
        self._engine.store.save_bytes(_ME, input_id, (orjson.dumps(row) + b"\n" for row in rows))
        return input_id

    def _checked(self, batch: SandboxBatch) -> int:
        """One malformed row refuses the whole batch. Returns the number of rows."""
        record = self._engine.store.file(_ME, batch.input_id)
        path = self._engine.store.blob(_ME, batch.input_id)
        if not path.is_file() or (record is not None and not record.ready):
            raise Rejection(404, f"File {batch.input_id} not found.")
        number = 0
        for number, line in enumerate(lines_of(path), 1):
            try:
                self._check_row(orjson.loads(line), batch)
            except orjson.JSONDecodeError as error:
                raise Rejection(400, f"Line {number} of {batch.input_id} is not valid JSON: {error}") from error
            except Rejection as rejection:
                raise Rejection(400, f"Line {number} of {batch.input_id}: {rejection.message}") from rejection
        if not number:
            raise Rejection(400, f"{batch.input_id} has no requests.")
        return number

    def _check_row(self, row: object, batch: SandboxBatch) -> None:
        fields = as_object(row, "row")
        if not isinstance(fields.get("key"), str) or set(fields) - {"key", "request", "metadata"}:
            raise Rejection(400, "a row is an object with a string key and a request")
        self._rows.question({"request": None, **fields}, batch)

    def list_batches(self, call: SandboxCall) -> Response:
        batches = self._engine.everything(_ME)
        page, token = _page(call, [batch.id for batch in batches], 50, 100)
        return JsonReply({"operations": [self._view(batch) for batch in batches if batch.id in page], **token})

    def cancel(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        if batch.outcome is not None:
            raise Rejection(400, f"{batch.id} has ended and cannot be cancelled.", code="FAILED_PRECONDITION")
        self._engine.cancel(batch)
        return JsonReply({})

    def delete_batch(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        self._engine.store.drop_batch(_ME, batch.id)
        if batch.output_id:
            self._engine.store.drop_file(_ME, batch.output_id)
        return JsonReply({})

    def _batch(self, call: SandboxCall) -> SandboxBatch:
        batch = self._engine.current(_ME, f"batches/{call.params['id']}")
        if batch is None:
            raise Rejection(404, f"batches/{call.params['id']} not found.")
        return batch

    def _view(self, batch: SandboxBatch) -> dict[str, object]:
        phase = self._engine.phase(batch)
        state = f"BATCH_STATE_{_STATES.get(phase, 'RUNNING')}"
        if phase == "odd" and batch.fate is not None:
            state = batch.fate.name
        metadata: dict[str, object] = {
            "@type": _TYPE,
            "model": f"models/{batch.model}",
            "displayName": batch.echo["displayName"],
            "state": state,
            "createTime": rfc3339(batch.created),
            "updateTime": rfc3339(batch.ended or self._engine.now()),
            "batchStats": self._stats(batch),
            "inputConfig": {"requests": {}} if batch.echo["inline"] else {"fileName": batch.input_id},
            "name": batch.id,
        }
        view: dict[str, object] = {"name": batch.id, "metadata": metadata}
        if batch.outcome is None:
            return view
        metadata["endTime"] = rfc3339(batch.ended)
        view["done"] = True
        if batch.outcome != "completed":
            return {**view, "error": _operation_error(batch)}
        output = self._output(batch)
        metadata["output"] = output
        return {**view, "response": output}

    def _output(self, batch: SandboxBatch) -> dict[str, object]:
        if not batch.echo["inline"]:
            return {"responsesFile": batch.output_id}
        return {"inlinedResponses": {"inlinedResponses": list(self._inlined(batch))}}

    def _inlined(self, batch: SandboxBatch) -> Iterator[dict[str, object]]:
        for line in lines_of(self._engine.store.blob(_ME, batch.output_id)) if batch.output_id else ():
            row: dict[str, object] = orjson.loads(line)
            yield {
                **{name: row[name] for name in ("response", "error") if name in row},
                "metadata": {"key": row["key"]},
            }

    def _stats(self, batch: SandboxBatch) -> dict[str, str]:
        done = batch.succeeded + batch.failed
        pending = 0 if batch.outcome else batch.rows - self._engine.progress(batch)
        if batch.outcome is None:
            done = batch.rows - pending
        counts = {
            "requestCount": batch.rows,
            "pendingRequestCount": pending,
            "successfulRequestCount": done - batch.failed,
            "failedRequestCount": batch.failed,
        }
        return {name: str(count) for name, count in counts.items() if count}


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
    code = 1 if batch.outcome == "cancelled" else 4
    return {"code": code, "message": f"The batch was {batch.outcome}."}


def _page(call: SandboxCall, names: list[str], default: int, most: int) -> tuple[list[str], dict[str, str]]:
    size = call.number("pageSize", default, 1, most)
    token = call.query.get("pageToken", "")
    if token and token not in names:
        raise Rejection(400, f"pageToken {token!r} is not one of ours")
    start = names.index(token) if token else 0
    rest = names[start + size : start + size + 1]
    return names[start : start + size], {"nextPageToken": rest[0]} if rest else {}


def _either(body: Mapping[str, object], camel: str, snake: str) -> object:
    return body[camel] if camel in body else body.get(snake)


def _key(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    return headers.get("x-goog-api-key", "") or query.get("key", "")


def _no_key() -> Rejection:
    return Rejection(401, "Method doesn't allow unregistered callers. Please use API Key.")
