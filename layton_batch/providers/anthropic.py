"""Anthropic's Message Batches API.

There is no upload and no tag: the create call carries every request inline, and a lost batch can be recognised only by
its time, its size and, once it has ended, the ``custom_id`` of its results.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from layton_batch.errors import NotFoundError, ProviderError, ProviderReplyError, UnknownStatusError
from layton_batch.providers import anthropic_forms as forms
from layton_batch.providers import http_rules, inline_requests, model_notices
from layton_batch.providers.http_client import open_client
from layton_batch.providers.protocol import (
    Access,
    Capabilities,
    Limits,
    ModelNotice,
    PictureLimits,
    ResultPart,
    StatusMeaning,
)
from layton_batch.providers.wire_errors import api_key, clean, parse_object, wire
from layton_batch.providers.wire_json import JsonObject, at, count, moment, objects, text, whole
from layton_batch.records import JsonValue, MatchingBatch, ModelSpec, Request, Response, Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle

if TYPE_CHECKING:
    import anthropic
    import httpx2

VERSION = "2026-10-21"
"""Version of the API, whatever the SDK would send: its refusals stand in ``models.toml``."""

_BATCHES = "/v1/messages/batches"
_KINDS = ("processing", "succeeded", "errored", "canceled", "expired")
_HEAD = 1 << 20
"""Bytes of a result file whose custom_ids tell whose it is."""


class Anthropic:
    """The dialect; see the module's docstring for what this API lacks."""

    name = "anthropic"
    limits = Limits(
        max_requests=100_000,
        max_bytes=253_000_000,  # 256 MB less 1 %: the create call wraps the lines
        max_line_bytes=253_000_000,
        # of the vision guide and of its refusals: the bytes are those of the base64
        pictures=PictureLimits(characters=5_242_880, side=8_000, many=20, side_of_many=2_000),
    )
    capabilities = Capabilities(
        tag=False,
        certain_find=True,  # an empty list proves that there is none; which of several is ours shows in the results
        caveats=(
            "a batch carries no tag: lost in a crash, it can be recognised for certain only once it has ended",
            "requests are checked after the batch was accepted: a wrong parameter fails row by row",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = {
        "in_progress": StatusMeaning(Lifecycle.IN_FLIGHT),
        "canceling": StatusMeaning(Lifecycle.CANCELLING),
        "ended": StatusMeaning(Lifecycle.ENDED, BatchOutcome.COMPLETED),
    }

    def __init__(self, access: Access | None) -> None:
        self._access = access
        self._client: anthropic.Anthropic | None = None
        self._http: httpx2.Client | None = None

    def check(self, spec: ModelSpec) -> list[str]:
        """List in words which of a model's settings this API cannot do."""
        return forms.problems(spec)

    def encode(self, request: Request) -> dict[str, JsonValue]:
        return forms.encode(request)

    def upload(self, submission: Submission) -> str | None:
        return None

    def create(self, submission: Submission) -> str:
        """One POST whose body is streamed from the file: memory stays at about 1 MiB whatever the file's size.

        The SDK's typed ``create`` would need every request as Python objects and hold the body about three times.
        """
        import httpx2  # the SDK's own HTTP library, whose reply it hands through

        size = inline_requests.body_size(submission.path, self.name)
        with self._wire("batch creation", paid=True):
            reply = self._connected().post(
                _BATCHES,
                cast_to=httpx2.Response,
                content=inline_requests.body(submission.path),
                options={
                    "headers": {"Content-Length": str(size)},
                    "max_retries": 0,
                    "timeout": self._timeout(),
                    "follow_redirects": False,  # what the next address says is not what became of this call
                },
            )
            return _id_of(parse_object(reply.content, self.name, "the reply to the batch creation"))

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """One that runs is told by its size, one that has ended by the ``custom_id``s of its results; within a day of
        our intent whatever their number: rows go missing, lines are damaged.

        What has custom_ids of ours is ours, for they carry the run's mark. No time rules a batch out that shows whose
        it is, or still runs: between the intent and now our clock may have been set by any amount. It does where the
        results are archived, and before a create where the batch is a day older than the run.
        """
        ours: set[str] | None = None
        matches = []
        for batch, headers in submission.listed(partial(self._listed, submission)):
            if text(batch, "id") in submission.known_ids:
                continue
            seen, created_at = frozenset[str](), moment(batch, "created_at")
            since = http_rules.intended_at(submission, headers)
            of_our_size = _total(batch) in (0, submission.requests)
            if text(batch, "processing_status") == "ended":
                if not http_rules.is_near(created_at, since) and (_is_archived(batch) or not of_our_size):
                    continue
                if http_rules.is_older_than_run(submission, created_at, since):
                    continue
                ours = inline_requests.custom_ids(submission.path) if ours is None else ours
                seen = self._first_custom_ids(_id_of(batch), submission.custom_ids)
                if seen and ours and not seen & ours:
                    if submission.is_of_a_copy(_id_of(batch), seen):
                        matches.append(MatchingBatch(_id_of(batch), certain=False, of_a_copy=True))
                    continue
            elif not of_our_size:
                continue
            matches.append(
                MatchingBatch(_id_of(batch), certain=bool(seen and ours), created_at=created_at, may_tell=not seen)
            )
        return matches

    def snapshot(self, provider_id: str) -> Snapshot:
        with self._wire(f"reading batch {provider_id}"):
            reply = self._connected().messages.batches.with_raw_response.retrieve(provider_id)
            batch = parse_object(reply.http_response.content, self.name, f"batch {provider_id}")
        status = text(batch, "processing_status")
        if status is None:
            raise ProviderReplyError(f"anthropic: batch {provider_id} has no processing_status")
        if status not in self.status_map:
            shown = clean(status)
            raise UnknownStatusError(f"anthropic: batch {provider_id} has the unknown status {shown!r}", code=shown)
        state, counts = self.status_map[status].state, at(batch, "request_counts")
        ended = state is Lifecycle.ENDED
        archived = _is_archived(batch)
        return Snapshot(
            provider_id=provider_id,
            provider_status=status,
            state=state,
            outcome=_outcome(batch, counts) if ended else None,
            results_ref=provider_id if ended and not archived else None,
            total=_sum(counts, *_KINDS),
            succeeded=_sum(counts, "succeeded"),
            failed=_sum(counts, "errored", "canceled", "expired"),
            message="its results were archived 29 days after its creation" if archived else None,
        )

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if snapshot.results_ref:
            ref = snapshot.results_ref
            yield ResultPart("output", self._download(ref), partial(self._download, ref))

    def decode(self, line: bytes) -> Response:
        return forms.decode(line)

    def cancel(self, provider_id: str) -> None:
        try:
            with self._wire(f"cancelling batch {provider_id}"):
                self._connected().messages.batches.with_raw_response.cancel(provider_id)
        except ProviderError as error:
            # what has ended cannot be cancelled; whether that is why is seen only by looking
            if error.status not in (400, 409) or self.snapshot(provider_id).state is Lifecycle.IN_FLIGHT:
                raise

    def about(self, model: str) -> ModelNotice | None:
        """Read the model's own page: its lifecycle stage and its capabilities."""
        try:
            with self._wire("ask about a model"):
                reply = self._connected().models.with_raw_response.retrieve(model)
                page = parse_object(reply.http_response.content, self.name, "what is said of a model")
        except NotFoundError:
            return None
        return model_notices.of_anthropic(page)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = self._http = None

    # ---- wire

    def _connected(self) -> anthropic.Anthropic:
        if self._client is None:
            import anthropic

            key, address = self._key(), self._access.base_url if self._access else None
            base = address.rstrip("/").removesuffix("/v1") if address else None  # the SDK adds it
            self._http = open_client(anthropic.DefaultHttpxClient, self._access)
            self._client = anthropic.Anthropic(
                api_key=key,
                base_url=base,
                timeout=self._timeout(),
                max_retries=0,
                default_headers={"anthropic-version": VERSION},
                http_client=self._http,
            )
        return self._client

    def _key(self) -> str:
        return api_key(self._access, "ANTHROPIC_API_KEY", self.name)

    def _timeout(self) -> float:
        return self._access.timeout_seconds if self._access else 600.0

    def _wire(self, call: str, *, paid: bool = False) -> AbstractContextManager[None]:
        return wire(self.name, call, secret=self._key(), paid=paid)

    def _listed(self, submission: Submission) -> Iterator[tuple[JsonObject, Mapping[str, str]]]:
        """Every batch of the list that may be looked for, with the headers of the reply that showed it."""

        def read(after: str | None) -> tuple[JsonObject, Mapping[str, str]]:
            with self._wire("listing batches"):
                batches = self._connected().messages.batches.with_raw_response
                reply = batches.list(limit=100, after_id=after) if after else batches.list(limit=100)
                page = parse_object(reply.http_response.content, self.name, "the list of batches")
                return page, reply.http_response.headers

        def following(reply_page: tuple[JsonObject, Mapping[str, str]]) -> str | None:
            return (text(reply_page[0], "last_id") or "") if reply_page[0].get("has_more") else None

        back = http_rules.ListOrder(submission)
        for page, headers in http_rules.turned(self.name, read, following):
            batches = _rows(page)
            yield from ((batch, headers) for batch in batches)
            if back.is_read([moment(batch, "created_at") for batch in batches], headers):
                return

    def _first_custom_ids(self, provider_id: str, seen: dict[str, frozenset[str]]) -> frozenset[str]:
        """The first ``custom_id``s of the results, which are read once, and put into ``seen``; none while they cannot
        be read (404 just after the end)."""
        if provider_id not in seen:
            head = b""
            try:
                with closing(self._download(provider_id)) as chunks:
                    while len(head) < _HEAD and (chunk := next(chunks, b"")):
                        head += chunk
            except NotFoundError:
                return frozenset()
            if custom_ids := frozenset(name.decode() for name in inline_requests.CUSTOM_ID.findall(head)):
                seen[provider_id] = custom_ids
        return seen.get(provider_id, frozenset())

    def _download(self, provider_id: str, start: int = 0) -> Generator[bytes, None, None]:
        """Yield the results from byte ``start`` on, from below the configured address.

        The SDK would ask the address that the batch names, which a proxy does not answer for.
        """
        client = self._connected()
        assert self._http is not None  # noqa: S101 - made with the client
        url = f"{str(client.base_url).rstrip('/')}{_BATCHES}/{quote(provider_id, safe='')}/results"
        headers = {"anthropic-version": VERSION, **client.auth_headers, **http_rules.range_headers(start)}
        with (
            self._wire(f"reading the results of batch {provider_id}"),
            self._http.stream("GET", url, headers=headers) as reply,
        ):
            if reply.is_error:
                reply.read()
            reply.raise_for_status()
            http_rules.check_range(self.name, start, reply.status_code, reply.headers)
            yield from reply.iter_bytes()  # as they come: what waits to fill a larger piece is lost with the connection


def _rows(page: JsonObject) -> list[JsonObject]:
    """The batches of a page. What is no listing, an error told with HTTP 200, must not count as an empty one."""
    rows = objects(page, "data")
    if page.get("data") != rows:
        raise ProviderReplyError("anthropic: a list of batches holds no batches")
    return rows


def _id_of(batch: JsonObject) -> str:
    batch_id = text(batch, "id")
    if batch_id is None:
        raise ProviderReplyError("anthropic: a batch without an id")
    return batch_id


def _is_archived(batch: JsonObject) -> bool:
    return text(batch, "results_url") is None and text(batch, "archived_at") is not None


def _total(batch: JsonObject) -> int:
    """0 also where it is not told."""
    return _sum(at(batch, "request_counts"), *_KINDS) or 0


def _sum(counts: JsonObject, *kinds: str) -> int | None:
    """None where any of them is not a count: 0 would say that there is nothing to wait for."""
    numbers = [whole(counts.get(kind, 0)) for kind in kinds] if counts else [None]
    return None if None in numbers else sum(number or 0 for number in numbers)


def _outcome(batch: JsonObject, counts: JsonObject) -> BatchOutcome:
    if count(counts, "canceled") or text(batch, "cancel_initiated_at"):
        return BatchOutcome.CANCELLED
    if count(counts, "expired") and not count(counts, "succeeded") and not count(counts, "errored"):
        return BatchOutcome.EXPIRED
    return BatchOutcome.COMPLETED
