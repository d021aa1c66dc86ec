"""Access to the app: for a browser on this machine that was given the address and its token, no other page."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
        if is_entry and _same(request.query_params.get("token", ""), self.entry.token):
            return self._enter()
        if not _same(request.cookies.get(self.entry.cookie, ""), self.entry.token):
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


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sending
