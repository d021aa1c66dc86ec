"""The app as a loopback server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from layton_batch.errors import ManifestError

_START_SECONDS = 20.0


def listening(port: int) -> socket.socket:
    """Return a listening socket on 127.0.0.1; port 0: any free port. Raises ManifestError if the port is taken."""
    # asyncio turns Nagle's delay (40 ms a reply) off only on sockets that name the protocol.
    server_socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind(("127.0.0.1", port))
        server_socket.listen(128)
    except OSError as error:
        server_socket.close()
        raise ManifestError(
            f"--port {port}: {(error.strerror or str(error)).lower()}; without --port any free one is taken"
        ) from error
    return server_socket


@contextmanager
def serving(app: ASGIApp, at: socket.socket) -> Iterator[None]:
    """While the block lasts, the app answers."""
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=lambda: server.run(sockets=[at]), name="layton-batch-annotate", daemon=True)
    thread.start()
    pause, waited = threading.Event(), 0.0
    while not server.started and thread.is_alive() and waited < _START_SECONDS:
        pause.wait(0.005)
        waited += 0.005
    try:
        if not server.started:
            raise RuntimeError("the labelling app did not start serving")
        yield
    finally:
        server.should_exit = True
        thread.join(_START_SECONDS)
        at.close()
