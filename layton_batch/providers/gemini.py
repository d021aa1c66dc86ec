"""The batch API of the Gemini Developer API, through ``google-genai``.

Uploads, creation and cancelling go through the SDK. Operations are read as the API sends them, over the SDK's own HTTP
client and connections: the SDK's objects drop a batch's error and counts, and turn an unknown state into a warning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    UnknownStatusError,
)
from layton_batch.providers import gemini_forms as forms
from layton_batch.providers import http_rules
from layton_batch.providers.http_client import certificates, open_client
from layton_batch.providers.openai_shape import meaning
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
from layton_batch.providers.wire_json import JsonObject, at, count, moment, objects, text, whole
from layton_batch.records import JsonValue, MatchingBatch, ModelSpec, Request, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

if TYPE_CHECKING:
    import httpx2
    from google import genai

ADDRESS = "https://generativelanguage.googleapis.com"
VERSION, OLDER_VERSION = "v1", "v1beta"
"""The SDK speaks the first by itself. Google's pages on batches still show the second, and the first was seen to refuse
what it lacks: a call that is refused for that goes to the second, which is then kept.

Only a refusal with 404 or 400 leads there: it is certain that nothing was created and nothing is billed."""

_Made = TypeVar("_Made")
_KEY_HEADER = "x-goog-api-key"
_RUNNING = ("PENDING", "QUEUED", "RUNNING", "PAUSED", "UPDATING")
_ENDED = {
    "SUCCEEDED": BatchOutcome.COMPLETED,
    "PARTIALLY_SUCCEEDED": BatchOutcome.COMPLETED,
    "FAILED": BatchOutcome.FAILED,
    "CANCELLED": BatchOutcome.CANCELLED,
    "EXPIRED": BatchOutcome.EXPIRED,
}
_MEANINGS = {
    **{word: StatusMeaning(Lifecycle.IN_FLIGHT) for word in _RUNNING},
    "CANCELLING": StatusMeaning(Lifecycle.CANCELLING),
    **{word: StatusMeaning(Lifecycle.ENDED, outcome) for word, outcome in _ENDED.items()},
}
JOB_STATES: Mapping[str, StatusMeaning] = MappingProxyType({f"JOB_STATE_{w}": m for w, m in _MEANINGS.items()})
"""The words of Vertex and of the SDK."""
_BATCH_STATES = {f"BATCH_STATE_{word}": means for word, means in _MEANINGS.items()}  # the words of the wire


class Gemini:
    """See the module text."""

    name: str = "gemini"
    limits: Limits = Limits(
        max_requests=200_000,  # none is documented; the file's size is what counts
        max_bytes=1_980_000_000,  # 2 GB less 1 %
        max_line_bytes=1_980_000_000,
        window_seconds=48 * 3600.0,  # 24 hours is the target, 48 the end
        max_concurrent_batches=100,
        retention_seconds=42 * 86_400.0,
    )
    capabilities: Capabilities = Capabilities(
        caveats=(
            "enqueued tokens are limited per model and tier; above that creation is refused with 429",
            "a batch that expires after 48 hours or is cancelled gives no results at all",
            "uploaded batch files vanish after 48 hours",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = MappingProxyType({**_BATCH_STATES, **JOB_STATES})

    def __init__(self, access: Access | None) -> None:
        self._access = access
        version = access.api_version if access is not None else None
        self._version, self._may_change = version or VERSION, version is None
        self._http: httpx2.Client | None = None
        self._client: genai.Client | None = None

    # ---- no network

    def check(self, spec: ModelSpec) -> list[str]:
        """List in words which of a model's settings this API cannot do."""
        return forms.problems(spec)

    def encode(self, request: Request) -> dict[str, JsonValue]:
        return forms.encode(request)

    def decode(self, line: bytes) -> Response:
        return forms.decode(line, self.name)

    # ---- network

    def upload(self, submission: Submission) -> str | None:
        """The file's name, chosen by us: a second upload of it is refused and the first one is taken."""
        name = _file_name(submission)
        client = self._connected()
        if not submission.path.is_file():
            raise FileError(f"gemini: batch file {submission.path} cannot be read: there is no such file")

        def send() -> None:
            # the address per call too: else data goes to whatever host the reply names
            options = {"base_url": self._address(), "api_version": self._version}
            with self._wire(f"upload {submission.file_name}"):
                client.files.upload(
                    file=submission.path,
                    config={  # type: ignore[arg-type]
                        "name": name,
                        "display_name": submission.tag,
                        "mime_type": "application/jsonl",
                        "http_options": options,
                    },
                )

        try:
            self._in_a_version_that_knows(send)
        except ProviderError as error:
            # 404 too: the SDK may send the last part again by itself when only the reply to it was bad
            if error.status not in (400, 404, 409) or not self._is_there(name, submission):
                raise
        return name

    def create(self, submission: Submission) -> str:
        if submission.input_ref is None:
            raise ProviderError(f"gemini: batch {submission.batch_id} was not uploaded before it was to be created")
        client, source = self._connected(), {"file_name": submission.input_ref}

        def send() -> str:
            with self._wire(f"create batch {submission.batch_id}", paid=True):
                options = {"api_version": self._version}
                job = client.batches.create(
                    model=submission.model,
                    src=source,  # type: ignore[arg-type]
                    config={"display_name": submission.tag, "http_options": options},  # type: ignore[arg-type]
                )
                if not job.name:
                    raise ProviderReplyError("gemini: the reply to a create names no batch")
                return job.name

        return self._in_a_version_that_knows(send, paid=True)

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Batches of our display name; what shows nothing of itself may be ours, and only a person can know.

        Where a create was tried and our version shows none, the older one is asked too: it may have been made there.
        """
        matches = self._found(submission)
        if not matches and submission.intended_at is not None and self._may_change and self._version == VERSION:
            self._version = OLDER_VERSION
            try:
                matches = self._found(submission)
            except RequestRefusedError as error:
                if not forms.is_of_version(error, named=False):
                    raise
            finally:
                self._version = OLDER_VERSION if matches else VERSION
        return matches

    def _found(self, submission: Submission) -> Sequence[MatchingBatch]:
        matches = []
        for operation in submission.listed(self._listed, self._version):
            shown, metadata = isinstance(operation.get("metadata"), Mapping), at(operation, "metadata")
            name, tag = text(operation, "name"), text(metadata, "displayName")
            if shown and tag != submission.tag:
                if submission.is_of_a_copy(name, [tag or ""]):
                    matches.append(MatchingBatch(name or "", certain=False, of_a_copy=True))
                continue
            if name is None and not shown:
                raise ProviderReplyError("gemini: the list of batches shows one without a name")
            matches.append(MatchingBatch(name or "", certain=shown, created_at=moment(metadata, "createTime")))
        return matches

    def snapshot(self, provider_id: str) -> Snapshot:
        operation = self._get(_resource(provider_id), f"poll batch {provider_id}")
        metadata, error = at(operation, "metadata"), at(operation, "error")
        word, means = meaning(self.status_map, metadata.get("state"), self.name, provider_id)
        stats = at(metadata, "batchStats")
        file = text(at(metadata, "output"), "responsesFile") or text(at(operation, "response"), "responsesFile")
        outcome = means.outcome
        if outcome is BatchOutcome.COMPLETED and file is None:
            if not forms.all_failed(stats):  # as a word that tells nothing: the file may still come; the deadline holds
                raise UnknownStatusError(
                    f"gemini: batch {provider_id} is {word} but names no results file", code=f"{word} without results"
                )
            outcome = BatchOutcome.FAILED
        failed = outcome is BatchOutcome.FAILED
        return Snapshot(
            provider_id=provider_id,
            provider_status=word,
            state=means.state,
            outcome=outcome,
            results_ref=file if means.state is Lifecycle.ENDED else None,
            total=whole(stats.get("requestCount")),
            succeeded=forms.counted(stats, "successfulRequestCount"),
            failed=forms.counted(stats, "failedRequestCount"),
            message=clean(text(error, "message") or "") or (NO_REASON if failed else None),
            error_class=forms.error_class_of(error) if failed else ErrorClass.NONE,
        )

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if snapshot.results_ref:
            ref = snapshot.results_ref
            yield ResultPart("output", self._download(ref), partial(self._download, ref))

    def cancel(self, provider_id: str) -> None:
        client = self._connected()

        def send() -> None:
            with self._wire(f"cancel batch {provider_id}"):
                client.batches.cancel(name=provider_id, config={"http_options": {"api_version": self._version}})

        try:
            self._in_a_version_that_knows(send)
        except ProviderError as error:
            # what has ended cannot be cancelled; Google's word for that, FAILED_PRECONDITION, is also its word for an
            # account without billing, so whether the end is why is seen only by looking
            if error.status not in (400, 402, 409) or self.snapshot(provider_id).state is Lifecycle.IN_FLIGHT:
                raise

    def about(self, model: str) -> ModelNotice | None:
        """Read the model's own page, in the API's preview where the API itself does not have it."""
        client = self._connected()
        for version in (VERSION, "v1beta"):
            options = {"http_options": {"base_url": self._address(), "api_version": version}}
            try:
                with self._wire("ask about a model"):
                    page = client.models.get(model=model, config=options)  # type: ignore[arg-type]
                    return ModelNotice((page.name or "").removeprefix("models/") or None)
            except NotFoundError:
                continue
        return None

    def close(self) -> None:
        """Let go of connections; the next call opens new ones."""
        if self._client is not None:
            self._client.close()
        if self._http is not None:
            self._http.close()
        self._client = self._http = None

    # ---- wire

    def _key(self) -> str:
        return api_key(self._access, "GEMINI_API_KEY", self.name)

    def _address(self) -> str:
        return ((self._access.base_url if self._access else None) or ADDRESS).rstrip("/")

    def _wire(self, call: str, *, paid: bool = False) -> AbstractContextManager[None]:
        return wire(self.name, call, secret=self._key(), paid=paid)

    def _in_a_version_that_knows(self, call: Callable[[], _Made], *, paid: bool = False) -> _Made:
        """Return the result of ``call``. Repeat the call in the older version where ours may lack the method.

        The older one is kept where it carried the call out, or may have. ``paid``: only where the refusal is of a
        method or a field; what may be about the file or the model is no reason to send a create again.
        """
        try:
            return call()
        except RequestRefusedError as error:
            is_newer = self._may_change and self._version == VERSION
            if not is_newer or not forms.is_of_version(error, named=paid):
                raise
        self._version = OLDER_VERSION
        try:
            return call()
        except ProviderError as error:
            if not isinstance(error, AmbiguousCallError):
                self._version = VERSION
            raise

    def _transport(self) -> httpx2.Client:
        key = self._key()
        if self._http is None:
            import httpx2

            # no redirects of the SDK's calls, one of which is paid: what the next address says is not what became of it
            headers = {_KEY_HEADER: key}
            self._http = open_client(httpx2.Client, self._access, headers=headers, follow_redirects=False)
        return self._http

    def _connected(self) -> genai.Client:
        transport = self._transport()
        if self._client is None:
            from google import genai

            seconds = self._access.timeout_seconds if self._access else 600.0
            self._client = genai.Client(
                vertexai=False,  # else an environment variable could send everything elsewhere
                api_key=self._key(),
                http_options={  # type: ignore[arg-type]
                    "base_url": self._address(),
                    "api_version": self._version,
                    "timeout": int(seconds * 1000),
                    "retry_options": {"attempts": 1},
                    "httpx_client": transport,
                    "async_client_args": dict.fromkeys(("verify", "ssl"), certificates("httpx2")),  # unused
                },
            )
        return self._client

    def _get(self, path: str, call: str, params: Mapping[str, str] | None = None) -> JsonObject:
        transport = self._transport()

        def ask() -> JsonObject:
            with self._wire(call):
                url = f"{self._address()}/{self._version}/{path}"
                reply = transport.get(url, params=params, follow_redirects=True)
                reply.raise_for_status()
                return parse_object(reply.content, self.name, f"the reply to: {call}")

        return self._in_a_version_that_knows(ask)

    def _listed(self) -> Iterator[JsonObject]:
        """Every operation: the API neither filters nor promises an order."""

        def read(token: str | None) -> JsonObject:
            return self._get("batches", "list batches", {"pageSize": "100"} | ({"pageToken": token} if token else {}))

        def following(page: JsonObject) -> str | None:
            return (text(page, "nextPageToken") or "") if page.get("nextPageToken") else None

        for page in http_rules.turned(self.name, read, following):
            yield from _rows(page)

    def _is_there(self, name: str, submission: Submission) -> bool:
        """Return whether an earlier upload of the same bytes holds the name; 403 or 404 where there is none."""
        try:
            file = self._get(_resource(name), f"look for the uploaded file {name}")
        except RequestRefusedError:
            return False
        return count(file, "sizeBytes") == submission.path.stat().st_size and text(file, "state") != "FAILED"

    def _download(self, name: str, start: int = 0) -> Iterator[bytes]:
        transport, headers = self._transport(), http_rules.range_headers(start)
        with self._wire(f"download {name}"), ExitStack() as open_replies:

            def ask() -> httpx2.Response:
                with self._wire(f"download {name}"):
                    url = f"{self._address()}/{self._version}/{_resource(name)}:download"
                    stream = transport.stream(
                        "GET", url, params={"alt": "media"}, headers=headers, follow_redirects=True
                    )
                    reply = open_replies.enter_context(stream)
                    if reply.is_error:
                        reply.read()
                    reply.raise_for_status()
                    return reply

            reply = self._in_a_version_that_knows(ask)
            http_rules.check_range(self.name, start, reply.status_code, reply.headers)
            yield from reply.iter_bytes()  # as they come: what waits to fill a larger piece is lost with the connection


def _rows(page: JsonObject) -> list[JsonObject]:
    """The operations of a page; none at all are left out. What is no listing must not count as an empty one."""
    rows = objects(page, "operations")
    if "error" in page or (page and page.keys().isdisjoint(("operations", "nextPageToken"))):
        raise ProviderReplyError("gemini: what was to be the list of batches is none")
    if page.get("operations", []) != rows:
        raise ProviderReplyError("gemini: the list of batches holds no batches")
    return rows


def _file_name(submission: Submission) -> str:
    """At most 40 characters of a-z, 0-9 and dashes, the same for the same attempt with the same bytes."""
    digest = hashlib.sha256(f"{submission.tag}\n{submission.sha256}".encode()).hexdigest()
    return f"files/layton-{digest[:32]}"


def _resource(name: str) -> str:
    return quote(name, safe="/")
