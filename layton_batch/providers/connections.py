"""Connections whose every wait is part of a call that has an end, and that hear when the program is told to stop.

They stand around those of httpcore and httpcore2, which httpx and httpx2 open: its ``NetworkBackend`` makes
``NetworkStream``s, and no byte passes but through them.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic
from typing import Any

from layton_batch.errors import StoppedError
from layton_batch.providers.protocol import Patience

SLICE = 0.25
"""Seconds between two looks at whether the program was told to stop."""


class SlowReplyError(TimeoutError):
    """A call that goes on so slowly that its connection is as good as dropped."""


@dataclass(slots=True)
class Watch:
    """The bounds of a client's calls, and whether the program was told to stop."""

    patience: Patience
    stopping: Event
    _noticed: float | None = field(default=None)

    def may_begin(self) -> None:
        """Raises StoppedError where nothing new is begun any more."""
        if self.stopping.is_set():
            raise StoppedError("the program was told to stop before this call was begun")

    def heed(self) -> None:
        """Raises StoppedError where a call in progress has had what it is left at a stop."""
        if self.stopping.is_set():
            if self._noticed is None:
                self._noticed = monotonic()
            if monotonic() - self._noticed >= self.patience.stop:
                raise StoppedError("the program was told to stop during this call")

    def started(self, seconds: float) -> Callable[[], float]:
        """What is left of ``seconds`` from now on, each time it is asked. Raises StoppedError, SlowReplyError."""
        begun = monotonic()

        def left() -> float:
            self.heed()
            took = monotonic() - begun
            if took >= seconds:
                raise SlowReplyError(f"no end in {took:.0f} seconds: too slow to wait for the rest")
            return seconds - took

        return left


def watched(client: Any, watch: Watch) -> None:
    """Have an httpx or httpx2 client make connections of this kind only.

    The libraries have no public way to hand a network backend to a client that also honours the environment's proxies
    and certificates; a client whose transports are no pools (in tests) is left as it is.
    """
    for transport in (client._transport, *client._mounts.values()):
        pool = getattr(transport, "_pool", None)
        if pool is not None:
            library = sys.modules[type(pool).__module__.partition(".")[0]]
            pool._network_backend = _Backend(pool._network_backend, library, watch)


class _Backend:
    """Makes connections."""

    def __init__(self, inner: Any, library: Any, watch: Watch) -> None:
        self._inner, self._library, self._watch = inner, library, watch

    def connect_tcp(self, *arguments: Any, **options: Any) -> Connection:
        opened = _apart(lambda: self._inner.connect_tcp(*arguments, **options), self._library, self._watch)
        return Connection(opened, self._library, self._watch)

    def connect_unix_socket(self, *arguments: Any, **options: Any) -> Connection:
        return Connection(self._inner.connect_unix_socket(*arguments, **options), self._library, self._watch)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


def _apart(work: Callable[[], Any], library: Any, watch: Watch) -> Any:
    """The result of what cannot be done in slices (looking up a name, a handshake), done in a thread that is left to
    itself when time is up."""
    opened: Future[Any] = Future()

    def do() -> None:
        try:
            opened.set_result(work())
        except BaseException as error:
            opened.set_exception(error)

    Thread(target=do, name="layton-batch-connect", daemon=True).start()
    left = watch.started(watch.patience.connect)
    try:
        while not opened.done():
            wait([opened], min(left(), SLICE))
    except SlowReplyError as error:
        raise library.ConnectTimeout(f"no connection: {error}") from None
    finally:
        if not opened.done():
            opened.add_done_callback(_close)
    return opened.result()


def _close(opened: Future[Any]) -> None:
    if opened.exception() is None:
        opened.result().close()


class Connection:
    """One connection, used for one call after another. A call is sent, then its head is waited for, then its body."""

    def __init__(self, inner: Any, library: Any, watch: Watch) -> None:
        self._inner, self._library, self._watch = inner, library, watch
        self._sending = False
        self._in_body = self._whole = False
        self._since, self._moved = monotonic(), 0

    # ---- what the phase is

    def body_begins(self) -> None:
        """The head of the reply is there."""
        self._next(sending=False, in_body=True)

    def is_read_whole(self) -> None:
        """The body is not a file's: it has a fixed time to come."""
        self._whole = True

    def _next(self, *, sending: bool, in_body: bool = False) -> None:
        self._sending, self._in_body, self._whole = sending, in_body, False
        self._since, self._moved = monotonic(), 0

    def _wait(self, head: float | None) -> float:
        """Seconds that may be waited at once. Raises SlowReplyError where the phase has had its time."""
        self._watch.heed()
        patience, took = self._watch.patience, monotonic() - self._since
        if self._sending or (self._in_body and not self._whole):
            most = patience.grace + self._moved / patience.slowest
        else:
            most = patience.grace if self._in_body else head or patience.head
        if took > most:
            way = "sent" if self._sending else "received"
            raise SlowReplyError(f"{self._moved} bytes {way} in {took:.0f} seconds is too slow to wait for the rest")
        return min(SLICE, most - took + 0.001)

    # ---- httpcore's NetworkStream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._sending:
            self._next(sending=False)
        while True:
            seconds = self._wait(timeout)
            try:
                came: bytes = self._inner.read(max_bytes, timeout=seconds)
            except self._library.ReadTimeout:
                continue
            self._moved += len(came)
            return came

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not self._sending:
            self._next(sending=True)
        rest, socket = memoryview(buffer), self._inner.get_extra_info("socket")
        within_tls = self._inner.get_extra_info("ssl_object") is not None and not isinstance(socket, ssl.SSLSocket)
        if socket is None or within_tls:  # a proxy spoken to by TLS: only its stream knows how, and takes all at once
            self._inner.write(buffer, timeout=timeout)
            self._moved += len(buffer)
            return
        while rest:
            socket.settimeout(self._wait(timeout))
            try:
                sent = socket.send(rest)
            except TimeoutError:
                continue
            except OSError as error:
                raise self._library.WriteError(str(error)) from error
            self._moved += sent
            rest = rest[sent:]

    def start_tls(self, *arguments: Any, **options: Any) -> Connection:
        try:
            secured = _apart(lambda: self._inner.start_tls(*arguments, **options), self._library, self._watch)
        except BaseException:
            self._inner.close()
            raise
        return Connection(secured, self._library, self._watch)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
