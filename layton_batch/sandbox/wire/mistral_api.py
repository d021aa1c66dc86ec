"""HTTP routes of Mistral: files that are validated at upload, and batch jobs over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import orjson
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.engine.dialect import Rejection
from layton_batch.sandbox.engine.execution import lines_of
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import SandboxBatch, StoredFile
from layton_batch.sandbox.wire import model_endpoints
from layton_batch.sandbox.wire.chat_rows import chat_question
from layton_batch.sandbox.wire.gateway import Endpoint, JsonReply, SandboxCall, Wire, bearer
from layton_batch.sandbox.wire.mistral_rows import RULES, MistralRows, error_body, new_uuid
from layton_batch.sandbox.wire.request_checks import as_count, as_list, as_object, as_text, no_strangers

_ME = "mistral"
_CREATE = frozenset({"input_files", "requests", "endpoint", "model", "agent_id", "metadata", "timeout_hours"})
_STATUS = {
    "validating": "QUEUED",
    "cancelling": "CANCELLATION_REQUESTED",
    "completed": "SUCCESS",
    "failed": "FAILED",
    "expired": "TIMEOUT_EXCEEDED",
    "cancelled": "CANCELLED",
}
_SAMPLES = {"input": "batch_request", "output": "batch_result", "error": "batch_error"}
_LONGEST_HOURS = 168


class MistralApi:
    """Files and batch jobs."""

    def __init__(self, engine: SandboxEngine) -> None:
        self._engine = engine
        self._bytes = engine.config.limits.file_bytes or 512_000_000
        engine.speak(MistralRows(engine.config.limits))

    def wire(self) -> Wire:
        files, jobs = "/v1/files", "/v1/batch/jobs"
        endpoints = [
            Endpoint("POST", files, "upload", self.upload),
            Endpoint("GET", files, "list_files", self.list_files),
            Endpoint("GET", files + "/{id}", "file", lambda call: JsonReply(_file_view(self._file(call)))),
            Endpoint("DELETE", files + "/{id}", "delete", self.delete_file),
            Endpoint("GET", files + "/{id}/content", "results", self.content),
            Endpoint("GET", files + "/{id}/url", "file", self.signed_url),
            Endpoint("GET", "/signed/{id}", "results", self.content, keyless=True),
            Endpoint("POST", jobs, "create", self.create),
            Endpoint("GET", jobs, "list", self.list_jobs),
            Endpoint("GET", jobs + "/{id}", "poll", self.job),
            Endpoint("DELETE", jobs + "/{id}", "delete", self.delete_job),
            Endpoint("POST", jobs + "/{id}/cancel", "cancel", self.cancel),
            Endpoint("GET", "/v1/models/{id}", "models", self.model),
        ]
        return Wire(_ME, "/mistral", endpoints, error_body, bearer, Rejection(401, "Unauthorized"))

    def model(self, call: SandboxCall) -> Response:
        return JsonReply(model_endpoints.mistral_page(self._engine.config, call.params["id"]))

    def upload(self, call: SandboxCall) -> Response:
        if call.upload is None or call.fields.get("purpose", "fine-tune") != "batch":
            raise Rejection(422, "the sandbox stores files with purpose 'batch'", param="purpose")
        file_id = new_uuid()
        size, digest = self._engine.store.save_bytes(_ME, file_id, call.upload.file)
        try:
            lines = self._validated(file_id, size)
        except Rejection:
            self._engine.store.drop_file(_ME, file_id)
            raise
        record = StoredFile(
            id=file_id,
            provider=_ME,
            name=call.upload.filename or "upload.jsonl",
            purpose="batch",
            created=self._engine.now(),
            size=size,
            sha256=digest,
            kind="input",
            lines=lines,
        )
        self._engine.store.put_file(record)
        return JsonReply(_file_view(record))

    def _validated(self, file_id: str, size: int) -> int:
        if size > self._bytes:
            raise Rejection(413, f"the file has more than the {self._bytes} bytes allowed")
        number = 0
        for number, line in enumerate(lines_of(self._engine.store.blob(_ME, file_id)), 1):
            try:
                _validate(orjson.loads(line))
            except orjson.JSONDecodeError as error:
                raise Rejection(
                    422, f"line {number}: invalid JSON: {error}", code="json_invalid", param="file"
                ) from error
            except Rejection as refused:
                raise Rejection(
                    422, f"line {number}: {refused.message}", code=refused.code, param=refused.param
                ) from refused
        if not number:
            raise Rejection(422, "the file is empty", param="file")
        return number

    def list_files(self, call: SandboxCall) -> Response:
        wanted = [(name, call.query[name]) for name in ("purpose", "sample_type", "source") if name in call.query]
        search = call.query.get("search", "")
        views = [_file_view(file) for file in self._engine.store.files(_ME) if search in file.name]
        views = [view for view in views if all(view[name] == value for name, value in wanted)]
        return JsonReply({"object": "list", "data": _page(call, views), "total": len(views)})

    def delete_file(self, call: SandboxCall) -> Response:
        record = self._file(call)
        self._engine.store.drop_file(_ME, record.id)
        return JsonReply({"id": record.id, "object": "file", "deleted": True})

    def content(self, call: SandboxCall) -> Response:
        return FileResponse(self._engine.store.blob(_ME, self._file(call).id), media_type="application/octet-stream")

    def signed_url(self, call: SandboxCall) -> Response:
        return JsonReply({"url": f"{call.root}/mistral/signed/{self._file(call).id}"})

    def create(self, call: SandboxCall) -> Response:
        body = call.json()
        try:
            batch = self._batch_of(body)
        except Rejection as refused:
            status = 422 if refused.status == 400 else refused.status
            raise Rejection(status, refused.message, code=refused.code, param=refused.param) from refused
        return JsonReply(self._view(self._engine.create(batch)))

    def _batch_of(self, body: dict[str, object]) -> SandboxBatch:
        no_strangers(body, _CREATE)
        if body.get("endpoint") != "/v1/chat/completions":
            raise Rejection(400, "the sandbox serves the endpoint /v1/chat/completions", param="endpoint")
        hours = as_count(body.get("timeout_hours", 24), "timeout_hours")
        if hours > _LONGEST_HOURS:
            raise Rejection(400, f"timeout_hours is at most {_LONGEST_HOURS}", param="timeout_hours")
        metadata = body.get("metadata")
        names = [as_text(name, "input_files") for name in as_list(body.get("input_files") or [], "input_files")]
        if bool(names) == bool(body.get("requests")):
            raise Rejection(400, "give either input_files or requests", param="input_files")
        job_id = new_uuid()
        return SandboxBatch(
            id=job_id,
            provider=_ME,
            created=self._engine.now(),
            input_id=self._input(job_id, names, body.get("requests")),
            endpoint="/v1/chat/completions",
            model=as_text(body.get("model"), "model"),
            echo={"input_files": names, "metadata": None if metadata is None else as_object(metadata, "metadata")},
        )

    def _input(self, job_id: str, names: Sequence[str], requests: object) -> str:
        """The one stored file the job reads: the uploaded one, or what several files or inline requests come to."""
        for name in names:
            if self._engine.store.file(_ME, name) is None:
                raise Rejection(404, f"File {name} not found", param="input_files")
        if len(names) == 1:
            return names[0]
        merged = f"merged-{job_id}"
        lines = self._inline(requests) if not names else self._merged(names)
        self._engine.store.save_bytes(_ME, merged, lines)
        return merged

    def _inline(self, requests: object) -> Iterator[bytes]:
        for row in as_list(requests, "requests"):
            _validate(row)
            yield orjson.dumps(row) + b"\n"

    def _merged(self, names: Sequence[str]) -> Iterator[bytes]:
        for name in names:
            for line in lines_of(self._engine.store.blob(_ME, name)):
                yield line + b"\n"

    def list_jobs(self, call: SandboxCall) -> Response:
        after = _moment(call.query.get("created_after"))
        statuses = {word for text in call.query.getlist("status") for word in text.split(",")}
        model = call.query.get("model")
        batches = [
            batch for batch in self._engine.everything(_ME) if batch.created > after and model in (None, batch.model)
        ]
        if call.query.get("order_by") == "created":
            batches.reverse()
        views = [view for view in map(self._view, batches) if not statuses or view["status"] in statuses]
        return JsonReply({"object": "list", "data": _page(call, views), "total": len(views)})

    def job(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        view = self._view(batch)
        if call.query.get("inline", "").lower() == "true" and batch.outcome is not None:
            names = [name for name in (batch.output_id, batch.error_id) if name]
            view["outputs"] = [_loaded(line) for name in names for line in lines_of(self._engine.store.blob(_ME, name))]
        return JsonReply(view)

    def cancel(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        if batch.outcome is not None:
            raise Rejection(400, f"Job {batch.id} has ended and cannot be cancelled")
        return JsonReply(self._view(self._engine.cancel(batch)))

    def delete_job(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        self._engine.store.drop_batch(_ME, batch.id)
        return JsonReply({"id": batch.id, "object": "batch", "deleted": True})

    def _file(self, call: SandboxCall) -> StoredFile:
        record = self._engine.store.file(_ME, call.params["id"])
        if record is None:
            raise Rejection(404, f"No file matches the given query: {call.params['id']}")
        return record

    def _batch(self, call: SandboxCall) -> SandboxBatch:
        batch = self._engine.current(_ME, call.params["id"])
        if batch is None:
            raise Rejection(404, f"Job {call.params['id']} not found")
        return batch

    def _view(self, batch: SandboxBatch) -> dict[str, object]:
        phase = self._engine.phase(batch)
        odd = batch.fate.name if phase == "odd" and batch.fate is not None else None
        done = self._engine.progress(batch)
        good = batch.succeeded if batch.outcome else done
        errors = [{"message": batch.problem.message, "count": 1}] if batch.problem is not None and batch.outcome else []
        if batch.failed:
            errors.append({"message": "some requests failed; see the error file", "count": batch.failed})
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "model": batch.model,
            "agent_id": None,
            **batch.echo,
            "status": odd or _STATUS.get(phase, "RUNNING"),
            "errors": errors,
            "created_at": int(batch.created),
            "started_at": int(self._engine.started(batch)) if phase != "validating" else None,
            "completed_at": None if batch.ended is None else int(batch.ended),
            "total_requests": batch.rows,
            "completed_requests": good + batch.failed,
            "succeeded_requests": good,
            "failed_requests": batch.failed,
            "output_file": (batch.output_id or None) if batch.outcome else None,
            "error_file": (batch.error_id or None) if batch.outcome else None,
            "outputs": None,
        }


def _validate(row: object) -> None:
    """A row must be an object with a chat body; a missing or repeated custom_id is not this API's concern."""
    body = as_object(as_object(row, "row").get("body"), "body")
    chat_question(body, RULES, "", "any-model")


def _loaded(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # an injected half line
        return {"custom_id": None, "response": None, "error": {"message": "unreadable"}}


def _moment(text: str | None) -> float:
    if not text:
        return float("-inf")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise Rejection(422, f"created_after: {error}", param="created_after") from error


def _page(call: SandboxCall, views: list[dict[str, object]]) -> list[dict[str, object]]:
    size = call.number("page_size", 100, 1, 1000)
    start = call.number("page", 0, 0, 10**6) * size
    return views[start : start + size]


def _file_view(record: StoredFile) -> dict[str, object]:
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.size,
        "created_at": int(record.created),
        "filename": record.name,
        "purpose": "batch",
        "sample_type": _SAMPLES[record.kind],
        "source": "upload" if record.kind == "input" else "mistral",
        "num_lines": record.lines,
        "expires_at": None,
        "deleted": False,
    }
