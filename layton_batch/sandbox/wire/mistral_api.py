"""Mistral: files that are validated at upload, and batch jobs over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar
from uuid import UUID

import orjson
from starlette.responses import Response

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.execution import lines_of
from layton_batch.sandbox.engine.store import SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire.api import Endpoint, JsonReply, ProviderApi, SandboxCall
from layton_batch.sandbox.wire.openai_api import chat_question
from layton_batch.sandbox.wire.reading import Body, json_object, of_kind, required, section
from layton_batch.sandbox.wire.reply_bodies import chat_usage, completion, thinking_text

_CHAT = "/v1/chat/completions"
_SAMPLES = {"input": "batch_request", "output": "batch_result", "error": "batch_error"}
_LONGEST_HOURS = 168


class MistralApi(ProviderApi):
    """Files and batch jobs; failed rows go to a file of their own, rows that were never run are in neither."""

    provider = "mistral"
    prefix = "/mistral"
    error_file = True
    statuses: ClassVar[Mapping[str, str]] = {
        "validating": "QUEUED",
        "running": "RUNNING",
        "finalizing": "RUNNING",
        "cancelling": "CANCELLATION_REQUESTED",
        "completed": "SUCCESS",
        "failed": "FAILED",
        "expired": "TIMEOUT_EXCEEDED",
        "cancelled": "CANCELLED",
    }
    rows = 100_000
    file_bytes = 512_000_000
    no_key = Rejection(401, "Unauthorized")

    def endpoints(self) -> Sequence[Endpoint]:
        files, jobs = "/v1/files", "/v1/batch/jobs"
        return [
            Endpoint("POST", files, "upload", self.upload),
            Endpoint("GET", files, "list_files", self.list_files),
            Endpoint("GET", files + "/{id}", "file", lambda call: JsonReply(_file_view(self.file(call)))),
            Endpoint("DELETE", files + "/{id}", "delete", self.delete_file),
            Endpoint("GET", files + "/{id}/content", "results", self.content),
            Endpoint("GET", files + "/{id}/url", "file", self.signed_url),
            Endpoint("GET", "/signed/{id}", "results", self.content, keyless=True),
            Endpoint("POST", jobs, "create", self.create),
            Endpoint("GET", jobs, "list", self.list_jobs),
            Endpoint("GET", jobs + "/{id}", "poll", self.poll),
            Endpoint("DELETE", jobs + "/{id}", "delete", self.delete_batch),
            Endpoint("POST", jobs + "/{id}/cancel", "cancel", self.cancel),
            Endpoint("GET", "/v1/models/{id}", "models", self.model),
        ]

    def refusal(self, rejection: Rejection) -> Mapping[str, object]:
        """A list of details for 422, one message otherwise."""
        kind = "internal_server_error" if rejection.status >= 500 else "invalid_request_error"
        if rejection.status == 422:
            return {"detail": [{"type": "value_error", "loc": ["body", rejection.param], "msg": rejection.message}]}
        if rejection.status == 401:
            return {"detail": rejection.message}
        details = {"message": rejection.message, "type": kind, "param": rejection.param, "code": rejection.code}
        return {"object": "error", **details}

    def model(self, call: SandboxCall) -> Response:
        about: dict[str, object] = {
            "capabilities": {"completion_chat": True},
            "aliases": [],
            "deprecation": None,
            "type": "base",
        }
        return JsonReply({**self.model_view(self.known_model(call)), **about})

    def upload(self, call: SandboxCall) -> Response:
        record = self.uploaded(call, _new_uuid(), ("batch",))
        try:
            self.check_size(record.size, 413)
            lines = sum(1 for _ in self._validated(lines_of(self.store.blob(self.provider, record.id))))
        except Rejection:
            self.store.drop_file(self.provider, record.id)
            raise
        record = replace(record, lines=lines)
        self.store.put_file(record)
        return JsonReply(_file_view(record))

    def _validated(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Rows with a chat body; a missing or repeated custom_id is not this API's concern."""
        number = 0
        for number, line in enumerate(lines, 1):
            try:
                chat_question(self.provider, required(json_object(line, "the row"), "body", dict), "")
            except Rejection as refused:
                raise Rejection(422, f"line {number}: {refused.message}", param="file") from refused
            yield line + b"\n"
        if not number:
            raise Rejection(422, "the file is empty", param="file")

    def list_files(self, call: SandboxCall) -> Response:
        wanted = [(name, call.query[name]) for name in ("purpose", "sample_type", "source") if name in call.query]
        search = call.query.get("search", "")
        views = [_file_view(file) for file in self.store.files(self.provider) if search in file.name]
        return _page(call, [view for view in views if all(view[name] == value for name, value in wanted)])

    def signed_url(self, call: SandboxCall) -> Response:
        return JsonReply({"url": f"{call.root}/mistral/signed/{self.file(call).id}"})

    def create(self, call: SandboxCall) -> Response:
        body = call.json()
        try:
            batch = self._batch_of(body)
        except Rejection as refused:
            status = 422 if refused.status == 400 else refused.status
            raise Rejection(status, refused.message, code=refused.code, param=refused.param) from refused
        return JsonReply(self.view(call, self.engine.create(batch)))

    def _batch_of(self, body: Body) -> SandboxBatch:
        if body.get("endpoint") != _CHAT:
            raise Rejection(400, f"the sandbox serves the endpoint {_CHAT}", param="endpoint")
        if not 0 < of_kind(body.get("timeout_hours", 24), int, "timeout_hours") <= _LONGEST_HOURS:
            raise Rejection(400, f"timeout_hours is 1 to {_LONGEST_HOURS}", param="timeout_hours")
        names = [of_kind(name, str, "input_files") for name in of_kind(body.get("input_files") or [], list, "files")]
        job_id = _new_uuid()
        return SandboxBatch(
            id=job_id,
            provider=self.provider,
            created=self.engine.now(),
            input_id=self._input(job_id, names, body),
            endpoint=_CHAT,
            model=required(body, "model", str),
            echo={"input_files": names, "metadata": section(body, "metadata") or None},
        )

    def _input(self, job_id: str, names: Sequence[str], body: Body) -> str:
        """The one stored file the job reads: the uploaded one, or what several files or inline requests come to."""
        for name in names:
            if self.store.file(self.provider, name) is None:
                raise Rejection(404, f"File {name} not found", param="input_files")
        if len(names) == 1:
            return names[0]
        merged = f"merged-{job_id}"
        lines = (line for name in names for line in lines_of(self.store.blob(self.provider, name)))
        inline = [] if names else required(body, "requests", list)
        self.store.save_bytes(self.provider, merged, self._validated(lines if names else map(orjson.dumps, inline)))
        return merged

    def list_jobs(self, call: SandboxCall) -> Response:
        after = _moment(call.query.get("created_after"))
        statuses = {word for text in call.query.getlist("status") for word in text.split(",")}
        model = call.query.get("model")
        batches = [
            batch
            for batch in self.engine.everything(self.provider)
            if batch.created > after
            and model in (None, batch.model)
            and (not statuses or self.status(batch) in statuses)
        ]
        if call.query.get("order_by") == "created":
            batches.reverse()
        return _page(call, [self.view(call, batch) for batch in batches])

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        body = required(row, "body", dict)
        if body.get("model") not in (None, batch.model):
            message = f"the job's model is {batch.model}, this row asks for {body['model']}"
            raise Rejection(400, message, code="invalid_model")
        return chat_question(self.provider, body, self.key(row), batch.model)

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        content: object = reply.text
        if reply.reasoning_tokens and question.reasoning not in (None, "none"):
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": thinking_text(reply)}], "closed": True}
            content = [thought, {"type": "text", "text": reply.text}]
        usage = chat_usage(reply)
        del usage["completion_tokens_details"]
        message = {"content": content, "tool_calls": None, "prefix": False}
        return _line(question.custom_id, 200, completion(question, reply, message, usage))

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return _line(key, rejection.status, orjson.dumps(self.refusal(rejection)).decode())

    def output_ids(self) -> tuple[str, str]:
        return _new_uuid(), _new_uuid()

    def poll(self, call: SandboxCall) -> Response:
        batch = self.batch(call)
        view = self.view(call, batch)
        if call.query.get("inline", "").lower() == "true" and batch.outcome is not None:
            names = [name for name in (batch.output_id, batch.error_id) if name]
            lines = [line for name in names for line in lines_of(self.store.blob(self.provider, name))]
            view["outputs"] = [orjson.Fragment(line) for line in lines]
        return JsonReply(view)

    def view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        ended = batch.outcome is not None
        good = batch.succeeded if ended else self.engine.progress(batch)
        errors = [{"message": batch.problem.message, "count": 1}] if batch.problem is not None and ended else []
        if batch.failed:
            errors.append({"message": "some requests failed; see the error file", "count": batch.failed})
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "model": batch.model,
            "agent_id": None,
            **batch.echo,
            "status": self.status(batch),
            "errors": errors,
            "created_at": int(batch.created),
            "started_at": int(self.engine.started(batch)) if self.engine.phase(batch) != "validating" else None,
            "completed_at": None if batch.ended is None else int(batch.ended),
            "total_requests": batch.rows,
            "completed_requests": good + batch.failed,
            "succeeded_requests": good,
            "failed_requests": batch.failed,
            "output_file": (batch.output_id or None) if ended else None,
            "error_file": (batch.error_id or None) if ended else None,
            "outputs": None,
        }


def _new_uuid() -> str:
    return str(UUID(new_id("", 16)))


def _line(key: str, status: int, body: object) -> dict[str, object]:
    response = {"status_code": status, "body": body}
    return {"id": new_id("batch-"), "custom_id": key or None, "response": response, "error": None}


def _moment(text: str | None) -> float:
    if not text:
        return float("-inf")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise Rejection(422, f"created_after: {error}", param="created_after") from error


def _page(call: SandboxCall, views: list[dict[str, object]]) -> Response:
    size = call.number("page_size", 100, 1, 1000)
    start = call.number("page", 0, 0, 10**6) * size
    return JsonReply({"object": "list", "data": views[start : start + size], "total": len(views)})


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
