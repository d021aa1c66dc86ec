"""HTTP clients for the SDKs: a call ends at its deadline, beyond a size, or when the program stops, and leads nowhere
else.

``open_client("httpx2", access)`` is given to an SDK as its HTTP client. HTTP libraries bound single reads only, and
nothing interrupts a read. So threads take the steps of a call, and its caller stops waiting in time.

No documented provider sends the results of a batch elsewhere by a redirect. So reads follow redirects within the
configured host alone. The only call to another host, without the key, is the PUT of an upload: Together names a signed
address for it. No other call follows a redirect: a create would be sent twice, or what became of the second call
would be taken for what became of the first.
"""

from __future__ import annotations

import functools
import importlib
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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


def open_client(library: str, access: Access, also: Sequence[str] = (), **options: Any) -> Any:
    """Open a client of httpx or httpx2 for the configured host and those of the addresses in ``also``.

    Its calls raise DeadlineError, StoppedError and, beyond the size limit or if they are led to another host,
    ProviderReplyError. ``last`` is the reply to its last call that came whole, None if that call failed.
    """
    # OpenAI's SDK looks into ``sys.modules["httpx"]`` in each call, and another thread's SDK may still be loading it: a
    # create that fails there counts as one that may have been paid for
    importlib.import_module("httpx")
    module = importlib.import_module(library)
    if access.base_url is not None:
        homes = {_origin(module.URL(address)) for address in (access.base_url, *also)}
        check = functools.partial(_check_target, homes, access.base_url, access.api_key.strip())
        options["event_hooks"] = {"request": [check]}

    class BoundedClient(module.Client):  # type: ignore[misc,name-defined]
        last: Any = None

        def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            self.last = None
            call = _HttpCall(module, access, request)
            options["follow_redirects"] = request.method == "GET"
            response = call.response(functools.partial(super().send, request, stream=True, **options), whole=not stream)
            if not stream:
                response.read()
                self.last = response
            return response

    return BoundedClient(verify=certificates(library), **options)


def _check_target(homes: Collection[_Origin], base_url: str, key: str, request: Any) -> None:
    """Raise ProviderReplyError if a reply leads a call to another host, which might be a machine of ours that trusts
    who calls it. An upload may go there, without the headers that hold the key."""
    if _origin(request.url) in homes:
        return
    if request.method != "PUT" or leads_home(base_url, request.url.host):
        raise ProviderReplyError(
            f"the reply leads to the host {request.url.host}, which is not the provider's: it is not followed"
        )
    for header in [name for name, value in request.headers.items() if key in value]:
        del request.headers[header]


def _origin(url: Any) -> _Origin:
    return url.scheme, url.host, url.port


def range_headers(start: int) -> Mapping[str, str]:
    """Return the headers that ask for the bytes from ``start`` on, of the content and not of a compressed form (RFC
    9110, section 14). No provider's documents promise ranges: the reply decides."""
    return {"Range": f"bytes={start}-", "Accept-Encoding": "identity"} if start else {}


def check_range(provider: str, start: int, reply: Any) -> None:
    """Raise ProviderReplyError if the reply is not what ``start`` asked for: servers may send everything again."""
    given = reply.headers.get("content-range", "").strip()
    if start and not (reply.status_code == 206 and given.startswith(f"bytes {start}-")):
        raise ProviderReplyError(
            f"{provider}: a download cannot be taken up where it broke off (HTTP {reply.status_code})"
        )


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
