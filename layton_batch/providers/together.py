"""Together's batch API through the ``together`` SDK: files addressed by content, jobs without a tag.

A job is told by its input file, whose id follows from its bytes: they hold custom_ids with the run's own mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from layton_batch.errors import FileError, ProviderError, ProviderReplyError
from layton_batch.providers import http_rules
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.http_client import open_client
from layton_batch.providers.openai_files import FileBatches
from layton_batch.providers.protocol import NO_REASON, Access, Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_errors import clean, parse_json, parse_object
from layton_batch.providers.wire_json import moment
from layton_batch.records import JsonValue, MatchingBatch, Reasoning, Request, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle


class Together(FileBatches):
    """See the module text."""

    name: str = "together"
    key_variable: str = "TOGETHER_API_KEY"
    limits: Limits = Limits(
        max_requests=50_000,
        max_bytes=99_000_000,
        max_line_bytes=9_900_000,
        window_seconds=72 * 3600.0,  # 24 hours best effort, up to 72
        max_enqueued_tokens=30_000_000_000,
        retention_seconds=7 * 86_400.0,  # undocumented: downloaded as soon as there are any
    )
    capabilities: Capabilities = Capabilities(
        tag=False,
        caveats=(
            "batches carry no tag: a lost one is told by its input file, whose requests carry the run's mark",
            "half price only for a published list of models, the standard price for others",
            "24 hours is best effort; a batch may take up to 72",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = MappingProxyType(
        {
            "VALIDATING": StatusMeaning(Lifecycle.IN_FLIGHT),
            "IN_PROGRESS": StatusMeaning(Lifecycle.IN_FLIGHT),
            "CANCELING": StatusMeaning(Lifecycle.CANCELLING),
            "CANCELLING": StatusMeaning(Lifecycle.CANCELLING),
            "COMPLETED": StatusMeaning(Lifecycle.ENDED, BatchOutcome.COMPLETED),
            "FAILED": StatusMeaning(Lifecycle.ENDED, BatchOutcome.FAILED),
            "EXPIRED": StatusMeaning(Lifecycle.ENDED, BatchOutcome.EXPIRED),
            "CANCELLED": StatusMeaning(Lifecycle.ENDED, BatchOutcome.CANCELLED),
        }
    )
    efforts: tuple[str, ...] = ("none", "low", "medium", "high")
    max_tokens_key: str = "max_tokens"

    def encode(self, request: Request) -> dict[str, JsonValue]:
        body = shape.chat_body(
            request, reasoning=self.reasoning(request.model.reasoning), max_tokens_key=self.max_tokens_key
        )
        return {"custom_id": request.custom_id, "body": body}

    def reasoning(self, wanted: Reasoning) -> Mapping[str, JsonValue]:
        """``none`` is a switch here, the others are efforts."""
        return {"reasoning": {"enabled": False}} if wanted.effort == "none" else super().reasoning(wanted)

    def upload(self, submission: Submission) -> str | None:
        """The file's id; bytes that are already there give the id they have."""
        if not submission.path.is_file():
            raise FileError(f"batch file {submission.path} cannot be read: there is no such file")
        with self._wire(f"upload {submission.file_name}"):
            file = self._open().files.upload(file=submission.path, purpose="batch-api", check=False)
            file_id = shape.text_or_none(getattr(file, "id", None))
        if file_id is None:
            raise ProviderReplyError(f"{self.name}: the reply to an upload names no id")
        return file_id

    def create(self, submission: Submission) -> str:
        ref = self._input_ref(submission)
        client = self._open().with_options(max_retries=0)
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            reply = client.batches.with_raw_response.create(
                input_file_id=ref, endpoint=shape.ENDPOINT, completion_window="24h"
            )
            reply_name = f"the reply to the creation of batch {submission.batch_id}"
            reply_body = parse_object(reply.http_response.content, self.name, reply_name)
            job = reply_body.get("job", reply_body)
            batch_id = shape.text_or_none(job.get("id")) if isinstance(job, Mapping) else None
            if batch_id is None:
                raise ProviderReplyError(f"{self.name}: {reply_name} names no job")
            return batch_id

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Jobs over our input file, whenever they were made: its id follows from its bytes, which carry the run's
        mark."""
        matches = []
        for job in submission.listed(self._jobs):
            if submission.input_ref and job.get("input_file_id") == submission.input_ref:
                created_at = moment(job, "created_at")
                matches.append(
                    MatchingBatch(shape.text_or_none(job.get("id")) or "", certain=True, created_at=created_at)
                )
        return matches

    def _jobs(self) -> Iterator[Mapping[str, JsonValue]]:
        """Every job: the list has one page."""
        with self._wire("list batches"):
            reply = self._open().batches.with_raw_response.list()
            listed = parse_json(reply.http_response.content, self.name, "the list of batches")
        if listed is not None and not isinstance(listed, list):
            raise ProviderReplyError(f"{self.name}: the list of batches is not a list")
        for job in listed or ():
            if not isinstance(job, Mapping):
                raise ProviderReplyError(f"{self.name}: the list of batches holds what is no batch")
            yield job

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        """With the files' sizes: of its rows this API counts none."""
        refs = [ref for ref in (snapshot.results_ref, snapshot.errors_ref) if ref]
        for part, ref in zip(super().results(snapshot), refs, strict=True):
            yield replace(part, size=self._size(ref))

    def _catalogue(self) -> Sequence[Mapping[str, JsonValue]]:
        """The public one, a bare list; the SDK itself lists a project's own models only."""
        import httpx

        reply = self._open().get("/v1/models", cast_to=httpx.Response)
        listed = parse_json(reply.content, self.name, "the list of models")
        models = listed.get("data") if isinstance(listed, Mapping) else listed
        if not isinstance(models, list):
            raise ProviderReplyError(f"{self.name}: the list of models is not a list")
        return [row for row in models if isinstance(row, Mapping)]

    def _size(self, ref: str) -> int | None:
        """Bytes of a file; None where that cannot be had, which is no reason not to download it."""
        try:
            with self._wire(f"look at file {ref}"):
                size = getattr(self._open().files.retrieve(ref), "bytes", None)
        except ProviderError:
            return None
        return size if isinstance(size, int) and size > 0 else None

    def _connect(self, key: str, access: Access) -> Any:
        import together

        base = access.base_url.rstrip("/").removesuffix("/v1") if access.base_url else None  # the SDK adds it
        http = open_client(together.DefaultHttpxClient, access, event_hooks=http_rules.HOOKS)
        return together.Together(
            api_key=key, base_url=base, timeout=access.timeout_seconds, max_retries=0, http_client=http
        )

    def _read(self, batch: Mapping[str, JsonValue], provider_id: str) -> Snapshot:
        word, means = shape.meaning(self.status_map, batch.get("status"), self.name, provider_id)
        ended, failed = means.state is Lifecycle.ENDED, means.outcome is BatchOutcome.FAILED
        error = shape.text_or_none(batch.get("error"))
        return Snapshot(
            provider_id=provider_id,
            provider_status=word,
            state=means.state,
            outcome=means.outcome,
            results_ref=shape.text_or_none(batch.get("output_file_id")) if ended else None,
            errors_ref=shape.text_or_none(batch.get("error_file_id")) if ended else None,
            message=clean(error) if error else NO_REASON if failed else None,
            error_class=shape.class_of_text(error or "") if failed else ErrorClass.NONE,
        )
