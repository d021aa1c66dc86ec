"""The common part of the dialects: one client, one way to call, to read a state, to find, to download and to cancel.

The SDK sends, and its replies are read as they came: SDKs' own models hide what is missing, and some refuse a whole
page for one odd field.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from layton_batch.errors import FileError, NotFoundError, ProviderError, ProviderReplyError, UnknownStatusError
from layton_batch.providers import OWN_ADDRESSES
from layton_batch.providers.finding import ListedBatch, by_name, by_requests, clock_of
from layton_batch.providers.http_client import check_range, open_client, range_headers
from layton_batch.providers.inline import first_custom_ids
from layton_batch.providers.protocol import (
    NO_REASON,
    USUAL_WINDOW,
    Access,
    Capabilities,
    Limits,
    ResultPart,
    StatusMeaning,
)
from layton_batch.providers.wire_errors import api_key, wire
from layton_batch.providers.wire_json import JsonObject, at, clean, excerpt, parse_object, text
from layton_batch.records import JsonValue, MatchingBatch, ModelSpec, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

Send = Callable[[Any], object]
"""One call of an SDK's client. Any: clients of one shape and several types, none of which is imported for a name."""


class Dialect:
    """The base of a dialect; the class attributes are what a dialect must or may set.

    ``library``: the HTTP library of its SDK; ``sdk_path``: the beginning of the paths that the SDK puts behind the
    address; ``windows``: how long a batch may be given; ``refuses_cancel``: HTTP statuses with which the API may refuse
    to cancel what has ended; ``storage``: addresses of other hosts that its documents have files on; ``efforts``: the
    reasoning words it takes; ``takes_budgets``: whether it takes budgets too; ``own_params``: parameters that are set
    here; ``live_params``: parameters of single calls; ``name_key``: the name of a request in a result
    line; ``shows_requests``: its batches carry no name and no file, and
    are told by their requests; ``resumes``: a download may begin anywhere.
    """

    name: str
    limits: Limits
    capabilities: Capabilities
    status_map: Mapping[str, StatusMeaning]
    library: str = "httpx2"
    sdk_path: str = ""
    windows: tuple[str, ...] = (USUAL_WINDOW,)
    refuses_cancel: Sequence[int] = (400, 409)
    storage: Sequence[str] = ()
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    takes_budgets: bool = False
    own_params: tuple[str, ...] = ("model", "messages")
    live_params: tuple[str, ...] = ("stream", "n")
    name_key: str = "custom_id"
    shows_requests: bool = False
    resumes: bool = True

    def __init__(self, access: Access | None) -> None:
        if access is not None and access.base_url is None:
            access = replace(access, base_url=OWN_ADDRESSES.get(self.name))
        self._access = access
        self._client: Any = None
        self._http: Any = None

    # ---- what a dialect adds

    def _client_class(self, key: str) -> Callable[..., Any]:
        """Return the SDK's class of clients. It is imported here and not before."""
        raise NotImplementedError

    def _connect(self, key: str, access: Access, http: Any) -> Any:
        """Make the SDK's client over the HTTP client, its own retries off."""
        make, seconds = self._client_class(key), access.patience.seconds
        # the address is always given: else an SDK would take one from the environment and send the key there
        return make(api_key=key, base_url=self._address, timeout=seconds, max_retries=0, http_client=http)

    def _cancel(self, client: Any, provider_id: str) -> object:
        """Send the call that cancels a batch."""
        raise NotImplementedError

    def _decoded(self, custom_id: str, row: JsonObject) -> Response:
        """Read the result of a request."""
        raise NotImplementedError

    def _listed(self, submission: Submission) -> Iterator[ListedBatch]:
        """Yield every batch of the provider's list that may be looked for."""
        raise NotImplementedError

    def _download(self, ref: str, start: int = 0) -> Generator[bytes, None, None]:
        """Yield a file of results from byte ``start`` on."""
        raise NotImplementedError

    # ---- no network

    def check(self, spec: ModelSpec) -> list[str]:
        """List what the API cannot do of a model's settings, each with what to change."""
        efforts, effort = ", ".join(self.efforts), spec.reasoning.effort
        problems = []
        if spec.reasoning.budget_tokens is not None and not self.takes_budgets:
            problems.append(f"{spec.provider} knows reasoning efforts, not budgets: set reasoning to one of {efforts}")
        if effort is not None and effort not in self.efforts:
            problems.append(f"{spec.provider} does not know reasoning effort {effort!r}: use one of {efforts}")
        own = [f"{key} cannot be overridden" for key in self.own_params if key in spec.params]
        live = [f"{key} does not work in a batch" for key in self.live_params if spec.params.get(key)]
        return problems + [f"params.{fault}: leave it out" for fault in (*own, *live)]

    def decode(self, line: bytes) -> Response:
        """Read one result line."""
        row = parse_object(line, self.name, "a result line")
        custom_id = text(row, self.name_key) or text(at(row, "metadata"), self.name_key)
        if custom_id is None:
            raise ProviderReplyError(f"{self.name}: a result line names no {self.name_key}: {excerpt(line)}")
        return self._decoded(custom_id, row)

    # ---- calls

    def _key(self) -> str:
        return api_key(self._access, self.name)

    def _open(self) -> Any:
        """Return the SDK's client, made at the first call."""
        if self._client is None:
            key = self._key()
            assert self._access is not None  # noqa: S101 - api_key has just seen to it
            with self._wire("open the client"):
                self._http = open_client(self.library, self._access, self.storage)
                self._client = self._connect(key, self._access, self._http)
        return self._client

    def close(self) -> None:
        """Let go of connections; the next call opens new ones."""
        http, self._client, self._http = self._http, None, None
        if http is not None:
            http.close()

    def _wire(self, call: str, *, paid: bool = False) -> AbstractContextManager[None]:
        secret = self._access.api_key.strip() if self._access is not None else ""
        return wire(self.name, call, secret=secret, paid=paid)

    def _reply(self, send: Send) -> Any:
        """Return the reply to a call as it came. What an SDK objects to in a success is passed over."""
        client = self._open()
        self._http.last = None  # what is raised before the call is not about an earlier reply
        try:
            send(client)
        except Exception:
            if self._http.last is None or not self._http.last.is_success:
                raise
        return self._http.last.raise_for_status()

    def _ask(self, call: str, send: Send, *, paid: bool = False) -> JsonObject:
        """Return the JSON object of a call's reply."""
        with self._wire(call, paid=paid):
            return parse_object(self._reply(send).content, self.name, f"the reply to: {call}")

    def _made(self, call: str, send: Send, key: str = "id", *, within: str = "", paid: bool = False) -> str:
        """Return the id under ``key`` of what a call made. ``within``: the key of the object, if the reply wraps it."""
        with self._wire(call, paid=paid):
            reply = self._ask(call, send, paid=paid)
            made_id = text(at(reply, within) or reply, key)
            if made_id is None:
                raise ProviderReplyError(f"{self.name}: {call}: the reply names no {key}")
            return made_id

    def _created(self, submission: Submission, send: Send, key: str = "id", *, within: str = "") -> str:
        """Return the id of the batch that the one paid call made."""
        self._open()  # what fails here was not sent
        return self._made(f"create batch {submission.batch_id}", send, key, within=within, paid=True)

    def _clock(self) -> float | None:
        """Return the provider's clock as of the last reply, epoch seconds."""
        return clock_of(self._http.last.headers)

    @property
    def _address(self) -> str:
        """The address as the SDK takes it, which adds ``sdk_path``; manifests and gateways name it in full, too."""
        address = (self._access.base_url if self._access is not None else None) or ""
        return address.rstrip("/").removesuffix(self.sdk_path)

    def _url(self, path: str) -> str:
        return f"{self._address}{self.sdk_path}{path}"

    def _headers(self) -> dict[str, str]:
        """Return the headers that the SDK sends with each call: key, organisation and its own name."""
        client = self._open()
        headers = {**client.auth_headers, **client.default_headers}
        return {key: value for key, value in headers.items() if isinstance(value, str)} | {"Accept": "*/*"}

    def _stream(self, url: str, call: str, start: int = 0) -> Generator[bytes, None, None]:
        """Yield the bytes at a URL from ``start`` on, as they come: what waits to fill a larger piece is lost with the
        connection."""
        headers = {**self._headers(), **range_headers(start)}
        with self._wire(call), self._http.stream("GET", url, headers=headers) as reply:
            if reply.is_error:
                reply.read()
            reply.raise_for_status()
            check_range(self.name, start, reply)
            self._check_download(reply)
            yield from reply.iter_bytes()

    def _check_download(self, reply: Any) -> None:
        """Raise ProviderError for a download that the server itself calls incomplete."""

    # ---- parts of the protocol

    def upload(self, submission: Submission) -> str | None:
        return None

    def _input_ref(self, submission: Submission) -> str:
        if not submission.input_ref:
            raise ProviderError(f"{self.name}: batch {submission.batch_id} cannot be created: it was not uploaded")
        return submission.input_ref

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        batches = submission.listed(partial(self._listed, submission))
        if self.shows_requests:
            return by_requests(batches, submission, self._first_custom_ids)
        return by_name(batches, submission, self._name_of(submission))

    def _first_custom_ids(self, provider_id: str) -> frozenset[str]:
        """Return the first ``custom_id``s of a batch's results; none while they cannot be read (404 just after the
        end)."""
        try:
            with closing(self._download(provider_id)) as results:
                return first_custom_ids(results)
        except NotFoundError:
            return frozenset()

    def _name_of(self, submission: Submission) -> str:
        """Return what a batch of ours is named in the provider's list."""
        return submission.tag

    def _meaning(self, word: JsonValue, provider_id: str) -> tuple[str, StatusMeaning]:
        """Return a status word and its meaning. UnknownStatusError names a word that the documents do not."""
        if not isinstance(word, str) or not word:
            raise ProviderReplyError(f"{self.name}: batch {provider_id} shows no status")
        if word not in self.status_map:
            shown = clean(word, 80)
            raise UnknownStatusError(
                f"{self.name}: batch {provider_id} has status {shown!r}, which its documents do not name", code=shown
            )
        return word, self.status_map[word]

    def _snapshot(
        self,
        provider_id: str,
        word: JsonValue,
        *,
        outcome: BatchOutcome | None = None,
        files: tuple[JsonValue, JsonValue] = (None, None),
        counts: tuple[int | None, int | None, int | None] = (None, None, None),
        reason: str | None = None,
        error_class: ErrorClass = ErrorClass.PROVIDER_FAULT,
    ) -> Snapshot:
        """Return a reading of a batch. ``outcome``: unless the word says it; ``files``: of results and errors, which
        count only once it has ended, for some servers name them before; ``counts``: total, succeeded, failed;
        ``reason`` and ``error_class``: why it failed."""
        word, means = self._meaning(word, provider_id)
        has_ended = isinstance(means, BatchOutcome)
        outcome = (outcome or means) if isinstance(means, BatchOutcome) else None
        has_failed = outcome is BatchOutcome.FAILED
        results_ref, errors_ref = (self._file(ref, provider_id) if has_ended else None for ref in files)
        total, succeeded, failed = counts
        return Snapshot(
            provider_id=provider_id,
            provider_status=word,
            state=means if isinstance(means, Lifecycle) else Lifecycle.ENDED,
            outcome=outcome,
            results_ref=results_ref,
            errors_ref=errors_ref,
            total=total,
            succeeded=succeeded,
            failed=failed,
            message=clean(reason, 1_000) if reason else NO_REASON if has_failed else None,
            error_class=error_class if has_failed else ErrorClass.NONE,
        )

    def _file(self, ref: JsonValue, provider_id: str) -> str | None:
        """Return a file's id, or None for no file. Raises ProviderReplyError for what says neither."""
        if ref is not None and not isinstance(ref, str):
            raise ProviderReplyError(f"{self.name}: batch {provider_id} names a file in a form that is not documented")
        return ref or None

    def snapshot(self, provider_id: str) -> Snapshot:
        """Read the state of a batch."""
        raise NotImplementedError

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        for kind, ref in (("output", snapshot.results_ref), ("errors", snapshot.errors_ref)):
            if ref:
                yield ResultPart(kind, self._download(ref), partial(self._download, ref) if self.resumes else None)

    def cancel(self, provider_id: str) -> None:
        try:
            self._send_cancel(provider_id)
        except ProviderError as error:
            # the API refuses to cancel what has ended; whether that is why is seen only by looking
            is_refusal = error.status in self.refuses_cancel
            if not is_refusal or self.snapshot(provider_id).state is Lifecycle.IN_FLIGHT:
                raise

    def _send_cancel(self, provider_id: str) -> None:
        with self._wire(f"cancel batch {provider_id}"):
            self._reply(lambda client: self._cancel(client, provider_id))


def opened(path: Path, provider: str) -> BinaryIO:
    """Open a batch file. Raises FileError if it cannot be read."""
    try:
        return path.open("rb")
    except OSError as error:
        raise FileError(f"{provider}: batch file {path} cannot be read: {error.strerror}") from error
