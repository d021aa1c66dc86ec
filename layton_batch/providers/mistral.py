"""Mistral's batch API (files, then jobs over ``/v1/chat/completions``) through the ``mistralai`` SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

from layton_batch.errors import FileError, ProviderError, ProviderReplyError
from layton_batch.providers import openai_shape as shape
from layton_batch.providers import ranges
from layton_batch.providers.protocol import Access, Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_errors import api_key, clean, wire
from layton_batch.records import Found, JsonValue, ModelSpec, Request, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

if TYPE_CHECKING:
    import httpx2
    from mistralai.client import Mistral as Client
    from mistralai.client.models import BatchJob

TAG = "layton_batch"
"""The metadata key that carries our tag."""

EFFORTS = ("none", "minimal", "low", "medium", "high")
WINDOW_HOURS = 24

_PAGE = 100
_MAX_PAGES = 1_000
_LOOK_BACK = 30 * 86_400.0


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
        )
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
        self._http: httpx2.Client | None = None

    # ---- no network

    def check(self, spec: ModelSpec) -> list[str]:
        """What in a model's settings this API cannot do."""
        return shape.spec_problems(spec, efforts=EFFORTS)

    def encode(self, request: Request) -> bytes:
        effort = request.model.reasoning.effort
        reasoning: Mapping[str, JsonValue] = {} if effort is None else {"reasoning_effort": effort}
        # the model is named by the job
        body = shape.chat_body(request, reasoning=reasoning, max_tokens_key="max_tokens", model=False)
        return shape.dumps({"custom_id": request.custom_id, "body": body}, request.model)

    def decode(self, line: bytes) -> Response:
        return shape.decode_row(line, self.name)

    # ---- network

    def upload(self, submission: Submission) -> str | None:
        """The file's id; one of this name and size that an interrupted upload left behind is taken."""
        client = self._connected()
        try:
            size = submission.path.stat().st_size
            handle = submission.path.open("rb")
        except OSError as error:
            raise FileError(f"mistral: batch file {submission.path} cannot be read: {error.strerror}") from error
        with handle:
            with self._wire("list files"):
                listed = client.files.list(search=submission.file_name, purpose="batch").data
            for file in listed or ():
                if file.filename == submission.file_name and file.size_bytes == size:
                    return file.id
            with self._wire(f"upload {submission.file_name}"):
                # an open handle is streamed; bytes would be held in memory whole
                made = client.files.upload(
                    file={"file_name": submission.file_name, "content": handle, "content_type": "application/jsonl"},
                    purpose="batch",
                )
                return made.id

    def create(self, submission: Submission) -> str:
        if submission.input_ref is None:
            raise ProviderError(f"mistral: batch {submission.batch_id} was not uploaded before it was to be created")
        client = self._connected()
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            job = client.batch.jobs.create(
                endpoint="/v1/chat/completions",
                input_files=[submission.input_ref],
                model=submission.model,
                metadata={TAG: submission.tag},
                timeout_hours=WINDOW_HOURS,
            )
            return job.id

    def find(self, submission: Submission) -> Sequence[Found]:
        """Jobs that carry our tag, or, where the listing shows none, our input file (its name is unique to us).

        The server's metadata filter cannot be relied on, so all jobs since then are read and matched here.
        """
        return [
            Found(job.id, certain=True, created_at=float(job.created_at))
            for job in self._listed(submission.not_before)
            if _is_ours(job, submission)
        ]

    def snapshot(self, provider_id: str) -> Snapshot:
        client = self._connected()
        with self._wire(f"poll batch {provider_id}"):
            job = client.batch.jobs.get(job_id=provider_id)
        word, means = shape.meaning(self.status_map, str(job.status), self.name, provider_id)
        ended, failed = means.state is Lifecycle.ENDED, means.outcome is BatchOutcome.FAILED
        said = "; ".join(clean(error.message) for error in job.errors[:3])
        return Snapshot(
            provider_id=provider_id,
            provider_status=word,
            state=means.state,
            outcome=means.outcome,
            results_ref=shape.text_or_none(_given(job.output_file)) if ended else None,
            errors_ref=shape.text_or_none(_given(job.error_file)) if ended else None,
            total=job.total_requests,
            succeeded=job.succeeded_requests,
            failed=job.failed_requests,
            message=said or ("the provider gave no reason" if failed else None),
            # a job's errors have a text only; unanswered rows are not billed, so another attempt is worth it
            error_class=ErrorClass.PROVIDER_FAULT if failed else ErrorClass.NONE,
        )

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        for kind, ref in (("output", snapshot.results_ref), ("errors", snapshot.errors_ref)):
            if ref:
                yield ResultPart(kind, self._download(ref), partial(self._rest, ref))

    def cancel(self, provider_id: str) -> None:
        client = self._connected()
        try:
            with self._wire(f"cancel batch {provider_id}"):
                client.batch.jobs.cancel(job_id=provider_id)
        except ProviderError as error:
            # what has ended cannot be cancelled; whether that is why is seen only by looking
            if error.status not in (400, 409, 422) or self.snapshot(provider_id).state is Lifecycle.IN_FLIGHT:
                raise

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

            address = self._access.base_url if self._access else None
            self._http = httpx2.Client(follow_redirects=True)  # ours, so that it can be closed
            self._client = Client(
                api_key=key,
                server_url=address.rstrip("/").removesuffix("/v1") if address else None,  # the SDK adds it
                timeout_ms=int(self._seconds() * 1000),
                client=self._http,
                async_client=httpx2.AsyncClient(),  # never used; the SDK's own would start an event loop to close it
            )  # without a retry_config everything is sent once
        return self._client

    def _listed(self, not_before: float | None) -> Iterator[BatchJob]:
        client = self._connected()
        # clocks differ, and what decides is the tag: this only saves pages
        since = None if not_before is None else datetime.fromtimestamp(max(not_before - _LOOK_BACK, 0.0), tz=UTC)
        for number in range(_MAX_PAGES):
            with self._wire("list batches"):
                page = client.batch.jobs.list(page=number, page_size=_PAGE, created_after=since, order_by="-created")
            jobs = page.data or []
            yield from jobs
            if len(jobs) < _PAGE:
                return
        raise ProviderReplyError(f"mistral: the list of batches does not end after {_MAX_PAGES} pages")

    def _rest(self, ref: str, start: int) -> Iterator[bytes]:
        """What follows the first ``start`` bytes. Not through the SDK, which takes 206 for an error."""
        client = self._connected()
        assert self._http is not None  # noqa: S101 - made with the client
        url = f"{client.sdk_configuration.get_server_details()[0]}/v1/files/{quote(ref, safe='')}/content"
        headers = {"Authorization": f"Bearer {self._key()}", **ranges.headers(start)}
        asked = self._http.stream("GET", url, headers=headers, timeout=self._seconds())
        with self._wire(f"download {ref}"), asked as reply:
            if reply.is_error:
                reply.read()
            reply.raise_for_status()
            ranges.check(self.name, start, reply.status_code, reply.headers)
            yield from reply.iter_bytes()

    def _download(self, ref: str) -> Iterator[bytes]:
        client = self._connected()
        with self._wire(f"download {ref}"):
            reply = client.files.download(file_id=ref)
            try:
                yield from reply.iter_bytes()  # as they come: what waits to fill a larger piece is lost with it
            finally:
                reply.close()


def _is_ours(job: BatchJob, submission: Submission) -> bool:
    metadata = _given(job.metadata)
    tag = metadata.get(TAG) if isinstance(metadata, Mapping) else None
    if tag is not None:
        return bool(tag == submission.tag)
    return submission.input_ref is not None and submission.input_ref in job.input_files


def _given(value: object) -> JsonValue:
    """The SDK's marks for a field left out or null (`Unset`) become None."""
    return value if isinstance(value, str | Mapping) else None
