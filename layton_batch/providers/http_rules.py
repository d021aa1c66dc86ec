"""What every dialect's HTTP shares: when a call is over, how much a reply may hold, what is not followed; the clock of
the other side; a download taken up again; a list read to its end.

``http_rules.opened(openai.DefaultHttpxClient, access)`` is given to an SDK as its ``http_client``. Timeouts of HTTP
libraries are of single reads: a server that sends a header line, a ``100 Continue`` or a byte now and then would hold
us for ever. So the bounds are kept where the bytes pass, in the connection (:mod:`connections`), and their number
where they are inflated.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.connections import SLICE, Connection, Watch, watched
from layton_batch.providers.protocol import Access, Patience
from layton_batch.records import Submission

_CREATE = "/batches"
"""Where the path of the paid call ends, in every OpenAI-shaped API."""
_REDIRECTS = 5
"""Of a reading, each of which has its own time; libraries follow twenty."""
_STEP = 1 << 20
"""Bytes that are inflated at a time."""
_GZIP = frozenset({"gzip", "x-gzip", "deflate"})

_Result = TypeVar("_Result")
_Page = TypeVar("_Page")


class RedirectedError(Exception):
    """A paid call was answered with a redirect; ``response`` is that answer, ``body`` what to say of it."""

    def __init__(self, response: Any) -> None:
        self.body = "it is a redirect, which is not followed"
        super().__init__(self.body)
        self.response = response


def not_redirected(response: Any) -> None:
    """Raises RedirectedError where the answer to a create is a redirect.

    Followed, it would be sent a second time, or what became of the second call would be taken for what became of the
    first. Other calls may follow theirs: downloads do, to where the files are stored.
    """
    request = response.request
    if request.method == "POST" and request.url.path.endswith(_CREATE) and 300 <= response.status_code < 400:
        raise RedirectedError(response)


HOOKS: Mapping[str, list[Callable[[Any], None]]] = {"response": [not_redirected]}


@functools.cache
def certificates(library: str) -> ssl.SSLContext:
    """What httpx or httpx2 trusts, for all clients of this process. Reading a machine's certificates takes 50 ms of
    CPU, and a run opens a client for each lane of each provider.
    """
    context: ssl.SSLContext = importlib.import_module(library).create_ssl_context()
    return context


def opened(kind: type[Any], access: Access | None, **options: Any) -> Any:
    """A client of this class (httpx's or httpx2's, or an SDK's own kind of it), bound as :func:`bound` says."""
    library = next(base.__module__.partition(".")[0] for base in kind.__mro__ if base.__module__.startswith("httpx"))
    return bound(kind(verify=certificates(library), **options), access)


def bound(client: Any, access: Access | None) -> Any:
    """The client (httpx's or httpx2's) with every call it makes bounded by ``access.patience``, and cut short when the
    program is told to stop."""
    access = access or Access("")
    watch = Watch(access.patience, access.stopping)

    def begin(request: Any) -> None:
        watch.may_begin()
        request.extensions["timeout"] = watch.patience.timeouts(request.method)
        _ask_for_gzip(request)

    def answered(response: Any) -> None:
        connection = response.extensions.get("network_stream")
        _measured(response, watch.patience, connection if isinstance(connection, Connection) else None)

    client.max_redirects = _REDIRECTS
    hooks = client.event_hooks
    client.event_hooks = {"request": [*hooks["request"], begin], "response": [*hooks["response"], answered]}
    watched(client, watch)
    return client


def _ask_for_gzip(request: Any) -> None:
    """The one compression that can be undone in bounded steps by what every Python has; a range is of what is plain."""
    if request.headers.get("accept-encoding") != "identity":
        request.headers["accept-encoding"] = "gzip"


def _measured(response: Any, patience: Patience, connection: Connection | None) -> None:
    """Has the body inflated within bounds: one that is read whole within those of a reply, else within a file's."""
    size, pieces, read = _Size(response, patience), response.iter_raw, response.read
    if connection is not None:
        connection.body_begins()

    def iter_raw(chunk_size: int | None = None) -> Iterator[bytes]:
        for piece in pieces(chunk_size):
            yield from size.inflated(piece)

    def read_whole() -> bytes:
        size.whole = True
        if connection is not None:
            connection.is_read_whole()
        return bytes(read())

    response.iter_raw, response.read = iter_raw, read_whole


class _Size:
    """Inflates a reply and counts; its ``content-encoding`` is taken off, so that nobody inflates it again."""

    def __init__(self, response: Any, patience: Patience) -> None:
        self.whole = False
        self._patience = patience
        self._came = self._held = 0
        encoding = response.headers.get("content-encoding", "").strip().lower()
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in _GZIP else None
        if self._inflate is not None:
            del response.headers["content-encoding"]
        elif encoding not in ("", "identity"):
            raise ProviderReplyError(f"the reply is compressed as {encoding[:20]!r}, which was not asked for")

    def inflated(self, piece: bytes) -> Iterator[bytes]:
        """What the piece stands for, in steps. Raises ProviderReplyError beyond what a reply may hold."""
        self._came += len(piece)
        if self._inflate is None:
            yield self._counted(piece)
            return
        while piece and not self._inflate.eof:
            yield self._counted(self._inflate.decompress(piece, _STEP))
            piece = self._inflate.unconsumed_tail

    def _counted(self, content: bytes) -> bytes:
        self._held += len(content)
        most, patience = self._patience.reply_bytes, self._patience
        if not self.whole:
            most = min(patience.file_bytes, most + patience.inflation * self._came)
        if self._held > most:
            raise ProviderReplyError(
                f"the reply holds more than {most >> 20} MiB (of {self._came} bytes received): it is given up"
            )
        return content


# ---- asynchronous clients, of which none here is kept for more than one step -----------------------------------------


def measured_later(response: Any, patience: Patience, *, whole: bool = True) -> None:
    """As the replies of a bound client, for a hook of an asynchronous one."""
    size, pieces = _Size(response, patience), response.aiter_raw
    size.whole = whole

    async def aiter_raw(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        async for piece in pieces(chunk_size):
            for part in size.inflated(piece):
                yield part

    response.aiter_raw = aiter_raw


async def ask_for_gzip_later(request: Any) -> None:
    """As :func:`bound` does, for an asynchronous client."""
    _ask_for_gzip(request)


def run_within(step: Coroutine[Any, Any, _Result], access: Access | None, size: int = 0) -> _Result:
    """Run an asynchronous step to its end, in this thread, within what one call may take with a body of this size."""
    access = access or Access("")
    watch = Watch(access.patience, access.stopping)
    left = watch.started(access.patience.head + size / access.patience.slowest)
    return asyncio.run(_watched(step, left))


async def _watched(step: Coroutine[Any, Any, _Result], left: Callable[[], float]) -> _Result:
    task = asyncio.ensure_future(step)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=min(left(), SLICE))
        return task.result()
    finally:
        task.cancel()


# ---- the provider's clock

# Where a batch shows no mark (any more), its time of creation may rule it out. Our clock may be wrong by hours (a time
# zone, a machine that has just started), so the `date` header of the reply that lists the batches (RFC 9110, 6.6.1)
# says how far apart the two are.

APART = 86_400.0
"""How far apart times may be that our clock and another told, and be the same: where nothing but the time tells whose a
batch is, one within it is not ruled out."""


def intended_at(submission: Submission, headers: Mapping[str, str]) -> float | None:
    """When the intent to create was committed, on the provider's clock as of a reply with these headers."""
    if submission.not_before is None or submission.asked_at is None:
        return submission.not_before
    try:
        theirs = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return submission.not_before
    return submission.not_before + theirs - submission.asked_at


def is_near(created_at: float | None, since: float | None) -> bool:
    """Whether a batch may have been made at ``since``; unknown times may be any."""
    return created_at is None or since is None or abs(created_at - since) <= APART


# ---- a download that broke off, taken up where it broke: HTTP ranges (RFC 9110, section 14)

# No provider's documents promise them and none forbids them: what the reply says decides.


def range_headers(start: int) -> Mapping[str, str]:
    """What asks for the bytes from ``start`` on: of the content itself, so never of a compressed form of it."""
    return {"Range": f"bytes={start}-", "Accept-Encoding": "identity"} if start else {}


def check_range(provider: str, start: int, status: int, reply: Mapping[str, str]) -> None:
    """Raises ProviderReplyError where the reply is not what ``start`` asked for: servers may send everything again."""
    if start and not (status == 206 and reply.get("content-range", "").strip().startswith(f"bytes {start}-")):
        raise ProviderReplyError(f"{provider}: a download cannot be taken up where it broke off (HTTP {status})")


# ---- a list of several pages

MAX_PAGES = 1_000
"""Of one list: beyond that it is taken for one that never ends."""


def turned(
    provider: str, read: Callable[[str | None], _Page], following: Callable[[_Page], str | None]
) -> Iterator[_Page]:
    """Every page of a list. ``following``: what asks for the page after this one; None after the last one, empty where
    there is one and it is not said which. Raises ProviderReplyError where the list goes on and cannot be followed."""
    cursor: str | None = None
    asked: set[str] = set()
    while True:
        page = read(cursor)
        yield page
        cursor = following(page)
        if cursor is None:
            return
        if not cursor or cursor in asked or len(asked) == MAX_PAGES:
            raise stuck(provider)
        asked.add(cursor)


def stuck(provider: str) -> ProviderReplyError:
    """A listing that says there is more and not where: what was not seen must not count as absent."""
    return ProviderReplyError(
        f"{provider}: the list of batches says that it goes on, but its next page cannot be found"
    )
