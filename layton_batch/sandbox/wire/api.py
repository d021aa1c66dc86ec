"""One provider's API as the server sees it: its routes, how it reads and writes rows, and what most of them share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, ClassVar, TypeVar

import orjson
from starlette.datastructures import QueryParams, UploadFile
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.answerers.profiles import bundled_profiles
from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import BatchRefusal, Outcome, SandboxBatch, StoredFile
from layton_batch.sandbox.wire.reading import Body, json_object

DAY = 86_400
MODELS_CREATED = 1_760_000_000
Stored = TypeVar("Stored", SandboxBatch, StoredFile)


@dataclass(frozen=True, slots=True)
class SandboxCall:
    """One request as a handler sees it. `root` is scheme and host; `body` is at its start."""

    path: str
    root: str
    params: Mapping[str, str]
    query: QueryParams
    headers: Mapping[str, str]
    body: IO[bytes]
    fields: Mapping[str, str] = field(default_factory=dict)
    upload: UploadFile | None = None

    def json(self) -> Body:
        return json_object(self.body.read(), "The body of your request")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        text = self.query.get(name, str(default))
        if re.fullmatch(r"-?[0-9]{1,12}", text) is None or not low <= int(text) <= high:
            raise Rejection(400, f"{name} must be an integer between {low} and {high}, not {text!r}", param=name)
        return int(text)


class JsonReply(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return orjson.dumps(content)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`on` names the kind of call for counts and faults; `keyless` routes need no API key (signed addresses)."""

    method: str
    path: str
    on: str
    handler: Callable[[SandboxCall], Response]
    keyless: bool = False


class ProviderApi(ABC):
    """`error_file`: failed rows go to a file of their own. `early_output`: the result file can be read while the batch
    runs. `partial`: an expired or cancelled batch keeps the rows that were done. `statuses`: the provider's words for
    the phases of a batch, where they are others."""

    provider: str
    prefix: str
    error_file = False
    early_output = False
    partial = True
    statuses: ClassVar[Mapping[str, str]] = {}
    batch_prefix = ""
    file_prefix = ""
    rows = 50_000
    file_bytes = 100_000_000
    line_bytes: int | None = None
    no_key = Rejection(401, "You didn't provide an API key.", code="invalid_api_key")

    def __init__(self, engine: SandboxEngine) -> None:
        limits = engine.config.limits
        self.engine = engine
        self.store = engine.store
        self.rows = limits.rows or self.rows
        self.file_bytes = limits.file_bytes or self.file_bytes
        self.line_bytes = limits.line_bytes or self.line_bytes
        engine.speak(self)

    @abstractmethod
    def endpoints(self) -> Sequence[Endpoint]: ...

    @abstractmethod
    def refusal(self, rejection: Rejection) -> Mapping[str, object]:
        """The body of an error, for calls and for rows."""

    @abstractmethod
    def view(self, call: SandboxCall, batch: SandboxBatch) -> dict[str, object]:
        """The batch as a poll shows it."""

    @abstractmethod
    def question(self, row: Row, batch: SandboxBatch) -> Question:
        """Raises Rejection for a row that this provider answers with an error."""

    @abstractmethod
    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]: ...

    @abstractmethod
    def failure(self, key: str, rejection: Rejection) -> dict[str, object]: ...

    @abstractmethod
    def output_ids(self) -> tuple[str, str]:
        """New ids for the result and the error file."""

    def caller_key(self, headers: Mapping[str, str], _query: Mapping[str, str]) -> str:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""

    def key(self, row: Row) -> str:
        return str(row.get("custom_id") or "")

    def unfinished(self, _key: str, _outcome: Outcome) -> dict[str, object] | None:
        """The line for a row that was never run; None where the provider says nothing about such rows."""
        return None

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Judge the whole input: number of rows, the model they share or "", and why it is refused. The first thing
        wrong fails the batch: one entry is what has been seen in OpenAI's `errors.data`."""
        number, keys, models = 0, set[str](), set[str]()
        try:
            self.check_size(size)
            for number, line in enumerate(lines, 1):
                self.check_line(number, line)
                models.add(self.admit(json_object(line, "This line"), batch, keys))
                self.check_models(models)
        except Rejection as refused:
            return 0, "", self.batch_refusal(refused, number or None)
        if not number:
            empty = Rejection(400, "The batch input file is empty.", code="empty_file")
            return 0, "", self.batch_refusal(empty, None)
        return number, models.pop() if len(models) == 1 else "", None

    def check_size(self, size: int, status: int = 400) -> None:
        if size > self.file_bytes:
            raise Rejection(status, f"{size} bytes; the limit is {self.file_bytes}.")

    def check_line(self, number: int, line: bytes) -> None:
        if number > self.rows:
            raise Rejection(400, f"The file has more than the {self.rows} requests a batch may have.")
        if self.line_bytes is not None and len(line) > self.line_bytes:
            raise Rejection(400, f"A line of {len(line)} bytes; a request may have {self.line_bytes}.")

    def admit(self, row: Row, batch: SandboxBatch, keys: set[str]) -> str:
        """The row's model. Raises Rejection for a row that fails the whole batch; ``keys`` are those before it."""
        return batch.model

    def check_models(self, _models: set[str]) -> None:
        """Raises Rejection where one batch may not ask these models."""
        return

    def batch_refusal(self, refused: Rejection, line: int | None) -> BatchRefusal:
        return BatchRefusal(refused.code or "invalid_request", refused.message, line, refused.param)

    def status(self, batch: SandboxBatch) -> str:
        phase = self.engine.phase(batch)
        if phase == "odd" and batch.fate is not None:
            return batch.fate.name
        return self.statuses.get(phase, phase)

    def poll(self, call: SandboxCall) -> Response:
        return JsonReply(self.view(call, self.batch(call)))

    def cancel(self, call: SandboxCall) -> Response:
        batch = self.batch(call)
        if batch.outcome is not None:
            raise Rejection(400, f"{batch.id} has ended and cannot be cancelled", code="FAILED_PRECONDITION")
        return JsonReply(self.view(call, self.engine.cancel(batch)))

    def delete_batch(self, call: SandboxCall) -> Response:
        batch = self.batch(call)
        if batch.outcome is None:
            raise Rejection(409, f"{batch.id} is still in progress.")
        self.store.drop_batch(self.provider, batch.id)
        for name in filter(None, (batch.input_id, batch.output_id)):
            self.store.drop_file(self.provider, name)
        return JsonReply({"id": batch.id, "deleted": True})

    def delete_file(self, call: SandboxCall) -> Response:
        record = self.file(call)
        self.store.drop_file(self.provider, record.id)
        return JsonReply({"id": record.id, "object": "file", "deleted": True})

    def content(self, call: SandboxCall) -> Response:
        path = self.store.blob(self.provider, self.file(call).id)
        return FileResponse(path, media_type="application/octet-stream")

    def batch(self, call: SandboxCall) -> SandboxBatch:
        batch = self.engine.current(self.provider, self.batch_prefix + call.params["id"])
        if batch is None:
            raise Rejection(404, f"batch {call.params['id']} not found", code="not_found", param="id")
        return batch

    def file(self, call: SandboxCall) -> StoredFile:
        record = self.store.file(self.provider, self.file_prefix + call.params["id"])
        if record is None or not record.ready:
            raise Rejection(404, f"file {call.params['id']} not found", code="not_found", param="id")
        return record

    def uploaded(self, call: SandboxCall, file_id: str, purposes: Sequence[str]) -> StoredFile:
        """Store the file of a multipart upload; it is for the caller to record it. Raises Rejection."""
        purpose = call.fields.get("purpose", "")
        if call.upload is None or purpose not in purposes:
            raise Rejection(400, f"An upload has a 'file' and a 'purpose' of {', '.join(purposes)}.", param="purpose")
        size, digest = self.store.save_bytes(self.provider, file_id, call.upload.file)
        name = call.fields.get("file_name") or call.upload.filename or "upload"
        return StoredFile(file_id, self.provider, name, purpose, self.engine.now(), size, digest, "input")

    def catalogue(self) -> Sequence[str]:
        """The ids of the provider's models: made-up ones, those of the configuration. Batches of any are answered."""
        profiles = bundled_profiles()
        made_up = [(profile.provider, profile.model) for profile in profiles.participants.values()]
        made_up += [(profile.provider, profile.model) for profile in profiles.judges.values()]
        own = [model for provider, model in made_up if provider == self.provider]
        return list(dict.fromkeys([*own, *sorted(self.engine.config.models)]))

    def known_model(self, call: SandboxCall, code: str | None = None) -> str:
        """The model that the call asks for. Raises Rejection (404) for one that the provider does not have."""
        model = call.params["id"]
        if model not in self.catalogue():
            raise Rejection(404, f"The model '{model}' does not exist or is not found.", code=code, param="model")
        return model

    def model_view(self, model: str) -> dict[str, object]:
        """An entry in OpenAI's form."""
        return {"id": model, "object": "model", "created": MODELS_CREATED, "owned_by": self.provider}


def page(entries: Sequence[Stored], limit: int, after: str | None) -> tuple[Sequence[Stored], bool]:
    """Return at most ``limit`` entries behind the id ``after``, and whether more follow. Raises Rejection."""
    names = [entry.id for entry in entries]
    if after and after not in names:
        raise Rejection(400, f"No such cursor: {after}", param="after")
    start = names.index(after) + 1 if after else 0
    return entries[start : start + limit], start + limit < len(entries)


def openai_page(
    call: SandboxCall, entries: Sequence[Stored], most: int, view: Callable[[Stored], dict[str, object]]
) -> Response:
    """A page of a listing in OpenAI's form."""
    shown, more = page(entries, call.number("limit", min(most, 20), 1, most), call.query.get("after"))
    ends = {"first_id": shown[0].id if shown else None, "last_id": shown[-1].id if shown else None}
    return JsonReply({"object": "list", "data": [view(entry) for entry in shown], **ends, "has_more": more})


def rfc3339(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
