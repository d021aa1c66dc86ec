"""One address with two accounts behind it, as a provider has one for each project: the key says whose a call is, and
replies name the organisation."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from layton_batch.providers.protocol import ACCOUNT_HEADERS

_HOP = frozenset({"transfer-encoding", "connection", "keep-alive", "content-length"})


@contextmanager
def switchboard(homes: Mapping[str, str]) -> Iterator[str]:
    """Serve at the address that is yielded. ``homes``: by key the URL of the sandbox that has the key's account, which
    is the name of the organisation too."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(homes)) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _handler(homes: Mapping[str, str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            said = " ".join([self.path, *self.headers.values()])
            (home,) = {url for key, url in homes.items() if key in said}
            self.close_connection = True
            with suppress(OSError, http.client.HTTPException):  # the sandbox broke the connection
                self._answer(*_asked(home, self.command, self.path, _passed_on(self.headers.items()), self._body()))

        do_GET = do_POST = do_DELETE = do_PUT = forward

        def _answer(self, status: int, headers: Sequence[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in (*headers, ("Content-Length", str(len(content)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("content-length") or 0))
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _asked(
    home: str, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes
) -> tuple[int, Sequence[tuple[str, str]], bytes]:
    """Status, headers and body of the sandbox's reply."""
    call = http.client.HTTPConnection(home.removeprefix("http://"), timeout=30)
    try:
        call.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            call.putheader(name, value)
        call.endheaders(body)
        reply = call.getresponse()
        named = [(header, home) for header in ACCOUNT_HEADERS]
        return reply.status, [*_passed_on(reply.getheaders()), *named], reply.read()
    finally:
        call.close()


def _passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP]
