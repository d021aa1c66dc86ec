"""Together's batch API through the ``together`` SDK: files addressed by content, jobs without a tag.

A job is told by its input file, whose id follows from its bytes: they hold custom_ids with the run's own mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from layton_batch.errors import ProviderError, ProviderReplyError
from layton_batch.providers import chat
from layton_batch.providers.dialect import Send, opened
from layton_batch.providers.error_classes import error_class
from layton_batch.providers.finding import ListedBatch, rows
from layton_batch.providers.openai import FileBatches
from layton_batch.providers.protocol import Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_json import JsonObject, moment, parse_json, text, whole
from layton_batch.records import JsonValue, Reasoning, Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle

_OUTCOMES = ("COMPLETED", "FAILED", "EXPIRED", "CANCELLED")


class Together(FileBatches):
    """See the module text."""

    name: str = "together"
    key_variable: str = "TOGETHER_API_KEY"
    library: str = "httpx"
    sdk_path: str = "/v1"
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
            **dict.fromkeys(("VALIDATING", "IN_PROGRESS"), StatusMeaning(Lifecycle.IN_FLIGHT)),
            **dict.fromkeys(("CANCELING", "CANCELLING"), StatusMeaning(Lifecycle.CANCELLING)),
            **{word: StatusMeaning(Lifecycle.ENDED, BatchOutcome(word.lower())) for word in _OUTCOMES},
        }
    )
    efforts: tuple[str, ...] = ("none", "low", "medium", "high")
    max_tokens_key: str = "max_tokens"
    names_call: bool = False

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
        for job in rows({"jobs": reply or []}, "jobs", self.name):
            created_at, inputs = moment(job, "created_at"), (job.get("input_file_id"),)
            yield ListedBatch(text(job, "id") or "", created_at, inputs=inputs)

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
