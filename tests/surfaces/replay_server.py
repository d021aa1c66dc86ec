"""A batch server on 127.0.0.1 that answers every row from frozen replies, in the forms of OpenAI and Anthropic.

Nothing of the package is imported here, and nothing is drawn: the same rows get the same replies and the same tokens.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from tests.surfaces.anthropic_wire import AnthropicWire
from tests.surfaces.frozen_replies import Ledger, Reply
from tests.surfaces.openai_wire import OpenAIWire


class ReplayServer:
    """The server of a ledger; a context manager."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._openai, self._anthropic = OpenAIWire(ledger), AnthropicWire(ledger, self.url)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ReplayServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def handle(self, method: str, path: str, content_type: str, body: bytes) -> Reply | None:
        """Answer a call; None closes the connection without a reply."""
        with self._lock:
            try:
                match path.strip("/").split("/"):
                    case ["v1", "messages", "batches", *parts]:
                        return self._anthropic.handle(method, parts, content_type, body)
                    case ["v1", *parts]:
                        return self._openai.handle(method, parts, content_type, body)
            except LookupError:
                pass
        return 404, {"error": {"message": f"no {method} {path}", "type": "not_found_error"}}


def _handler(server: ReplayServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # a reply goes out at once, in two parts

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            reply = server.handle(self.command, self.path.partition("?")[0], self.headers.get("content-type", ""), body)
            if reply is None:
                self.close_connection = True
                return
            status, document = reply
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            kind = "application/octet-stream" if isinstance(document, bytes) else "application/json"
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    return Handler
