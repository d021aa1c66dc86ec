"""Mistral's batch API (files, then jobs over ``/v1/chat/completions``) through the ``mistralai`` SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO

from layton_batch.errors import NotFoundError
from layton_batch.providers import chat
from layton_batch.providers.dialect import Send
from layton_batch.providers.finding import MAX_PAGES, ListedBatch, rows, stuck
from layton_batch.providers.http_client import certificates
from layton_batch.providers.openai import TAG, FileBatches
from layton_batch.providers.protocol import Access, Capabilities, Limits, ModelNotice, StatusMeaning
from layton_batch.providers.wire_json import JsonObject, at, clean, day, moment, text, whole
from layton_batch.records import JsonValue, Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle

_WINDOW_HOURS = 24
_PAGE = 100


class Mistral(FileBatches):
    """See the module text."""

    name: str = "mistral"
    key_variable: str = "MISTRAL_API_KEY"
    sdk_path: str = "/v1"
    limits: Limits = Limits(
        max_requests=100_000,
        max_bytes=506_000_000,  # 512 MB less 1 %
        max_line_bytes=506_000_000,
        window_seconds=_WINDOW_HOURS * 3600.0,
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
    max_tokens_key: str = "max_tokens"
    names_model: bool = False  # the job names it
    names_call: bool = False
    refuses_cancel = (400, 409, 422)

    def _connect(self, key: str, access: Access, http: Any) -> Any:
        import httpx2
        from mistralai.client import Mistral as Client

        # never used; the SDK's own would start an event loop to close it
        unused = httpx2.AsyncClient(verify=certificates("httpx2"))
        milliseconds = int(access.timeout_seconds * 1000)
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
            yield from (_listed_job(job) for job in new.values())
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
        return self._snapshot(
            provider_id,
            job.get("status"),
            files=(job.get("output_file"), job.get("error_file")),
            counts=(total, succeeded, failed),
            reason=_first_errors(job.get("errors")),
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


def _listed_job(job: JsonObject) -> ListedBatch:
    tag, files = at(job, "metadata").get(TAG), job.get("input_files")
    name, inputs = None if tag is None else str(tag), files if isinstance(files, list) else ()
    return ListedBatch(text(job, "id") or "", moment(job, "created_at"), name=name, inputs=inputs)


def _first_errors(errors: JsonValue) -> str | None:
    """Return a job's first errors in words: objects with a message by the documents, texts too."""
    listed = errors if isinstance(errors, list) else [errors] if errors else []
    words = [error.get("message") if isinstance(error, Mapping) else error for error in listed[:3]]
    return "; ".join(clean(word) for word in words if isinstance(word, str) and word) or None
