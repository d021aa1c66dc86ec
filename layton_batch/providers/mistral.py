"""Mistral's batch API (files, then jobs over ``/v1/chat/completions``) through the ``mistralai`` SDK.

The SDK sends; its replies are read as they came: its models refuse a whole page for one odd field of one job of anybody
in the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from layton_batch.errors import (
    FileError,
    LookUpRefusedError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
)
from layton_batch.providers import http_rules, model_notices
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.http_client import certificates, open_client
from layton_batch.providers.protocol import (
    NO_REASON,
    Access,
    Capabilities,
    Limits,
    ModelNotice,
    ResultPart,
    StatusMeaning,
)
from layton_batch.providers.wire_errors import api_key, clean, parse_object, wire
from layton_batch.providers.wire_json import JsonObject, at, moment, objects, text, whole
from layton_batch.records import JsonValue, MatchingBatch, ModelSpec, Request, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

if TYPE_CHECKING:
    import httpx2
    from mistralai.client import Mistral as Client

TAG = "layton_batch"
"""The metadata key that carries our tag."""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
WINDOW_HOURS = 24

_PAGE = 100


class Mistral:
    """See the module text."""

    name: str = "mistral"
    limits: Limits = Limits(
        max_requests=100_000,
        max_bytes=506_000_000,  # 512 MB less 1 %
        max_line_bytes=506_000_000,
        window_seconds=WINDOW_HOURS * 3600.0,
        retention_seconds=86_400.0,  # its pages disagree (24 hours, 30 days, for ever): the shortest is sure
    )
    capabilities: Capabilities = Capabilities(
        caveats=(
            "the upload checks every row: one it does not like refuses the whole file",
            "how long results are kept is documented in three ways; they are downloaded at once",
            "reasoning tokens are not reported apart from output tokens",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = MappingProxyType(
        {
            "QUEUED": StatusMeaning(Lifecycle.IN_FLIGHT),
            "RUNNING": StatusMeaning(Lifecycle.IN_FLIGHT),
            "CANCELLATION_REQUESTED": StatusMeaning(Lifecycle.CANCELLING),
            "SUCCESS": StatusMeaning(Lifecycle.ENDED, BatchOutcome.COMPLETED),
            "FAILED": StatusMeaning(Lifecycle.ENDED, BatchOutcome.FAILED),
            "TIMEOUT_EXCEEDED": StatusMeaning(Lifecycle.ENDED, BatchOutcome.EXPIRED),
            "CANCELLED": StatusMeaning(Lifecycle.ENDED, BatchOutcome.CANCELLED),
        }
    )

    def __init__(self, access: Access | None) -> None:
        self._access = access
        self._client: Client | None = None
        self._http: _Http | None = None

    # ---- no network

    def check(self, spec: ModelSpec) -> list[str]:
        """List in words which of a model's settings this API cannot do."""
        return shape.spec_problems(spec, efforts=EFFORTS)

    def encode(self, request: Request) -> dict[str, JsonValue]:
        effort = request.model.reasoning.effort
        reasoning: Mapping[str, JsonValue] = {} if effort is None else {"reasoning_effort": effort}
        # the model is named by the job
        body = shape.chat_body(request, reasoning=reasoning, max_tokens_key="max_tokens", model=False)
        return {"custom_id": request.custom_id, "body": body}

    def decode(self, line: bytes) -> Response:
        return shape.decode_row(line, self.name)

    # ---- network

    def upload(self, submission: Submission) -> str | None:
        """The file's id; one of this name and size that an interrupted upload left behind is taken."""
        self._connected()
        try:
            size = submission.path.stat().st_size
            handle = submission.path.open("rb")
        except OSError as error:
            raise FileError(f"mistral: batch file {submission.path} cannot be read: {error.strerror}") from error
        with handle:
            for file in self._files_named(submission.file_name):
                if file.get("filename") == submission.file_name and whole(file.get("bytes")) == size:
                    return _id_of(file, "a file in the list of files")
            # an open handle is streamed; bytes would be held in memory whole
            file_made = self._asked(
                f"upload {submission.file_name}",
                lambda sdk: sdk.files.upload(
                    file={"file_name": submission.file_name, "content": handle, "content_type": "application/jsonl"},
                    purpose="batch",
                ),
            )
            return _id_of(file_made, "the reply to an upload")

    def _files_named(self, name: str) -> Sequence[Mapping[str, JsonValue]]:
        """Batch files whose names hold ``name``. Raises LookUpRefusedError where the provider refuses to list files."""
        try:
            return _rows(self._asked("list files", lambda sdk: sdk.files.list(search=name, purpose="batch")))
        except RequestRefusedError as error:
            raise LookUpRefusedError(str(error), status=error.status, code=error.code) from error

    def create(self, submission: Submission) -> str:
        if submission.input_ref is None:
            raise ProviderError(f"mistral: batch {submission.batch_id} was not uploaded before it was to be created")
        files = [submission.input_ref]
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            job = self._sent(
                lambda sdk: sdk.batch.jobs.create(
                    endpoint="/v1/chat/completions",
                    input_files=files,
                    model=submission.model,
                    metadata={TAG: submission.tag},
                    timeout_hours=WINDOW_HOURS,
                )
            )
            return _id_of(job, "the reply to a create")

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Jobs that carry our tag, or, where the listing shows none, our input file (its name is unique to us).

        The server's metadata filter cannot be relied on, so all jobs are read and matched here.
        """
        matches = []
        for job in submission.listed(self._listed):
            provider_id, tag = text(job, "id") or "", at(job, "metadata").get(TAG)
            if _is_ours(job, tag, submission):
                matches.append(MatchingBatch(provider_id, certain=True, created_at=moment(job, "created_at")))
            elif submission.is_of_a_copy(provider_id, [str(tag)]):
                matches.append(MatchingBatch(provider_id, certain=False, of_a_copy=True))
        return matches

    def snapshot(self, provider_id: str) -> Snapshot:
        job = self._asked(f"poll batch {provider_id}", lambda sdk: sdk.batch.jobs.get(job_id=provider_id))
        word, means = shape.meaning(self.status_map, job.get("status"), self.name, provider_id)
        ended, failed = means.state is Lifecycle.ENDED, means.outcome is BatchOutcome.FAILED
        return Snapshot(
            provider_id=provider_id,
            provider_status=word,
            state=means.state,
            outcome=means.outcome,
            results_ref=_file(job, "output_file") if ended else None,
            errors_ref=_file(job, "error_file") if ended else None,
            total=whole(job.get("total_requests")),
            succeeded=whole(job.get("succeeded_requests")),
            failed=whole(job.get("failed_requests")),
            message=_said(job.get("errors")) or (NO_REASON if failed else None),
            # a job's errors have a text only; unanswered rows are not billed, so another attempt is worth it
            error_class=ErrorClass.PROVIDER_FAULT if failed else ErrorClass.NONE,
        )

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        for kind, ref in (("output", snapshot.results_ref), ("errors", snapshot.errors_ref)):
            if ref:
                yield ResultPart(kind, self._download(ref), partial(self._download, ref))

    def cancel(self, provider_id: str) -> None:
        try:
            self._asked(f"cancel batch {provider_id}", lambda sdk: sdk.batch.jobs.cancel(job_id=provider_id))
        except ProviderError as error:
            # what has ended cannot be cancelled; whether that is why is seen only by looking
            if error.status not in (400, 409, 422) or self.snapshot(provider_id).state is Lifecycle.IN_FLIGHT:
                raise

    def about(self, model: str) -> ModelNotice | None:
        """Read the model's own page: its retirement and its replacement."""
        try:
            page = self._asked("ask about a model", lambda sdk: sdk.models.retrieve(model_id=model))
        except NotFoundError:
            return None
        return model_notices.of_mistral(page, model)

    def close(self) -> None:
        """Let go of connections; the next call opens new ones."""
        if self._http is not None:
            self._http.close()
        self._client = self._http = None

    # ---- wire

    def _key(self) -> str:
        return api_key(self._access, "MISTRAL_API_KEY", self.name)

    def _wire(self, call: str, *, paid: bool = False) -> AbstractContextManager[None]:
        return wire(self.name, call, secret=self._key(), paid=paid)

    def _seconds(self) -> float:
        return self._access.timeout_seconds if self._access else 600.0

    def _connected(self) -> Client:
        key = self._key()
        if self._client is None:
            import httpx2
            from mistralai.client import Mistral as Client

            address, trusted = self._access.base_url if self._access else None, certificates("httpx2")
            inner = open_client(httpx2.Client, self._access)
            self._http = _Http(inner)  # ours, so that it can be closed
            self._client = Client(
                api_key=key,
                server_url=address.rstrip("/").removesuffix("/v1") if address else None,  # the SDK adds it
                timeout_ms=int(self._seconds() * 1000),
                client=self._http,
                async_client=httpx2.AsyncClient(
                    verify=trusted
                ),  # never used; the SDK's own would start an event loop to close it
            )  # without a retry_config everything is sent once
        return self._client

    def _asked(self, call: str, send: Callable[[Client], object]) -> JsonObject:
        """The reply to a call that costs nothing."""
        with self._wire(call):
            return self._sent(send)

    def _sent(self, send: Callable[[Client], object]) -> JsonObject:
        """The reply to one call of the SDK, as it came: what the SDK's models object to in a success is passed over."""
        client = self._connected()
        assert self._http is not None  # noqa: S101 - made with the client
        from mistralai.client.errors import ResponseValidationError

        try:
            send(client)
        except ResponseValidationError as error:
            if not error.raw_response.is_success:
                raise
        return parse_object(self._http.last, self.name, "a reply")

    def _listed(self) -> Iterator[JsonObject]:
        """Every job. A page can be smaller than was asked for, so the list ends where a page brings nothing new, if it
        has shown as many as it said there are (the least it said: others' jobs come and go meanwhile)."""
        seen, read, totals = set[str](), 0, list[int]()
        for number in range(http_rules.MAX_PAGES):
            page = self._asked("list batches", partial(_list_jobs, number))
            jobs, total = _rows(page), whole(page.get("total"))
            totals += [] if total is None else [total]
            new = [job for job in jobs if (text(job, "id") or repr(job)) not in seen]
            yield from new
            seen.update(text(job, "id") or repr(job) for job in new)
            read += len(new)
            if not new:
                if read >= min(totals, default=0) and (totals or not jobs):
                    return
                break
        raise http_rules.stuck(self.name)

    def _download(self, ref: str, start: int = 0) -> Iterator[bytes]:
        """The file from byte ``start`` on, over the SDK's client but not through the SDK: that takes 206 for an error,
        and follows no redirect to where a file may be kept."""
        client = self._connected()
        assert self._http is not None  # noqa: S101 - made with the client
        url = f"{client.sdk_configuration.get_server_details()[0]}/v1/files/{quote(ref, safe='')}/content"
        headers = {"Authorization": f"Bearer {self._key()}", **http_rules.range_headers(start)}
        stream = self._http.inner.stream("GET", url, headers=headers, timeout=self._seconds(), follow_redirects=True)
        with self._wire(f"download {ref}"), stream as reply:
            if reply.is_error:
                reply.read()
            reply.raise_for_status()
            http_rules.check_range(self.name, start, reply.status_code, reply.headers)
            yield from reply.iter_bytes()  # as they come: what waits to fill a larger piece is lost with the connection


class _Http:
    """HTTP client of the SDK: it keeps the last reply, and follows the redirects of readings only. A redirected create
    may have been carried out, and what the next address says is not what became of it."""

    def __init__(self, inner: httpx2.Client) -> None:
        self.inner = inner
        self.last = b""

    def build_request(self, method: str, url: Any, **options: Any) -> httpx2.Request:
        return self.inner.build_request(method, url, **options)

    def send(self, request: httpx2.Request, *, stream: bool = False, **_options: Any) -> httpx2.Response:
        self.last = b""
        reply = self.inner.send(request, stream=stream, follow_redirects=request.method == "GET")
        self.last = b"" if stream else reply.content
        return reply

    def close(self) -> None:
        self.inner.close()


def _list_jobs(number: int, sdk: Client) -> object:
    return sdk.batch.jobs.list(page=number, page_size=_PAGE, order_by="-created")


def _rows(page: JsonObject) -> list[JsonObject]:
    """The objects of a listing's page. What is no listing must not count as an empty one."""
    rows = objects(page, "data")
    if page.get("data") != rows:
        raise ProviderReplyError("mistral: a listing holds no list of objects")
    return rows


def _id_of(holder: JsonObject, holder_name: str) -> str:
    object_id = text(holder, "id")
    if object_id is None:
        raise ProviderReplyError(f"mistral: {holder_name} names no id")
    return object_id


def _file(job: JsonObject, key: str) -> str | None:
    """A file's id, or None where there is no file: what is neither says nothing of whether there is one."""
    if job.get(key) not in (None, "") and text(job, key) is None:
        raise ProviderReplyError(f"mistral: a job that has ended names its {key} in a form that is not documented")
    return text(job, key)


def _is_ours(job: JsonObject, tag: JsonValue, submission: Submission) -> bool:
    if tag is not None:
        return bool(tag == submission.tag)
    files = job.get("input_files")
    return submission.input_ref is not None and isinstance(files, list) and submission.input_ref in files


def _said(errors: JsonValue) -> str | None:
    """A job's first errors in words: objects with a message by the documents, texts too."""
    listed = errors if isinstance(errors, list) else [errors] if errors else []
    words = [error.get("message") if isinstance(error, Mapping) else error for error in listed[:3]]
    return "; ".join(clean(word) for word in words if isinstance(word, str) and word) or None
