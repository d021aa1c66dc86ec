"""Calls that the dialects with OpenAI-shaped files and batches share: upload, create, find, poll, download, cancel.

A dialect adds its client, its limits and how it turns pages. The SDKs of OpenAI, Groq and Together have the same
resources under the same names, so one text serves them; each is imported by its own dialect only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import MappingProxyType
from typing import Any

from layton_batch.errors import (
    FileError,
    LookUpRefusedError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.providers import http_rules, model_notices
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.protocol import (
    USUAL_WINDOW,
    Access,
    Capabilities,
    Limits,
    ModelNotice,
    ResultPart,
    StatusMeaning,
)
from layton_batch.providers.wire_errors import api_key, parse_object, wire
from layton_batch.providers.wire_json import moment
from layton_batch.records import JsonValue, MatchingBatch, ModelSpec, Reasoning, Request, Response, Snapshot, Submission
from layton_batch.states import Lifecycle

ReplyPage = tuple[Mapping[str, JsonValue], Mapping[str, str]]
"""A page of a list, and the headers of the reply that showed it."""
TAG = "layton_batch"
"""The metadata key that carries our tag."""


class FileBatches:
    """The base of a dialect; the class attributes are what a dialect must or may set.

    ``efforts``: the reasoning words the API takes; ``windows``: how long a batch may be given; ``poll_query``: what a
    look at a batch asks for besides; ``lists_newest_first``: the order of its batches, by its documents.
    """

    name: str
    key_variable: str
    limits: Limits
    capabilities: Capabilities
    status_map: Mapping[str, StatusMeaning] = shape.STATUS_MAP
    efforts: tuple[str, ...]
    max_tokens_key: str
    windows: tuple[str, ...] = (USUAL_WINDOW,)
    poll_query: Mapping[str, str] = MappingProxyType({})
    lists_newest_first: bool = False

    def __init__(self, access: Access | None) -> None:
        self._access = access
        self._client: Any = None  # SDK clients of one shape and several types; Any, so that none is imported for a name

    # ---- no network

    def check(self, spec: ModelSpec) -> list[str]:
        """List in words which of a model's settings this API cannot do."""
        return shape.spec_problems(spec, efforts=self.efforts)

    def encode(self, request: Request) -> dict[str, JsonValue]:
        """One line of a batch file, as an object."""
        body = shape.chat_body(
            request, reasoning=self.reasoning(request.model.reasoning), max_tokens_key=self.max_tokens_key
        )
        return {"custom_id": request.custom_id, "method": "POST", "url": shape.ENDPOINT, "body": body}

    def endpoint(self, model: str) -> str:
        """Return the endpoint of a batch of this model's requests: the ``url`` of every line."""
        return shape.ENDPOINT

    def reasoning(self, wanted: Reasoning) -> Mapping[str, JsonValue]:
        """The body's reasoning fields."""
        return {} if wanted.effort is None else {"reasoning_effort": wanted.effort}

    def decode(self, line: bytes) -> Response:
        """One line of an output or error file."""
        return shape.decode_row(line, self.name, self.reply)

    def reply(self, custom_id: str, body: JsonValue) -> Response:
        """Read the reply in a result line."""
        return shape.chat_reply(custom_id, body)

    # ---- network

    def upload(self, submission: Submission) -> str | None:
        """The file's id. A file of this name and size that is already there is taken as it is: its name has digits of
        its digest, so it is the one that an interrupted upload left behind."""
        try:
            size = submission.path.stat().st_size
            handle = submission.path.open("rb")
        except OSError as error:
            raise FileError(f"batch file {submission.path} cannot be read: {error.strerror}") from error
        with handle:
            try:
                file_id = self._uploaded(submission.file_name, size)
            except RequestRefusedError as error:
                raise LookUpRefusedError(str(error), status=error.status, code=error.code) from error
            if file_id is not None:
                return file_id
            with self._wire(f"upload {submission.file_name}"):
                # an open handle is streamed; a path or bytes would be held in memory whole
                reply = self._open().files.with_raw_response.create(
                    file=(submission.file_name, handle, "application/jsonl"), purpose="batch"
                )
                return self._id(reply, "the reply to an upload")

    def create(self, submission: Submission) -> str:
        """The one paid call."""
        input_ref = self._input_ref(submission)
        client = self._open().with_options(max_retries=0)
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            reply = client.batches.with_raw_response.create(
                input_file_id=input_ref,
                endpoint=self.endpoint(submission.model),
                completion_window=submission.window or USUAL_WINDOW,
                metadata={TAG: submission.tag},
            )
            return self._id(reply, f"the reply to the creation of batch {submission.batch_id}")

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Batches that carry our tag, or, where the listing shows no tag, our input file (its name is unique to us)."""
        matches = []
        for batch in submission.listed(partial(self._listed, submission)):
            provider_id, tag = shape.text_or_none(batch.get("id")) or "", _tag(batch)
            if _is_ours(batch, tag, submission):
                matches.append(MatchingBatch(provider_id, certain=True, created_at=moment(batch, "created_at")))
            elif tag is not None and submission.is_of_a_copy(provider_id, [tag]):
                matches.append(MatchingBatch(provider_id, certain=False, of_a_copy=True))
        return matches

    def snapshot(self, provider_id: str) -> Snapshot:
        with self._wire(f"poll batch {provider_id}"):
            query = {"extra_query": self.poll_query} if self.poll_query else {}
            reply = self._open().batches.with_raw_response.retrieve(provider_id, **query)
            return self._read(self._object(reply, f"the state of batch {provider_id}"), provider_id)

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        for kind, ref in (("output", snapshot.results_ref), ("errors", snapshot.errors_ref)):
            if ref:
                yield ResultPart(kind, self._download(ref), partial(self._download, ref))

    def cancel(self, provider_id: str) -> None:
        try:
            with self._wire(f"cancel batch {provider_id}"):
                self._open().batches.with_raw_response.cancel(provider_id)
        except ProviderError as error:
            # the API refuses to cancel what has ended; whether that is why is seen only by looking
            if error.status not in (400, 409) or self.snapshot(provider_id).state is Lifecycle.IN_FLIGHT:
                raise

    def about(self, model: str) -> ModelNotice | None:
        """Read the catalogue. A model id may hold a slash, which not every server accepts in a page's address."""
        with self._wire("list models"):
            return model_notices.in_list(self._catalogue(), model, self.name)

    def close(self) -> None:
        """Let go of connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    # ---- what a dialect adds or changes

    def _connect(self, key: str, access: Access) -> Any:
        """The SDK's client, its own retries off."""
        raise NotImplementedError

    def _file_page(self) -> Any:
        """The SDK's raw reply to a listing of (the newest) batch files."""
        raise NotImplementedError

    def _catalogue(self) -> Sequence[Mapping[str, JsonValue]]:
        """Every model that is served."""
        return rows(self._object(self._open().models.with_raw_response.list(), "the list of models"), self.name)

    def _pages(self) -> Iterator[ReplyPage]:
        """Pages of the batch listing, each with the headers of its reply."""

        def read(last: str | None) -> ReplyPage:
            after = {"after": last} if last else {}
            return self._page(self._open().batches.with_raw_response.list(limit=100, **after))

        def following(reply_page: ReplyPage) -> str | None:
            page, _ = reply_page
            return (shape.text_or_none(page.get("last_id")) or "") if page.get("has_more") else None

        return http_rules.turned(self.name, read, following)

    def _page(self, reply: Any) -> ReplyPage:
        return self._object(reply, "the list of batches"), reply.http_response.headers

    def _read(self, batch: Mapping[str, JsonValue], provider_id: str) -> Snapshot:
        return shape.snapshot_of(batch, provider_id, self.name, self.status_map)

    def _check_download(self, reply: Any) -> None:
        """Hook: refuse a download that the server itself calls incomplete."""

    # ---- shared machinery

    def _open(self) -> Any:
        if self._client is None:
            key = api_key(self._access, self.key_variable, self.name)
            assert self._access is not None  # noqa: S101 - api_key has just seen to it
            with self._wire("open the client"):
                self._client = self._connect(key, self._access)
        return self._client

    def _wire(self, call: str, *, paid: bool = False) -> AbstractContextManager[None]:
        secret = self._access.api_key.strip() if self._access is not None else ""
        return wire(self.name, call, secret=secret, paid=paid)

    def _input_ref(self, submission: Submission) -> str:
        if not submission.input_ref:
            raise ProviderError(f"{self.name}: batch {submission.batch_id} cannot be created: it was not uploaded")
        return submission.input_ref

    def _object(self, reply: Any, reply_name: str) -> Mapping[str, JsonValue]:
        # the raw bytes, not the SDK's object: its parsing is lenient and hides what is missing
        return parse_object(reply.http_response.content, self.name, reply_name)

    def _id(self, reply: Any, reply_name: str) -> str:
        object_id = shape.text_or_none(self._object(reply, reply_name).get("id"))
        if object_id is None:
            raise ProviderReplyError(f"{self.name}: {reply_name} names no id")
        return object_id

    def _uploaded(self, file_name: str, size: int) -> str | None:
        with self._wire("list files"):
            for file in rows(self._object(self._file_page(), "the list of files"), self.name):
                same = file.get("filename") == file_name and file.get("bytes") == size
                if same and file.get("purpose", "batch") == "batch" and file.get("status") != "error":
                    return shape.text_or_none(file.get("id"))
        return None

    def _listed(self, submission: Submission) -> Iterator[Mapping[str, JsonValue]]:
        """Every batch of the list that may be looked for: whose it is the tag tells."""
        back = http_rules.ListOrder(submission)
        with self._wire("list batches"):
            for page, headers in self._pages():
                batches = rows(page, self.name)
                yield from batches
                created = [moment(batch, "created_at") for batch in batches]
                if self.lists_newest_first and back.is_read(created, headers):
                    return

    def _download(self, ref: str, start: int = 0) -> Iterator[bytes]:
        files = self._open().files.with_streaming_response
        with self._wire(f"download {ref}"), files.content(ref, extra_headers=http_rules.range_headers(start)) as reply:
            http_rules.check_range(self.name, start, reply.status_code, reply.headers)
            self._check_download(reply)
            yield from reply.iter_bytes()  # as they come: what waits to fill a larger piece is lost with the connection


def rows(page: Mapping[str, JsonValue], provider: str) -> list[Mapping[str, JsonValue]]:
    """The objects of a listing's page; null stands for none."""
    data = page.get("data")
    if data is None and "data" in page:
        return []
    objects = [row for row in data if isinstance(row, Mapping)] if isinstance(data, list) else None
    if objects != data or objects is None:
        raise ProviderReplyError(f"{provider}: a listing holds no list of objects")
    return objects


def incomplete(provider: str) -> TransientProviderError:
    """The server says that a file is not all there yet."""
    return TransientProviderError(f"{provider}: a result file of a batch that has ended is still being written")


def _tag(batch: Mapping[str, JsonValue]) -> str | None:
    metadata = batch.get("metadata")
    tag = metadata.get(TAG) if isinstance(metadata, Mapping) else None
    return None if tag is None else str(tag)


def _is_ours(batch: Mapping[str, JsonValue], tag: str | None, submission: Submission) -> bool:
    if tag is not None:
        return tag == submission.tag
    return submission.input_ref is not None and batch.get("input_file_id") == submission.input_ref
