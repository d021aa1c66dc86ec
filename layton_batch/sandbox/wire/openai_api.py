"""HTTP routes of the OpenAI-shaped providers: OpenAI, Groq and Doubleword."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from starlette.responses import FileResponse, Response

from layton_batch.sandbox.engine.dialect import Rejection
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire import model_endpoints
from layton_batch.sandbox.wire.gateway import Endpoint, JsonReply, SandboxCall, Wire, bearer
from layton_batch.sandbox.wire.openai_rows import DialectRules, OpenAIRows, error_body
from layton_batch.sandbox.wire.request_checks import as_object, as_text, no_strangers, one_of

_DAY = 86400
_JSONL = "application/jsonl"
_CREATE = frozenset({"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"})
_STATUS = {"running": "in_progress"}

Thing = TypeVar("Thing", SandboxBatch, StoredFile)


class OpenAIApi:
    """Files and batches of one flavour."""

    def __init__(self, engine: SandboxEngine, flavour: DialectRules) -> None:
        self._engine = engine
        self._flavour = flavour
        self._provider = flavour.provider
        engine.speak(OpenAIRows(flavour, engine.config.limits))

    def wire(self) -> Wire:
        at = self._flavour.paths
        return Wire(
            provider=self._provider,
            prefix=self._flavour.prefix,
            endpoints=[
                Endpoint("POST", f"{at}/files", "upload", self.upload),
                Endpoint("GET", f"{at}/files", "list_files", self.list_files),
                Endpoint(
                    "GET", f"{at}/files/{{id}}", "file", lambda call: JsonReply(self._file_view(self._file(call)))
                ),
                Endpoint("DELETE", f"{at}/files/{{id}}", "delete", self.delete_file),
                Endpoint("GET", f"{at}/files/{{id}}/content", "results", self.content),
                Endpoint("POST", f"{at}/batches", "create", self.create),
                Endpoint("GET", f"{at}/batches", "list", self.list_batches),
                Endpoint("GET", f"{at}/batches/{{id}}", "poll", lambda call: JsonReply(self._view(self._batch(call)))),
                Endpoint("POST", f"{at}/batches/{{id}}/cancel", "cancel", self.cancel),
                Endpoint("GET", f"{at}/models", "models", self.models),
                Endpoint("GET", f"{at}/models/{{id:path}}", "models", self.model),
            ],
            refusal=error_body,
            key=bearer,
            no_key=Rejection(401, "You didn't provide an API key.", code="invalid_api_key"),
        )

    def models(self, _call: SandboxCall) -> Response:
        return JsonReply(model_endpoints.openai_list(self._engine.config, self._provider))

    def model(self, call: SandboxCall) -> Response:
        return JsonReply(model_endpoints.openai_page(self._engine.config, self._provider, call.params["id"]))

    def upload(self, call: SandboxCall) -> Response:
        if call.upload is None:
            raise Rejection(400, "Missing required parameter: 'file'.", code="missing_required_parameter", param="file")
        purpose = one_of(
            call.fields.get("purpose"), "purpose", ("batch", "assistants", "fine-tune", "vision", "user_data", "evals")
        )
        file_id = new_id("file_" if self._provider == "groq" else "file-")
        size, digest = self._engine.store.save_bytes(self._provider, file_id, call.upload.file)
        lifetime = call.fields.get("expires_after[seconds]", "")
        now = self._engine.now()
        record = StoredFile(
            id=file_id,
            provider=self._provider,
            name=call.upload.filename or "upload",
            purpose=purpose,
            created=now,
            size=size,
            sha256=digest,
            kind="input",
            expires=now + (int(lifetime) if lifetime.isdigit() else 30 * _DAY),
        )
        self._engine.store.put_file(record)
        return JsonReply(self._file_view(record))

    def list_files(self, call: SandboxCall) -> Response:
        purpose = call.query.get("purpose")
        files = [f for f in self._engine.store.files(self._provider) if f.ready and purpose in (None, f.purpose)]
        if call.query.get("order") == "asc":
            files.reverse()
        return self._page(call, files, 10_000, 10_000, self._file_view)

    def delete_file(self, call: SandboxCall) -> Response:
        record = self._file(call)
        self._engine.store.drop_file(self._provider, record.id)
        return JsonReply({"id": record.id, "object": "file", "deleted": True})

    def content(self, call: SandboxCall) -> Response:
        record = self._file(call)
        path = self._engine.store.blob(self._provider, record.id)
        if not self._flavour.early_output or record.kind != "output":
            return FileResponse(path, media_type=_JSONL)
        batch = self._engine.current(self._provider, record.batch_id)
        if batch is None:
            raise _missing("batch", record.batch_id)
        lines = batch.output_lines
        offset = call.number("offset", 0, 0, max(lines, 10**9))
        limit = call.number("limit", 10**9, 1, 10**9)
        last = min(offset + limit, lines)
        headers = {"X-Incomplete": "false" if batch.outcome else "true", "X-Last-Line": str(last)}
        if batch.outcome and offset == 0 and last == lines:
            return FileResponse(path, media_type=_JSONL, headers=headers)
        with path.open("rb") as rows:
            wanted = [line for number, line in zip(range(last), rows, strict=False) if number >= offset]
        return Response(b"".join(wanted), media_type=_JSONL, headers=headers)

    def create(self, call: SandboxCall) -> Response:
        body = call.json()
        no_strangers(body, _CREATE)
        for name in ("input_file_id", "endpoint", "completion_window"):
            if not body.get(name):
                raise Rejection(
                    400, f"Missing required parameter: '{name}'.", code="missing_required_parameter", param=name
                )
        record = self._engine.store.file(self._provider, as_text(body["input_file_id"], "input_file_id"))
        if record is None or record.purpose != "batch":
            message = f"No file with id {body['input_file_id']!r} and purpose 'batch' exists."
            raise Rejection(400, message, code="invalid_input_file", param="input_file_id")
        window = one_of(body["completion_window"], "completion_window", self._flavour.windows)
        batch = SandboxBatch(
            id=new_id("batch_"),
            provider=self._provider,
            created=self._engine.now(),
            input_id=record.id,
            endpoint=one_of(body["endpoint"], "endpoint", self._flavour.endpoints),
            model="",
            echo={"completion_window": window, "metadata": _metadata(body.get("metadata"))},
        )
        return JsonReply(self._view(self._engine.create(batch)))

    def list_batches(self, call: SandboxCall) -> Response:
        batches = self._engine.everything(self._provider)
        if self._provider == "groq":
            return self._groq_page(call, batches)
        return self._page(call, batches, 20, 100, self._view)

    def cancel(self, call: SandboxCall) -> Response:
        batch = self._batch(call)
        if batch.outcome is not None:
            message = f"Cannot cancel a batch with status '{batch.outcome}'."
            raise Rejection(400, message, code="invalid_request")
        return JsonReply(self._view(self._engine.cancel(batch)))

    def _page(
        self,
        call: SandboxCall,
        entries: Sequence[Thing],
        default: int,
        most: int,
        view: Callable[[Thing], dict[str, object]],
    ) -> Response:
        limit = call.number("limit", default, 1, most)
        start = _after(entries, call.query.get("after"))
        page = entries[start : start + limit]
        reply = {
            "object": "list",
            "data": [view(thing) for thing in page],
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
            "has_more": start + limit < len(entries),
        }
        return JsonReply(reply)

    def _groq_page(self, call: SandboxCall, batches: Sequence[SandboxBatch]) -> Response:
        """Groq pages by an opaque cursor and can be asked for certain ids."""
        wanted = {name for name in call.query.get("id", "").split(",") if name}
        chosen = [batch for batch in batches if not wanted or batch.id in wanted]
        start = _after(chosen, call.query.get("cursor"))
        page = chosen[start : start + 20]
        cursor = page[-1].id if start + 20 < len(chosen) else None
        return JsonReply({"object": "list", "data": [self._view(b) for b in page], "paging": {"next_cursor": cursor}})

    def _file(self, call: SandboxCall) -> StoredFile:
        record = self._engine.store.file(self._provider, call.params["id"])
        if record is None:
            raise _missing("File", call.params["id"])
        return record

    def _batch(self, call: SandboxCall) -> SandboxBatch:
        batch = self._engine.current(self._provider, call.params["id"])
        if batch is None:
            raise _missing("batch", call.params["id"])
        return batch

    def _file_view(self, record: StoredFile) -> dict[str, object]:
        return {
            "id": record.id,
            "object": "file",
            "bytes": record.size,
            "created_at": int(record.created),
            "expires_at": None if record.expires is None else int(record.expires),
            "filename": record.name,
            "purpose": record.purpose,
            "status": "processed",
            "status_details": None,
        }

    def _view(self, batch: SandboxBatch) -> dict[str, object]:
        phase = self._engine.phase(batch)
        status = batch.fate.name if phase == "odd" and batch.fate is not None else _STATUS.get(phase, phase)
        view: dict[str, object] = {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "input_file_id": batch.input_id,
            "output_file_id": batch.output_id if batch.outcome or self._flavour.early_output else None,
            "error_file_id": batch.error_id if batch.outcome else None,
            "status": status,
            "errors": self._errors(batch),
            "request_counts": self._counts(batch),
            "created_at": int(batch.created),
            "expires_at": int(batch.created) + _DAY,
            **batch.echo,
            **self._times(batch, phase),
        }
        for name in ("output_file_id", "error_file_id"):
            view[name] = view[name] or None
        return {**view, **self._usage(batch)} if self._flavour.usage else view

    def _counts(self, batch: SandboxBatch) -> dict[str, int]:
        if batch.outcome is None:
            return {"total": batch.rows, "completed": self._engine.progress(batch), "failed": 0}
        return {"total": batch.rows, "completed": batch.succeeded, "failed": batch.failed}

    def _errors(self, batch: SandboxBatch) -> object:
        if batch.problem is None or batch.outcome is None:
            return None
        problem = batch.problem
        data = [{"code": problem.code, "line": problem.line, "message": problem.message, "param": problem.param}]
        return data if self._flavour.bare_errors else {"object": "list", "data": data}

    def _times(self, batch: SandboxBatch, phase: str) -> dict[str, int | None]:
        started = self._engine.started(batch)
        running = batch.problem is None and (batch.outcome is not None or phase not in ("validating", "cancelling"))
        times: dict[str, int | None] = {
            "in_progress_at": int(started) if running else None,
            "finalizing_at": int(batch.ended) if batch.outcome == "completed" and batch.ended is not None else None,
            "cancelling_at": None if batch.cancel_asked is None else int(batch.cancel_asked),
        }
        for outcome in ("completed", "failed", "expired", "cancelled"):
            ended = batch.outcome == outcome and batch.ended is not None
            times[f"{outcome}_at"] = int(batch.ended or 0) if ended else None
        return times

    def _usage(self, batch: SandboxBatch) -> dict[str, object]:
        usage = batch.usage
        sums = {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_input_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        return {"model": batch.model or None, "usage": sums}


def _metadata(value: object) -> Mapping[str, object] | None:
    if value is None:
        return None
    pairs = as_object(value, "metadata")
    if len(pairs) > 16:
        raise Rejection(
            400, "Invalid 'metadata': at most 16 pairs are allowed.", code="invalid_value", param="metadata"
        )
    for name, text in pairs.items():
        if len(name) > 64 or not isinstance(text, str) or len(text) > 512:
            message = f"Invalid 'metadata.{name}': keys have up to 64, string values up to 512 characters."
            raise Rejection(400, message, code="invalid_value", param="metadata")
    return pairs


def _after(entries: Sequence[Thing], cursor: str | None) -> int:
    if not cursor:
        return 0
    for index, thing in enumerate(entries):
        if thing.id == cursor:
            return index + 1
    raise _missing("cursor", cursor)


def _missing(kind: str, name: str) -> Rejection:
    return Rejection(404, f"No such {kind}: {name}", param="id")
