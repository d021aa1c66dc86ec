"""The app on loopback: it answers a browser on this machine that has the address with its token, and no other page."""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layton_batch.errors import ManifestError

_START_SECONDS = 20.0
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with "no-referrer" a browser does not say which page a form is from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LARGEST_BODY = 100_000


@dataclass(frozen=True, slots=True)
class AppKeys:
    """Secrets of one start of the app. ``token``: part of its address; ``csrf``: part of every form."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie(self) -> str:
        """Return the cookie's name. It has the port, because browsers send cookies to all ports of a host."""
        return f"layton_batch_{self.port}"

    @property
    def address(self) -> str:
        """Return the address that the person opens."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset({f"127.0.0.1:{self.port}", f"localhost:{self.port}"})


@dataclass(frozen=True, slots=True)
class Guard:
    """ASGI app that checks every request before the labelling app sees it."""

    app: ASGIApp
    entry: AppKeys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = self._answer(Request(scope))
        await (answer or self.app)(scope, receive, _with_headers(send))

    def _answer(self, request: Request) -> Response | None:
        """Return the reply that refuses the request or sets the cookie. None: the app may answer."""
        if request.headers.get("host", "") not in self.entry.hosts:
            return PlainTextResponse("This app answers to 127.0.0.1 alone.\n", 421)
        if request.method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("This app knows GET and POST.\n", 405)
        is_entry = request.method != "POST" and request.scope["path"] == "/"
        if is_entry and is_same(request.query_params.get("token", ""), self.entry.token):
            return self._enter()
        if not is_same(request.cookies.get(self.entry.cookie, ""), self.entry.token):
            return PlainTextResponse(
                "Open the address that `layton-batch label` printed: it has a token, new at each start.\n", 403
            )
        return self._refusal_of_post(request.headers) if request.method == "POST" else None

    def _enter(self) -> Response:
        """Move the token from the address into a cookie: browser history and logs would keep an address."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.entry.cookie, self.entry.token, httponly=True, samesite="strict", path="/")
        return answer

    def _refusal_of_post(self, headers: Headers) -> Response | None:
        origins = {f"http://{host}" for host in self.entry.hosts}
        is_foreign = headers.get("origin", next(iter(origins))) not in origins
        if is_foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return PlainTextResponse("A form of another page was refused.\n", 403)
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return PlainTextResponse("This is no form of this app.\n", 413)
        return None


def is_same(given: str, expected: str) -> bool:
    """Compare secrets in a time that tells nothing of them."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sending


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
