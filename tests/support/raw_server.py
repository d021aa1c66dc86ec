"""A server that writes its bytes itself, a piece at a time: for replies that no HTTP library would send."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socket import socket

Play = Callable[[socket, threading.Event], None]
"""What happens to a connection after the head of its request was read, until the event is set."""

_PAUSE = 0.05


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, _request: object, _client: object) -> None:
        """Clients that hang up are what this is about."""


@contextmanager
def raw_server(play: Play) -> Iterator[str]:
    """Its URL while the block runs."""
    over = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            came = b""
            while b"\r\n\r\n" not in came:
                piece = self.request.recv(65_536)
                if not piece:
                    return
                came += piece
            with suppress(OSError):
                play(self.request, over)

    with _Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            over.set()
            server.shutdown()


def _dripping(head: bytes, drop: bytes) -> Play:
    def play(connection: socket, over: threading.Event) -> None:
        connection.sendall(head)
        while not over.wait(_PAUSE):
            connection.sendall(drop)

    return play


DRIPS: dict[str, Play] = {
    "header lines": _dripping(b"HTTP/1.1 200 OK\r\n", b"x-more: and more\r\n"),
    "100 Continue": _dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a slow body": _dripping(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999999\r\n\r\n", b" " * 100
    ),
    "chunk headers": _dripping(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1;", b"a"
    ),
    "nothing": _dripping(b"", b""),
}
"""Replies without an end; each sends a little every twentieth of a second."""
