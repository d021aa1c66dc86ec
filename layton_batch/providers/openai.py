"""Batch APIs of OpenAI's shape, files and then batches of them: OpenAI's, those that differ by a few settings, and a
server of a manifest's own.

The SDKs of OpenAI, Groq and Together have the same resources under the same names, so one text serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO
from urllib.parse import quote

from layton_batch import model_table
from layton_batch.errors import (
    LookUpRefusedError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.providers import chat
from layton_batch.providers.dialect import Dialect, Send, opened
from layton_batch.providers.finding import MAX_PAGES, ListedBatch, ListOrder, pages, rows, stuck
from layton_batch.providers.http_client import certificates
from layton_batch.providers.protocol import (
    USUAL_WINDOW,
    Access,
    Capabilities,
    Limits,
    ModelNotice,
    ResultPart,
    StatusMeaning,
)
from layton_batch.providers.wire_errors import error_class
from layton_batch.providers.wire_json import (
    JsonObject,
    at,
    clean,
    count,
    day,
    in_words,
    moment,
    parse_json,
    text,
    whole,
)
from layton_batch.records import (
    JsonValue,
    MatchingBatch,
    Reasoning,
    Request,
    Response,
    ServerForm,
    Snapshot,
    Submission,
    Usage,
)
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

TAG = "layton_batch"
"""The metadata key that carries our tag."""


class FileBatches(Dialect):
    """A batch API of OpenAI's shape; the class attributes are its settings.

    ``max_tokens_key``: the name of the output limit; ``names_model``, ``names_call``: whether a line has the model, the
    method and the path; ``file_query``: what a look at the list of files asks for; ``poll_query``: what a look at a
    batch asks for; ``lists_newest_first``: the order of its batches, by its documents.
    """

    status_map: Mapping[str, StatusMeaning] = {
        **dict.fromkeys(("validating", "in_progress", "finalizing"), Lifecycle.IN_FLIGHT),
        "cancelling": Lifecycle.CANCELLING,
        **{outcome: outcome for outcome in BatchOutcome},
    }
    max_tokens_key: str = "max_completion_tokens"
    names_model: bool = True
    names_call: bool = True
    file_query: Mapping[str, Any] = {"purpose": "batch"}
    poll_query: Mapping[str, Any] = {}
    lists_newest_first: bool = False

    # ---- no network

    def encode(self, request: Request) -> dict[str, JsonValue]:
        url, spec = self.endpoint(request.model.model), request.model
        if url == chat.RESPONSES:
            body = chat.responses_body(request)
        else:
            body = chat.chat_body(
                request,
                reasoning=self.reasoning(spec.reasoning),
                max_tokens_key=self.max_tokens_key,
                names_model=self.names_model,
            )
        if not self.names_call:
            return {"custom_id": request.custom_id, "body": body}
        return {"custom_id": request.custom_id, "method": "POST", "url": url, "body": body}

    def endpoint(self, model: str) -> str:
        """Return the endpoint of a batch of this model's requests: the ``url`` of every line."""
        return chat.ENDPOINT

    def reasoning(self, wanted: Reasoning) -> JsonObject:
        """Return the body's reasoning fields."""
        return {} if wanted.effort is None else {"reasoning_effort": wanted.effort}

    def _decoded(self, custom_id: str, row: JsonObject) -> Response:
        return chat.decode_row(custom_id, row, self.name)

    # ---- network

    def upload(self, submission: Submission) -> str | None:
        """Return the file's id: of one of this name and size that an interrupted upload left behind, for its name has
        digits of its digest, else of a new one."""
        with opened(submission.path, self.name) as file:
            try:
                file_id = self._uploaded(submission.file_name, submission.path.stat().st_size)
            except RequestRefusedError as error:
                raise LookUpRefusedError(str(error), status=error.status, code=error.code) from error
            if file_id is not None:
                return file_id
            send = self._sending(submission.file_name, file)
            return self._made(f"upload {submission.file_name}", send)

    def _sending(self, name: str, file: BinaryIO) -> Send:
        # an open file is streamed; a path or bytes would be held in memory whole
        return lambda client: client.files.create(file=(name, file, "application/jsonl"), purpose="batch")

    def _uploaded(self, file_name: str, size: int) -> str | None:
        page = self._ask("list files", lambda client: self._list_files(client, file_name))
        for file in self._rows(page):
            is_same = file.get("filename") == file_name and whole(file.get("bytes")) == size
            if is_same and file.get("purpose", "batch") == "batch" and file.get("status") != "error":
                return text(file, "id")
        return None

    def _list_files(self, client: Any, file_name: str) -> object:
        return client.files.with_raw_response.list(**self.file_query)

    def create(self, submission: Submission) -> str:
        input_ref = self._input_ref(submission)
        return self._created(
            submission,
            lambda client: client.batches.create(
                input_file_id=input_ref,
                endpoint=self.endpoint(submission.model),
                completion_window=submission.window or USUAL_WINDOW,
                metadata={TAG: submission.tag},
            ),
        )

    def snapshot(self, provider_id: str) -> Snapshot:
        query = {"extra_query": self.poll_query} if self.poll_query else {}
        batch = self._ask(
            f"poll batch {provider_id}",
            lambda client: client.batches.with_raw_response.retrieve(provider_id, **query),
        )
        return self._read(batch, provider_id)

    def _read(self, batch: JsonObject, provider_id: str) -> Snapshot:
        counts, (reason, class_) = at(batch, "request_counts"), _batch_errors(batch.get("errors"))
        return self._snapshot(
            provider_id,
            batch.get("status"),
            files=(batch.get("output_file_id"), batch.get("error_file_id")),
            counts=(whole(counts.get("total")), whole(counts.get("completed")), whole(counts.get("failed"))),
            reason=reason,
            error_class=class_,
        )

    def _cancel(self, client: Any, provider_id: str) -> object:
        return client.batches.cancel(provider_id)

    def _listed(self, submission: Submission) -> Iterator[ListedBatch]:
        order = ListOrder(submission)
        for page in self._pages():
            batches = list(map(_listed_batch, self._rows(page)))
            yield from batches
            created = [batch.created_at for batch in batches]
            if self.lists_newest_first and order.is_read(created, self._clock()):
                return

    def _pages(self) -> Iterator[JsonObject]:
        """Yield the pages of the list of batches."""

        def read(last: str | None) -> JsonObject:
            after = {"after": last} if last else {}
            return self._ask("list batches", lambda client: client.batches.with_raw_response.list(limit=100, **after))

        return pages(self.name, read, lambda page: (text(page, "last_id") or "") if page.get("has_more") else None)

    def _rows(self, page: JsonObject) -> list[JsonObject]:
        """Return the objects of a page; null stands for none."""
        return [] if page.get("data", page) is None else rows(page, "data", self.name)

    def _download(self, ref: str, start: int = 0) -> Generator[bytes, None, None]:
        url = self._url(f"/files/{quote(ref, safe='')}/content")
        return self._stream(url, f"download {ref}", start)

    def about(self, model: str) -> ModelNotice | None:
        """Read the catalogue. A model id may hold a slash, which not every server accepts in a page's address."""
        return in_catalogue(self._catalogue(), model, self.name)

    def _catalogue(self) -> Sequence[JsonObject]:
        """Return every model that is served."""
        return self._rows(self._ask("list models", lambda client: client.models.with_raw_response.list()))


def _listed_batch(batch: JsonObject) -> ListedBatch:
    """Read a batch in a list: Mistral names several files, Together carries no tag."""
    tag, files = at(batch, "metadata").get(TAG), batch.get("input_files")
    name = None if tag is None else str(tag)
    inputs = files if isinstance(files, list) else (batch.get("input_file_id"),)
    return ListedBatch(text(batch, "id") or "", moment(batch, "created_at"), name=name, inputs=inputs)


def _batch_errors(errors: JsonValue) -> tuple[str | None, ErrorClass]:
    """Return the first errors of a batch in words, and their class; they come as ``{data: [...]}``, as a bare list, or
    not."""
    listed = errors.get("data") if isinstance(errors, Mapping) else errors
    entries = listed if isinstance(listed, list) else [listed] if listed else []
    codes = [in_words(entry.get("code") or "") for entry in entries if isinstance(entry, Mapping)]
    classes = (error_class(None, code, None) for code in codes if code)
    telling = (class_ for class_ in classes if class_ is not ErrorClass.PROVIDER_FAULT)
    return "; ".join(map(_batch_error, entries[:3])) or None, next(telling, ErrorClass.PROVIDER_FAULT)


def _batch_error(entry: JsonValue) -> str:
    if not isinstance(entry, Mapping):
        return clean(in_words(entry))
    line = f"line {in_words(entry['line'])}" if entry.get("line") is not None else ""
    words = (line, in_words(entry.get("code") or ""), in_words(entry.get("message") or ""))
    return clean(": ".join(word for word in words if word)) or "an error without a text"


def notice_of(page: JsonObject) -> ModelNotice:
    """Return what a model's page says in OpenAI's form, which Groq and Doubleword have without an end."""
    ends = day(page, "shutdown_date")
    return ModelNotice(text(page, "id"), ends, is_deprecated=ends is not None, is_over=page.get("active") is False)


def in_catalogue(catalogue: Sequence[JsonObject], model: str, provider: str) -> ModelNotice | None:
    """Return the entry of a catalogue. Raises ProviderReplyError for an empty one: that no provider has."""
    if not catalogue:
        raise ProviderReplyError(f"{provider}: the list of models is empty")
    return next((notice_of(entry) for entry in catalogue if entry.get("id") == model), None)


# ---- who has this shape


class OpenAI(FileBatches):
    """OpenAI itself. Models that have no chat completions, by ``models.toml``, are asked over ``/v1/responses``."""

    name = "openai"
    limits = Limits(
        max_requests=50_000,
        max_bytes=199_000_000,  # 200 MB less a margin for how a megabyte is counted
        max_line_bytes=199_000_000,
        max_creates_per_hour=2_000,
        retention_seconds=30 * 86_400.0,
    )
    capabilities = Capabilities(
        caveats=("enqueued prompt tokens are limited per model and tier; above that a batch fails at validation",),
    )
    # the newest thousand: an interrupted upload was seconds ago, and missing it costs a second copy, not money
    file_query: Mapping[str, Any] = {"purpose": "batch", "order": "desc", "limit": 1000}
    lists_newest_first = True
    own_params = ("model", "messages", "input", "instructions")

    def endpoint(self, model: str) -> str:
        facts = model_table.load().model(self.name, model)
        return chat.RESPONSES if facts is not None and facts.chat is False else chat.ENDPOINT

    def about(self, model: str) -> ModelNotice | None:
        """Read the model's own page, which also tells its retirement."""
        try:
            page = self._ask("ask about a model", lambda client: client.models.with_raw_response.retrieve(model))
        except NotFoundError:
            return None
        return notice_of(page)

    def _client_class(self, key: str) -> Callable[..., Any]:
        import openai

        return openai.OpenAI

    def _read(self, batch: JsonObject, provider_id: str) -> Snapshot:
        """Read the tokens of the whole batch, too; servers without such books leave them out, or at 0."""
        usage = at(batch, "usage")
        sent, output = count(usage, "input_tokens"), count(usage, "output_tokens")
        stated = Usage(input_tokens=sent, output_tokens=output) if sent and output else None
        return replace(super()._read(batch, provider_id), stated_usage=stated)


class OpenAIElsewhere(FileBatches):
    """A provider that OpenAI's SDK is called for, at another address."""

    def _client_class(self, key: str) -> Callable[..., Any]:
        import openai

        class AddressClient(openai.OpenAI):
            """OpenAI's client without what it takes from the environment for OpenAI: organization, project and extra
            headers, among them perhaps another Authorization. None of that is this provider's business."""

            @property
            def default_headers(self) -> dict[str, str | openai.Omit]:
                own = {name: value for name, value in super().default_headers.items() if _is_harmless(name)}
                return {**own, "Authorization": f"Bearer {key}"}

        return AddressClient


def _is_harmless(header: str) -> bool:
    name = header.lower()
    return name in ("accept", "content-type", "user-agent") or name.startswith("x-stainless-")


class Doubleword(OpenAIElsewhere):
    """Doubleword. Its result files exist, and can be read, while a batch still runs; only the status says that it has
    ended."""

    name = "doubleword"
    limits = Limits(
        max_requests=50_000,  # its documents name no count: the one of the API it is compatible with
        max_bytes=99_000_000,  # its server's default is 100 MB; its documents say 200
        max_line_bytes=10_485_760,  # its server's default; above it the whole file is refused
    )
    capabilities = Capabilities(
        caveats=("images, strict schemas and reasoning efforts only on models that have them",),
    )
    efforts = ("none", "minimal", "low", "medium", "high")
    max_tokens_key = "max_tokens"
    windows = ("1h", "24h")
    file_query: Mapping[str, Any] = {"purpose": "batch", "limit": 100}
    poll_query: Mapping[str, Any] = {"include": "analytics"}

    def _read(self, batch: JsonObject, provider_id: str) -> Snapshot:
        cost = chat.dollars(at(batch, "analytics").get("total_cost"))
        return replace(super()._read(batch, provider_id), stated_usd=cost)

    def _check_download(self, reply: Any) -> None:
        if str(reply.headers.get("x-incomplete", "false")).lower() == "true":
            raise TransientProviderError(f"{self.name}: a result file of an ended batch is still being written")


class Groq(FileBatches):
    """Groq, whose list of batches has cursors."""

    name = "groq"
    library = "httpx"
    sdk_path = "/openai/v1"
    limits = Limits(
        max_requests=50_000,
        max_bytes=99_000_000,  # the guide says 200 MB, the SDK's own documentation 100: the smaller one is sure to pass
        max_line_bytes=99_000_000,
        retention_seconds=30 * 86_400.0,
    )
    capabilities = Capabilities(
        caveats=(
            "strict schemas, reasoning efforts and images only on models that have them",
            "needs a paid plan; batches of about 1,000 requests are recommended, larger ones may expire after 24 hours",
        ),
    )
    efforts = ("none", "default", "low", "medium", "high")
    windows = ("24h", "48h", "72h", "96h", "120h", "144h", "168h", *(f"{n}d" for n in range(1, 8)))
    file_query: Mapping[str, Any] = {}

    def _client_class(self, key: str) -> Callable[..., Any]:
        import groq

        return groq.Groq

    def _pages(self) -> Iterator[JsonObject]:
        def read(cursor: str | None) -> JsonObject:
            query = {"cursor": cursor} if cursor else {}
            return self._ask("list batches", lambda client: client.batches.with_raw_response.list(extra_query=query))

        return pages(self.name, read, lambda page: text(at(page, "paging"), "next_cursor"))


class OpenAIServer(OpenAIElsewhere):
    """A server at an address of its own, by what ``[providers.NAME]`` of a manifest says. If its list of batches is
    missing, a create whose reply is lost is a person's to find."""

    limits = Limits(
        max_requests=50_000,
        max_bytes=99_000_000,  # of OpenAI's 200 MB most servers and proxies take half
        max_line_bytes=99_000_000,
        retention_seconds=7 * 86_400.0,  # nobody promises more: results are downloaded as soon as there are any
    )
    capabilities = Capabilities()

    def __init__(self, form: ServerForm, access: Access | None) -> None:
        self.name = form.name
        if access is not None and access.base_url is None:
            access = replace(access, base_url=form.base_url)
        super().__init__(access)
        self._form = form
        self.windows, self.efforts, self.max_tokens_key = form.windows, form.efforts, form.max_tokens
        unlisted = ("a batch whose create gets no reply cannot be looked for: a person decides",)
        self.capabilities = Capabilities(
            shows_ours=form.lists_batches,
            certain_find=form.lists_batches,
            caveats=() if form.lists_batches else unlisted,
        )

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        return super().find(submission) if self._form.lists_batches else []

    def _uploaded(self, file_name: str, size: int) -> str | None:
        return super()._uploaded(file_name, size) if self._form.lists_files else None


_WINDOW_HOURS = 24
_PAGE = 100


class Mistral(FileBatches):
    """Mistral: files, then jobs over ``/v1/chat/completions``, through the ``mistralai`` SDK."""

    name = "mistral"
    sdk_path = "/v1"
    limits = Limits(
        max_requests=100_000,
        max_bytes=506_000_000,  # 512 MB less 1 %
        max_line_bytes=506_000_000,
        window_seconds=_WINDOW_HOURS * 3600.0,
        retention_seconds=86_400.0,  # its pages disagree (24 hours, 30 days, for ever): the shortest is sure
    )
    capabilities = Capabilities(
        caveats=(
            "the upload checks every row: one it does not like refuses the whole file",
            "how long results are kept is documented in three ways; they are downloaded at once",
            "reasoning tokens are not reported apart from output tokens",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = {
        "QUEUED": Lifecycle.IN_FLIGHT,
        "RUNNING": Lifecycle.IN_FLIGHT,
        "CANCELLATION_REQUESTED": Lifecycle.CANCELLING,
        "SUCCESS": BatchOutcome.COMPLETED,
        "FAILED": BatchOutcome.FAILED,
        "TIMEOUT_EXCEEDED": BatchOutcome.EXPIRED,
        "CANCELLED": BatchOutcome.CANCELLED,
    }
    max_tokens_key = "max_tokens"
    names_model = False  # the job names it
    names_call = False
    refuses_cancel = (400, 409, 422)

    def _connect(self, key: str, access: Access, http: Any) -> Any:
        import httpx2
        from mistralai.client import Mistral as Client

        # never used; the SDK's own would start an event loop to close it
        unused = httpx2.AsyncClient(verify=certificates("httpx2"))
        milliseconds = int(access.patience.seconds * 1000)
        # without a retry_config everything is sent once
        return Client(api_key=key, server_url=self._address, timeout_ms=milliseconds, client=http, async_client=unused)

    def _sending(self, name: str, file: BinaryIO) -> Send:
        content = {"file_name": name, "content": file, "content_type": "application/jsonl"}
        return lambda client: client.files.upload(file=content, purpose="batch")

    def _list_files(self, client: Any, file_name: str) -> object:
        return client.files.list(search=file_name, purpose="batch")

    def _rows(self, page: JsonObject) -> list[JsonObject]:
        return rows(page, "data", self.name)

    def create(self, submission: Submission) -> str:
        files = [self._input_ref(submission)]
        return self._created(
            submission,
            lambda client: client.batch.jobs.create(
                endpoint=chat.ENDPOINT,
                input_files=files,
                model=submission.model,
                metadata={TAG: submission.tag},
                timeout_hours=_WINDOW_HOURS,
            ),
        )

    def _listed(self, submission: Submission) -> Iterator[ListedBatch]:
        """Yield every job: the server's metadata filter cannot be relied on. A page can be smaller than was asked for,
        so the list ends at a page that brings nothing new, if it has shown as many as its pages count in all (the least
        that one of them counts: the jobs of other programs come and go meanwhile)."""
        seen, totals = set[str](), list[int]()
        for number in range(MAX_PAGES):
            page = self._ask("list batches", lambda client, number=number: _list_jobs(client, number))  # type: ignore[misc]
            jobs, total = self._rows(page), whole(page.get("total"))
            totals += [] if total is None else [total]
            new = {text(job, "id") or repr(job): job for job in jobs}
            new = {job_id: job for job_id, job in new.items() if job_id not in seen}
            yield from map(_listed_batch, new.values())
            seen.update(new)
            if not new:
                if len(seen) >= min(totals, default=0) and (totals or not jobs):
                    return
                break
        raise stuck(self.name)

    def snapshot(self, provider_id: str) -> Snapshot:
        job = self._ask(f"poll batch {provider_id}", lambda client: client.batch.jobs.get(job_id=provider_id))
        kinds = ("total_requests", "succeeded_requests", "failed_requests")
        total, succeeded, failed = (whole(job.get(kind)) for kind in kinds)
        # a job's errors have a text only; unanswered rows are not billed, so another attempt is worth it
        reason, class_ = _batch_errors(job.get("errors"))
        return self._snapshot(
            provider_id,
            job.get("status"),
            files=(job.get("output_file"), job.get("error_file")),
            counts=(total, succeeded, failed),
            reason=reason,
            error_class=class_,
        )

    def _cancel(self, client: Any, provider_id: str) -> object:
        return client.batch.jobs.cancel(job_id=provider_id)

    def _headers(self) -> dict[str, str]:
        self._open()
        return {"Authorization": f"Bearer {self._key()}"}

    def about(self, model: str) -> ModelNotice | None:
        """Read the model's own page: its retirement and its replacement. A model that has the name asked about among
        its other names is the one asked about."""
        try:
            page = self._ask("ask about a model", lambda client: client.models.retrieve(model_id=model))
        except NotFoundError:
            return None
        names, ends = page.get("aliases"), day(page, "deprecation")
        own = model if isinstance(names, list) and model in names else text(page, "id")
        replacement = text(page, "deprecation_replacement_model")
        return ModelNotice(own, ends, is_deprecated=ends is not None, replacement=replacement)


def _list_jobs(client: Any, number: int) -> object:
    return client.batch.jobs.list(page=number, page_size=_PAGE, order_by="-created")


class Together(FileBatches):
    """Together: files addressed by content, jobs without a tag. A job is told by its input file, whose id follows from
    its bytes: they hold custom_ids with the run's own mark."""

    name = "together"
    library = "httpx"
    sdk_path = "/v1"
    limits = Limits(
        max_requests=50_000,
        max_bytes=99_000_000,
        max_line_bytes=9_900_000,
        window_seconds=72 * 3600.0,  # 24 hours best effort, up to 72
        max_enqueued_tokens=30_000_000_000,
        retention_seconds=7 * 86_400.0,  # undocumented: downloaded as soon as there are any
    )
    capabilities = Capabilities(
        caveats=(
            "batches carry no tag: a lost one is told by its input file, whose requests carry the run's mark",
            "half price only for a published list of models, the standard price for others",
            "24 hours is best effort; a batch may take up to 72",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = {
        **{word.upper(): means for word, means in FileBatches.status_map.items()},
        "CANCELING": Lifecycle.CANCELLING,
    }
    efforts = ("none", "low", "medium", "high")
    max_tokens_key = "max_tokens"
    names_call = False

    def reasoning(self, wanted: Reasoning) -> JsonObject:
        """Return the body's reasoning fields: ``none`` is a switch here, the others are efforts."""
        return {"reasoning": {"enabled": False}} if wanted.effort == "none" else super().reasoning(wanted)

    def upload(self, submission: Submission) -> str | None:
        """Return the file's id; bytes that are already there give the id they have."""
        opened(submission.path, self.name).close()
        with self._wire(f"upload {submission.file_name}"):
            file = self._open().files.upload(file=submission.path, purpose="batch-api", check=False)
            file_id = text({"id": getattr(file, "id", None)}, "id")
        if file_id is None:
            raise ProviderReplyError(f"{self.name}: the reply to an upload names no id")
        return file_id

    def create(self, submission: Submission) -> str:
        input_ref = self._input_ref(submission)
        send: Send = lambda client: client.batches.create(  # noqa: E731
            input_file_id=input_ref, endpoint=chat.ENDPOINT, completion_window="24h"
        )
        return self._created(submission, send, within="job")

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        """Yield the files with their sizes: of its rows this API counts none."""
        refs = [ref for ref in (snapshot.results_ref, snapshot.errors_ref) if ref]
        for part, ref in zip(super().results(snapshot), refs, strict=True):
            yield replace(part, size=self._size(ref))

    def _size(self, ref: str) -> int | None:
        """Return the bytes of a file; None if they cannot be had, which is no reason not to download it."""
        try:
            file = self._ask(f"look at file {ref}", lambda client: client.files.with_raw_response.retrieve(ref))
        except ProviderError:
            return None
        return whole(file.get("bytes")) or None

    def _listed(self, submission: Submission) -> Iterator[ListedBatch]:
        """Yield every job: the list has one page."""
        reply = self._value("list batches", lambda client: client.batches.with_raw_response.list())
        yield from map(_listed_batch, rows({"jobs": reply or []}, "jobs", self.name))

    def _catalogue(self) -> Sequence[JsonObject]:
        """Return the public catalogue, a bare list; the SDK itself lists a project's own models only."""
        reply = self._value("list models", lambda client: client.get("/v1/models", cast_to=object))
        return rows(reply if isinstance(reply, Mapping) else {"data": reply}, "data", self.name)

    def _value(self, call: str, send: Send) -> JsonValue:
        with self._wire(call):
            return parse_json(self._reply(send).content, self.name, f"the reply to: {call}")

    def _client_class(self, key: str) -> Callable[..., Any]:
        import together

        return together.Together

    def _read(self, batch: JsonObject, provider_id: str) -> Snapshot:
        reason = text(batch, "error")
        return self._snapshot(
            provider_id,
            batch.get("status"),
            files=(batch.get("output_file_id"), batch.get("error_file_id")),
            reason=reason,
            error_class=error_class(None, None, reason),
        )
