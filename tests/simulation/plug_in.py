"""Providers of simulated histories, as plug-ins: each call is a message to the conductor, which is the provider's side.

Three dialects differ in what their lists prove: ``tagged`` (a tag, and a list that is complete), ``untagged`` (requests
are known by their custom_ids once a batch has ended), ``uncertain`` (a tag, and a list that may lack batches).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from layton_batch import errors
from layton_batch.providers.protocol import Access, Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.records import JsonValue, MatchingBatch, Request, Response, Snapshot, Submission, Usage
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, RequestOutcome
from tests.simulation import wire

WINDOW_SECONDS = 4 * 3600.0
ROW_ERRORS = {
    "fault": ErrorClass.PROVIDER_FAULT,
    "refused": ErrorClass.INVALID_REQUEST,
    "expired": ErrorClass.NOT_EXECUTED,
}


class _Simulated:
    """What the dialects have in common."""

    name: ClassVar[str]
    limits = Limits(3, 1 << 20, 1 << 18, window_seconds=WINDOW_SECONDS, poll_seconds=60.0, calls_at_once=1)
    capabilities: ClassVar[Capabilities] = Capabilities()
    sends_tag: ClassVar[bool] = True
    status_map: Mapping[str, StatusMeaning] = {
        "running": Lifecycle.IN_FLIGHT,
        "stopping": Lifecycle.CANCELLING,
        "completed": BatchOutcome.COMPLETED,
        "failed": BatchOutcome.FAILED,
        "expired": BatchOutcome.EXPIRED,
        "cancelled": BatchOutcome.CANCELLED,
    }

    def __init__(self, access: Access | None) -> None:
        self._access = access

    def encode(self, request: Request) -> dict[str, JsonValue]:
        said: list[JsonValue] = [part for part in request.prompt.parts if isinstance(part, str)]
        return {
            "custom_id": request.custom_id,
            "model": request.model.model,
            "system": request.prompt.system,
            "said": said,
        }

    def upload(self, submission: Submission) -> str | None:
        uploaded: str = self._call("upload", submission.file_name, submission.path.read_bytes())
        return uploaded

    def create(self, submission: Submission) -> str:
        file = submission.input_ref or submission.path.read_bytes()
        provider_id: str = self._call("create", submission.tag if self.sends_tag else "", file, submission.tag)
        return provider_id

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        rows = submission.listed(lambda: self._call("list", submission.tag))
        return [
            MatchingBatch(row["id"], certain=True, created_at=row["created"])
            for row in rows
            if row["tag"] == submission.tag
        ]

    def snapshot(self, provider_id: str) -> Snapshot:
        row = self._call("poll", provider_id)
        meaning = self.status_map.get(row["status"])
        if meaning is None:
            raise errors.UnknownStatusError(f"unknown status {row['status']!r}", code=row["status"])
        outcome = meaning if isinstance(meaning, BatchOutcome) else None
        state = meaning if isinstance(meaning, Lifecycle) else Lifecycle.ENDED
        return Snapshot(
            provider_id, row["status"], state, outcome, results_ref=provider_id, total=row["total"],
            succeeded=row["succeeded"], failed=row["failed"], message=row["message"],
            error_class=ErrorClass.PROVIDER_FAULT if outcome is BatchOutcome.FAILED else ErrorClass.NONE,
        )  # fmt: skip

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        content, is_cut = self._call("results", snapshot.provider_id)

        def chunks() -> Iterator[bytes]:
            yield content
            if is_cut:
                raise errors.TransientProviderError("the transfer broke off")

        yield ResultPart("output", chunks())

    def decode(self, line: bytes) -> Response:
        try:
            row = json.loads(line)
            custom_id = str(row["custom_id"])
        except (ValueError, KeyError, TypeError) as error:
            named = line.partition(b'"custom_id": "')[2].partition(b'"')[0].decode()
            if not named:
                raise errors.ProviderReplyError("a line that names no request") from error
            return Response(named, RequestOutcome.ERRORED, error_class=ErrorClass.UNREADABLE, error_code="unreadable")
        if (kind := row.get("error")) is not None:
            outcome = RequestOutcome.EXPIRED if kind == "expired" else RequestOutcome.ERRORED
            return Response(
                custom_id, outcome, error_class=ROW_ERRORS[kind], error_code=kind, error_message=f"row {kind}"
            )
        usage = Usage(input_tokens=row["input"], output_tokens=row["output"])
        return Response(custom_id, RequestOutcome.SUCCEEDED, row["text"], FinishReason.STOP, "stop", usage=usage)

    def cancel(self, provider_id: str) -> None:
        self._call("cancel", provider_id)

    def _call(self, operation: str, *details: Any) -> Any:
        """Carry out one call. Raises what the provider's side says."""
        if self._access is None:
            raise errors.MissingKeyError(f"{self.name} needs a key")
        reply = wire.ask("call", self.name, operation, details)
        wire.ask("point", f"answered: {self.name} {operation}")
        if reply[0] == "error":
            _, kind, message, options = reply
            raise getattr(errors, kind)(f"{self.name}: {message}", **options)
        return reply[1]


class Tagged(_Simulated):
    name = "tagged"


class Uncertain(_Simulated):
    name = "uncertain"
    capabilities = Capabilities(certain_find=False)


class Untagged(_Simulated):
    """Requests go with the create. A batch that has ended is known by its custom_ids, one that runs by its size."""

    name = "untagged"
    sends_tag = False

    def upload(self, submission: Submission) -> str | None:
        return None

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        ours = {json.loads(line)["custom_id"] for line in submission.path.read_bytes().splitlines()}
        matches = []
        for row in submission.listed(lambda: self._call("list", submission.tag)):
            if row["id"] in submission.known_ids:
                continue
            if row["custom_ids"] is None:
                if row["total"] == submission.requests:
                    matches.append(MatchingBatch(row["id"], certain=False, created_at=row["created"], may_tell=True))
            elif ours & set(row["custom_ids"]):
                matches.append(MatchingBatch(row["id"], certain=True, created_at=row["created"]))
        return matches
