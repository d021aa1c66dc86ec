"""What the SDKs' HTTP clients are told besides: when a call is over, how much a reply may hold, what is not followed.

``http_rules.bound(openai.DefaultHttpxClient(), access)``, given to an SDK as its ``http_client``. Timeouts of HTTP
libraries are of single reads: a server that sends a header line, a ``100 Continue`` or a byte now and then would hold
us for ever. So the bounds are kept where the bytes pass, in the connection (:mod:`connections`), and their number
where they are inflated.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.connections import SLICE, Connection, Watch, watched
from layton_batch.providers.patience import Patience
from layton_batch.providers.protocol import Access

_CREATE = "/batches"
"""Where the path of the paid call ends, in every OpenAI-shaped API."""
_REDIRECTS = 5
"""Of a reading, each of which has its own time; libraries follow twenty."""
_STEP = 1 << 20
"""Bytes that are inflated at a time."""
_GZIP = frozenset({"gzip", "x-gzip", "deflate"})

_Result = TypeVar("_Result")


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
