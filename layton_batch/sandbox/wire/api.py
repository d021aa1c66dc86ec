"""One provider's API as the server sees it: its routes, how it reads and writes rows, and what most of them share."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, TypeVar

import orjson
from starlette.datastructures import QueryParams, UploadFile
from starlette.responses import FileResponse, Response

from layton_batch.sandbox.answerers.profiles import bundled_profiles
from layton_batch.sandbox.answerers.questions import Question
from layton_batch.sandbox.engine.lifecycle import PHASES, Rejection, Row, SandboxDialect, SandboxEngine
from layton_batch.sandbox.engine.store import BatchRefusal, SandboxBatch, StoredFile, new_id
from layton_batch.sandbox.wire.reading import Body, chat_question, json_object, required

CHAT = "/v1/chat/completions"
DAY = 86_400
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
        if re.fullmatch(r"[0-9]{1,12}", text) is None or not low <= int(text) <= high:
            raise Rejection(400, f"{name} must be an integer between {low} and {high}, not {text!r}")
        return int(text)


class JsonReply(Response):
    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return orjson.dumps(content, default=str)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`on` names the kind of call for counts and faults; `keyless` routes need no API key (signed addresses). A
    handler returns a response, or a value that is sent as JSON."""

    method: str
    path: str
    on: str
    handler: Callable[[SandboxCall], object]
    keyless: bool = False


def phase_words(words: str, begin: str = "") -> Mapping[str, str]:
    """A provider's words for the phases of a batch, in their order, each with this beginning."""
    return {phase: begin + word for phase, word in zip(PHASES, words.split(), strict=True)}


class ProviderApi(SandboxDialect):
    """`prefix`: where the SDK is pointed to, by a variable with the provider's name or `address_name`; `at`: what it
    puts between that and the paths of `routes`. These are a line a route: method, path, kind of call, and the handler
    where its name is not that of the kind; ``-`` before the kind: no key is needed. `statuses`: the provider's words
    for the phases of a batch. `page_words`: the parameters that limit a page and name its cursor.
    `one_model`: a batch asks one model only."""

    prefix: str
    address_name = ""
    at = ""
    routes: str
    statuses = phase_words("validating in_progress finalizing cancelling completed failed expired cancelled")
    one_model = False
    batch_id = "batch_"
    page_words = ("limit", "after")
    rows = 50_000
    file_bytes = 100_000_000
    line_bytes: int | None = None
    key_header = ""

    def __init__(self, engine: SandboxEngine, root: str = "") -> None:
        limits = engine.config.limits
        self.engine = engine
        self.root = root
        self.store = engine.store
        self.rows = limits.rows or self.rows
        self.file_bytes = limits.file_bytes or self.file_bytes
        self.line_bytes = limits.line_bytes or self.line_bytes

    def endpoints(self) -> Iterator[Endpoint]:
        for line in self.routes.strip().splitlines():
            method, path, on, *handler = line.split()
            name = on.removeprefix("-")
            yield Endpoint(method, self.at + path, name, getattr(self, (handler or [name])[0]), keyless=on != name)

    @abstractmethod
    def refusal(self, rejection: Rejection) -> dict[str, object]:
        """The body of an error, for calls and for rows."""

    @abstractmethod
    def view(self, batch: SandboxBatch) -> dict[str, object]:
        """The batch as a poll shows it."""

    def admit_call(self, headers: Mapping[str, str]) -> None:
        """Raises Rejection for a call without a key."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if not (headers.get(self.key_header) or (scheme.lower() == "bearer" and key.strip())):
            raise Rejection(401, "You didn't provide an API key.", code="invalid_api_key")

    # ---- rows

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Judge the whole input: number of rows, the model they share or "", and why it is refused. The first thing
        wrong fails the batch: one entry is what has been seen in OpenAI's `errors.data`."""
        number, keys, models = 0, set[str](), set[str]()
        try:
            self.check_size(size)
            for number, line in enumerate(lines, 1):
                self.check_line(number, line)
                models.add(self.admit(json_object(line, "This line"), batch, keys))
        except Rejection as refused:
            code = refused.code or "invalid_request"
            return 0, "", BatchRefusal(code, refused.message, number or None)
        if not number:
            return 0, "", BatchRefusal("empty_file", "The batch input file is empty.")
        if self.one_model and len(models) > 1:
            return 0, "", BatchRefusal("mismatched_model", f"All requests must name one model, not {sorted(models)}.")
        return number, models.pop() if len(models) == 1 else "", None

    def check_size(self, size: int, status: int = 400) -> None:
        if size > self.file_bytes:
            raise Rejection(status, f"{size} bytes; the limit is {self.file_bytes}.")

    def check_line(self, number: int, line: bytes, status: int = 400) -> None:
        if number > self.rows:
            raise Rejection(status, f"The file has more than the {self.rows} requests a batch may have.")
        if self.line_bytes is not None and len(line) > self.line_bytes:
            raise Rejection(status, f"A line of {len(line)} bytes; a request may have {self.line_bytes}.")

    def admit(self, _row: Row, batch: SandboxBatch, _keys: set[str]) -> str:
        """The row's model. Raises Rejection for a row that fails the whole batch; ``keys`` are those before it."""
        return batch.model

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        return chat_question(self.provider, required(row, "body", dict), self.key(row), batch.model)

    # ---- batches

    def create_batch(
        self, *, input_id: str, echo: Mapping[str, object], model: str = "", endpoint: str = CHAT
    ) -> SandboxBatch:
        """Make a new batch of the input, and return it as it is shown."""
        now, name = self.engine.now(), new_id(self.batch_id)
        return self.engine.create(self, SandboxBatch(name, self.provider, now, input_id, endpoint, model, echo))

    def status(self, batch: SandboxBatch) -> str:
        return self.statuses.get(batch.phase, batch.phase)

    def poll(self, call: SandboxCall) -> object:
        return self.view(self.batch(call))

    def cancel(self, call: SandboxCall) -> object:
        batch = self.batch(call)
        if batch.ended is not None:
            raise Rejection(400, f"{batch.id} has ended and cannot be cancelled", code="FAILED_PRECONDITION")
        return self.view(self.engine.current(self, batch.id, cancel=True) or batch)

    def batch(self, call: SandboxCall) -> SandboxBatch:
        batch = self.engine.current(self, call.params["id"])
        if batch is None:
            raise Rejection(404, f"batch {call.params['id']} not found", code="not_found")
        return batch

    def list(self, call: SandboxCall) -> object:
        shown, cursor = self.page(call, self.engine.everything(self), 20, 100)
        return self.listing([self.view(batch) for batch in shown], cursor)

    def page(
        self, call: SandboxCall, entries: Sequence[Stored], default: int, most: int
    ) -> tuple[Sequence[Stored], str | None]:
        """Return the entries behind the call's cursor, and the cursor behind them if more follow. Raises Rejection."""
        limit, after = call.number(self.page_words[0], default, 1, most), call.query.get(self.page_words[1])
        names = [entry.id for entry in entries]
        if after and after not in names:
            raise Rejection(400, f"No such cursor: {after}")
        start = names.index(after) + 1 if after else 0
        shown = entries[start : start + limit]
        return shown, shown[-1].id if start + limit < len(entries) else None

    def listing(self, views: Sequence[Mapping[str, object]], cursor: str | None) -> object:
        """A page of a list: OpenAI's form."""
        ends = {"first_id": views[0]["id"], "last_id": views[-1]["id"]} if views else {}
        return {"object": "list", "data": views, **ends, "has_more": cursor is not None}

    # ---- files

    def upload(self, call: SandboxCall) -> object:
        """Take a file in one multipart call. Raises Rejection."""
        if call.upload is None or call.fields.get("purpose") != "batch":
            raise Rejection(400, "An upload has a 'file' and a 'purpose' of batch.")
        file_id = new_id(self.file_id)
        size, digest = self.store.save_bytes(self.provider, file_id, call.upload.file)
        record = StoredFile(
            file_id, self.provider, call.upload.filename or "upload", "batch", self.engine.now(), size, digest
        )
        self.check_upload(record)
        self.store.save(record)
        return self.file_view(record)

    def check_upload(self, _record: StoredFile) -> None:
        """Raises Rejection for a file that is refused at once."""
        return

    def file(self, call: SandboxCall) -> object:
        return self.file_view(self.stored_file(call))

    def list_files(self, call: SandboxCall) -> object:
        files = [file for file in self.store.files(self.provider) if call.query.get("search", "") in file.name]
        shown, cursor = self.page(call, files, 10_000, 10_000)
        return self.listing([self.file_view(file) for file in shown], cursor)

    def results(self, call: SandboxCall) -> object:
        """The bytes of a file."""
        path = self.store.blob(self.provider, self.stored_file(call).id)
        return FileResponse(path, media_type="application/octet-stream")

    def input_file(self, name: object, status: int = 404) -> StoredFile:
        """Return the uploaded file that a create call names. Raises Rejection."""
        record = self.store.file(self.provider, str(name))
        if record is None or not record.ready:
            raise Rejection(status, f"File {name!r} not found.", code="invalid_input_file")
        return record

    def stored_file(self, call: SandboxCall) -> StoredFile:
        record = self.store.file(self.provider, call.params["id"])
        if record is None or not record.ready:
            raise Rejection(404, f"file {call.params['id']} not found", code="not_found")
        return record

    def file_view(self, record: StoredFile) -> dict[str, object]:
        return {
            "id": record.id,
            "object": "file",
            "bytes": record.size,
            "created_at": int(record.created),
            "filename": record.name,
            "purpose": record.purpose,
            "status": "processed",
        }

    # ---- models

    def models(self, _call: SandboxCall) -> object:
        return {"object": "list", "data": [self.model_view(model) for model in self.catalogue()]}

    def model(self, call: SandboxCall) -> object:
        """Raises Rejection (404) for a model that the provider does not have."""
        model = call.params["id"]
        if model not in self.catalogue():
            message = f"The model '{model}' does not exist or is not found."
            raise Rejection(404, message, code="model_not_found")
        return self.model_view(model)

    def catalogue(self) -> Sequence[str]:
        """The ids of the provider's made-up models. Batches of any model are answered."""
        profiles = bundled_profiles()
        every = [(profile.provider, profile.model) for profile in profiles.participants]
        every += [(profile.provider, profile.model) for profile in profiles.judges]
        return [model for provider, model in every if provider == self.provider]

    def model_view(self, model: str) -> dict[str, object]:
        return {"id": model, "object": "model", "created": 1_760_000_000, "owned_by": self.provider}


def rfc3339(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
