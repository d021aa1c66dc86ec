"""HTTP clients for the SDKs: each call ends at its deadline, beyond a size, or when the program stops.

``open_client(openai.DefaultHttpxClient, access)`` is given to an SDK as its ``http_client``. HTTP libraries bound
single reads only, and nothing interrupts a read. So threads take the steps of a call, and its caller stops waiting in
time.
"""

from __future__ import annotations

import functools
import importlib
import ssl
from collections.abc import Callable, Collection, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Any

from layton_batch.errors import ProviderReplyError, StoppedError
from layton_batch.files.addresses import leads_home
from layton_batch.providers.protocol import Access

_SLICE = 0.25
"""Seconds between two looks at whether the program stops."""
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that describe a body before it is inflated."""
_Origin = tuple[str, str, int | None]
"""Scheme, host and port."""


class DeadlineError(TimeoutError):
    """A call that has not ended at its deadline."""


@functools.cache
def certificates(library: str) -> ssl.SSLContext:
    """Load what httpx or httpx2 trusts, once for all clients of this process.

    Reading a machine's certificates takes 50 ms of CPU, and a run opens a client for each thread of each provider.
    """
    context: ssl.SSLContext = importlib.import_module(library).create_ssl_context()
    return context


def open_client(kind: type[Any], access: Access | None, also: Sequence[str] = (), **options: Any) -> Any:
    """Open a client of this class: httpx's or httpx2's, or an SDK's own subclass of it.

    Its calls raise DeadlineError, StoppedError and, beyond the size limit, ProviderReplyError. The key goes to the
    configured host only, and to those of the addresses in ``also``: a reply may name another one, by a redirect or as
    the address of a file.
    """
    # OpenAI's SDK looks into ``sys.modules["httpx"]`` in each call, and another thread's SDK may still be loading it: a
    # create that fails there counts as one that may have been paid for
    importlib.import_module("httpx")
    name = next(base.__module__.partition(".")[0] for base in kind.__mro__ if base.__module__.startswith("httpx"))
    library, bounds = importlib.import_module(name), access or Access("")
    hooks = options.pop("event_hooks", {})
    if bounds.base_url is not None:
        homes = {_origin(library.URL(address)) for address in (bounds.base_url, *also)}
        check = functools.partial(_check_target, homes, bounds.base_url, bounds.api_key.strip())
        hooks = {**hooks, "request": [check]}
    options["event_hooks"] = hooks

    class BoundedClient(kind):  # type: ignore[misc]
        def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            call = _HttpCall(library, bounds, request)
            response = call.response(functools.partial(super().send, request, stream=True, **options), whole=not stream)
            if not stream:
                response.read()
            return response

    return BoundedClient(verify=certificates(name), **options)


def _check_target(homes: Collection[_Origin], base_url: str, key: str, request: Any) -> None:
    """Take the headers that hold the key out of a request to another host.

    Raises ProviderReplyError if a provider elsewhere sends a call on to this machine or its link, where services answer
    that trust who calls them.
    """
    if _origin(request.url) in homes:
        return
    if leads_home(base_url, request.url.host):
        raise ProviderReplyError(
            f"the reply leads to {request.url.host}, an address of this machine: it is not followed"
        )
    for header in [name for name, value in request.headers.items() if key in value]:
        del request.headers[header]


def _origin(url: Any) -> _Origin:
    return url.scheme, url.host, url.port


class _HttpCall:
    """One call of a client.

    A caller that stops waiting leaves a thread in its step. From then on the thread sends nothing more of the request's
    body, so that a create that was given up is not carried out later.
    """

    def __init__(self, library: Any, access: Access, request: Any) -> None:
        if access.stopping.is_set():
            raise StoppedError("the program was told to stop before this call was begun")
        self._library, self._access = library, access
        self._begun, self._is_left = monotonic(), Event()
        self._reply: Any = None
        size = request.headers.get("content-length", "")
        self._moved = int(size) if size.isdigit() else 0
        self._stop_by: float | None = None
        request.extensions["timeout"] = access.patience.timeouts()
        request.stream = _stream_class(library)(functools.partial(self._sent, request.stream), lambda: None)

    def response(self, send: Callable[[], Any], *, whole: bool) -> Any:
        """Send the request. Return the reply with a body that is inflated, counted and read within the call's bounds:
        those of a ``whole`` reply, which is held in memory, or of a file."""

        def sent() -> None:
            self._reply = send()

        self._run(sent)
        reply = self._reply
        self._access.account.read(reply.headers)
        most = self._access.patience.reply_bytes if whole else self._access.patience.file_bytes
        body = _stream_class(self._library)(functools.partial(self._received, reply, most), self._close)
        headers = [(key, value) for key, value in reply.headers.multi_items() if key.lower() not in _OF_THE_WIRE]
        return self._library.Response(
            reply.status_code,
            headers=headers,
            stream=body,
            request=reply.request,
            extensions=reply.extensions,
            history=reply.history,
        )

    def _sent(self, body: Iterator[bytes]) -> Iterator[bytes]:
        for piece in body:
            if self._is_left.is_set():
                raise DeadlineError("the call was given up before its body was sent")
            yield piece

    def _received(self, reply: Any, most: int) -> Iterator[bytes]:
        pieces, held, sent = reply.iter_bytes(), 0, self._moved
        while piece := self._run(functools.partial(next, pieces, b"")):
            held += len(piece)
            if held > most:
                raise ProviderReplyError(f"the reply holds more than {most >> 20} MiB: it is not read to its end")
            self._moved = sent + reply.num_bytes_downloaded
            yield piece

    def _close(self) -> None:
        if self._reply is not None and not self._is_left.is_set():
            self._reply.close()

    def _run(self, step: Callable[[], Any]) -> Any:
        """Return what the step returns. Raises what it raises, DeadlineError and StoppedError."""
        ended: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        Thread(target=self._take, args=(step, ended), name="layton-batch-call", daemon=True).start()
        try:
            while True:
                try:
                    result, error = ended.get(timeout=min(_SLICE, self._seconds_left()))
                    break
                except Empty:
                    continue
        except BaseException:
            self._is_left.set()
            raise
        if error is not None:
            raise error
        return result

    def _take(self, step: Callable[[], Any], ended: SimpleQueue[tuple[Any, BaseException | None]]) -> None:
        try:
            ended.put((step(), None))
        except BaseException as error:
            ended.put((None, error))
        if self._is_left.is_set() and self._reply is not None:
            self._reply.close()

    def _seconds_left(self) -> float:
        """Compute the seconds until the deadline, or until a stop cuts the call short. Raises when they are over."""
        now, patience = monotonic(), self._access.patience
        if self._access.stopping.is_set():
            self._stop_by = self._stop_by or now + patience.stop
            if now >= self._stop_by:
                raise StoppedError("the program was told to stop during this call")
        deadline = self._begun + patience.seconds + self._moved / patience.bytes_per_second
        if now >= deadline:
            raise DeadlineError(f"no end of the call in {now - self._begun:.0f} seconds: it is given up")
        return min(deadline, self._stop_by or deadline) - now


@functools.cache
def _stream_class(library: Any) -> type[Any]:
    """Make the byte stream class of a library whose pieces and whose close are functions."""

    class Stream(library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, pieces: Callable[[], Iterator[bytes]], close: Callable[[], None]) -> None:
            self._pieces, self._close = pieces, close

        def __iter__(self) -> Iterator[bytes]:
            return self._pieces()

        def close(self) -> None:
            self._close()

    return Stream
