"""Between the program and the sandbox: an HTTP proxy that sees each call, and lets the program die at a phase of it.

``received``: the provider's side has the whole request and does nothing with it. ``executed``: it was carried out, and
no byte of the reply is on its way. ``answered``: the last byte of the reply was sent. ``lost``: carried out, and the
connection ends without a reply. ``held``: nothing happens until it is let go on.
"""

from __future__ import annotations

import functools
import http.client
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import MagicMock

from starlette.routing import compile_path

from layton_batch.sandbox.server import APIS
from layton_batch.sandbox.wire.api import ProviderApi

LOST = "lost"
HELD = "held"
_LONGEST_HELD = 60.0
_HOP = frozenset({"transfer-encoding", "connection", "keep-alive"})

Decide = Callable[[str, str], str | None]
"""What is to happen to a call of this provider and kind: a phase at which the program dies, ``lost``, or nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, _request: object, _client: object) -> None:
        """A killed program leaves its connections in the middle of a word."""


@functools.cache
def _apis() -> list[ProviderApi]:
    nobody = MagicMock()  # routes are asked for, and nothing is carried out
    return [api(nobody) for api in APIS]


def kind_of(method: str, path: str) -> tuple[str, str]:
    """Return the provider and the kind of call that a request is."""
    for api in _apis():
        for endpoint in api.endpoints():
            if endpoint.method == method and compile_path(api.prefix + endpoint.path)[0].match(path):
                return api.provider, endpoint.on
    raise AssertionError(f"no provider has {method} {path}")


class PhaseProxy:
    """Serves from construction until ``close``; ``decide`` and ``kill`` may be set at any time."""

    def __init__(self, sandbox_url: str) -> None:
        self.decide: Decide
        self.kill: Callable[[], None]
        self.leave_alone()
        self._target = sandbox_url.removeprefix("http://")
        self.holding, self.go_on = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), name="go-between", daemon=True).start()

    def leave_alone(self) -> None:
        """Nothing more happens to calls that begin from now on."""
        self.decide, self.kill = (lambda _provider, _kind: None), (lambda: None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(outer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or each reply's body waits 40 ms for word that its head came

            def answer(self) -> None:
                with suppress(ConnectionError):
                    outer._pass_on(self)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_arguments: object) -> None:
                """Calls are not news."""

        return Handler

    def _pass_on(self, call: BaseHTTPRequestHandler) -> None:
        body = call.rfile.read(int(call.headers.get("content-length") or 0))
        with self._lock:
            fate = self.decide(*kind_of(call.command, call.path.partition("?")[0]))
        if fate == HELD:
            self.holding.set()
            self.go_on.wait(_LONGEST_HELD)
        if fate == "received":
            return self._die(call)
        status, headers, content = self._carried_out(call, body)
        if fate in ("executed", LOST):
            return self._die(call) if fate == "executed" else self._hang_up(call)
        self._send(call, status, headers, content)
        if fate == "answered":
            self._die(call)
        return None

    def _send(self, call: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        call.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                call.send_header(name, value)
        call.end_headers()
        call.wfile.write(content)
        call.wfile.flush()

    def _carried_out(self, call: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            # the Host header goes on as it came: addresses that a provider gives out then lead here again
            connection.request(call.command, call.path, body or None, dict(call.headers.items()))
            reply = connection.getresponse()
            return reply.status, reply.getheaders(), reply.read()
        finally:
            connection.close()

    def _die(self, call: BaseHTTPRequestHandler) -> None:
        self.kill()
        self._hang_up(call)

    def _hang_up(self, call: BaseHTTPRequestHandler) -> None:
        call.close_connection = True
