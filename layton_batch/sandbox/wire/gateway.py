"""HTTP: routes, keys, counting of calls, bodies spooled to disk, and the faults that happen on the wire."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import IO

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from layton_batch.sandbox.engine.faults import Fault, FaultBook
from layton_batch.sandbox.engine.lifecycle import Rejection
from layton_batch.sandbox.wire.api import Endpoint, JsonReply, ProviderApi, SandboxCall

_LOG = logging.getLogger(__name__)
_SPOOL = 1 << 20
_SUBJECT = 1 << 16


class OpenProtocol(H11Protocol):
    """Hands the transport to the application, which an injected fault needs to break a connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _Dropped(Response):
    """Closes the connection instead of replying; with `part`, after the head of a reply and a part of its body."""

    def __init__(self, head: Response | None = None, part: bytes = b"") -> None:
        super().__init__()
        self._head = head
        self._part = part

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._head is not None:
            headers = self._head.raw_headers
            await send({"type": "http.response.start", "status": self._head.status_code, "headers": headers})
            await send({"type": "http.response.body", "body": self._part, "more_body": True})
        scope["state"]["transport"].close()
        while (await receive())["type"] != "http.disconnect":
            pass


class Gateway:
    """Serves the APIs, one mount each."""

    def __init__(self, faults: FaultBook, clock: Callable[[], float]) -> None:
        self._faults = faults
        self._clock = clock
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._lock = threading.Lock()

    def counts(self) -> dict[str, dict[str, int]]:
        """Calls by provider and kind, refused and dropped ones included."""
        with self._lock:
            return {provider: dict(counts) for provider, counts in self._counts.items()}

    def mount(self, api: ProviderApi) -> BaseRoute:
        routes = [Route(e.path, self._bound(api, e), methods=[e.method]) for e in api.endpoints()]
        return Mount(api.prefix, routes=routes)

    def _bound(self, api: ProviderApi, endpoint: Endpoint) -> Callable[[Request], object]:
        async def serve(request: Request) -> Response:
            with self._lock:
                self._counts[api.provider][endpoint.on] += 1
            try:
                if not endpoint.keyless:
                    api.admit_call(request.headers)
                with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as body:
                    return await self._answered(api, endpoint, await _read(request, body))
            except Rejection as rejection:
                return _refused(api, rejection)
            except ClientDisconnect:
                return Response(status_code=499)
            except HTTPException as error:
                return _refused(api, Rejection(error.status_code, f"the body could not be read: {error.detail}"))
            except Exception:
                _LOG.exception("sandbox: %s %s failed", request.method, request.url.path)
                return _refused(api, Rejection(500, "the sandbox itself failed; its log has the traceback"))
            finally:
                await request.close()

        return serve

    async def _answered(self, api: ProviderApi, endpoint: Endpoint, call: SandboxCall) -> Response:
        fault = self._faults.due(api.provider, endpoint.on, _subject(endpoint, call))
        injected = Rejection(
            fault.status, fault.name or "injected failure", code=fault.kind or None, retry_after=fault.retry_after
        )
        match fault.action:
            case "drop":
                return _Dropped()
            case "status":
                return _refused(api, injected)
            case "delay":
                await asyncio.sleep(fault.seconds)
        try:
            answer = await run_in_threadpool(endpoint.handler, call)
        except Rejection as rejection:
            return _Dropped() if fault.action == "drop_after" else _refused(api, rejection)
        if fault.action == "status_after":
            return _refused(api, injected)
        response = answer if isinstance(answer, Response) else JsonReply(answer)
        response.headers["date"] = formatdate(self._clock(), usegmt=True)
        return await run_in_threadpool(_damaged, response, fault)


async def _read(request: Request, body: IO[bytes]) -> SandboxCall:
    form: Mapping[str, str | UploadFile] = {}
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        form = await request.form()
    else:
        async for chunk in request.stream():
            body.write(chunk)
    body.seek(0)
    root = f"{request.url.scheme}://{request.headers.get('host', request.url.netloc)}"
    parts = request.url.path, root, request.path_params, request.query_params, request.headers
    fields = {name: value for name, value in form.items() if isinstance(value, str)}
    uploads = [value for value in form.values() if isinstance(value, UploadFile)]
    return SandboxCall(*parts, body, fields, uploads[0] if uploads else None)


def _subject(endpoint: Endpoint, call: SandboxCall) -> str:
    name = "" if call.upload is None else call.upload.filename or ""
    head = b""
    if endpoint.on == "create":
        head = call.body.read(_SUBJECT)
        call.body.seek(0)
    return "\n".join([call.path, name, *call.fields.values(), head.decode("utf-8", "replace")])


def _refused(api: ProviderApi, rejection: Rejection) -> Response:
    headers = {} if rejection.retry_after is None else {"retry-after": f"{rejection.retry_after:g}"}
    return JsonReply(api.refusal(rejection), rejection.status, headers)


def _damaged(response: Response, fault: Fault) -> Response:
    """Apply a fault to a finished reply."""
    if fault.action == "drop_after":
        return _Dropped()
    if fault.action == "not_json":
        return HTMLResponse("<html><body><h1>502 Bad Gateway</h1></body></html>")
    if fault.action not in ("truncate", "short", "cut"):
        return response
    whole = Path(response.path).read_bytes() if isinstance(response, FileResponse) else bytes(response.body)
    part = whole[: _middle(whole, fault.share)]
    if fault.action == "short":
        lines = whole.splitlines(keepends=True)
        part = b"".join(lines[: int(len(lines) * fault.share)])
    if fault.action == "cut":
        return _Dropped(Response(whole, response.status_code, media_type=response.media_type), part)
    return Response(part, response.status_code, media_type=response.media_type)


def _middle(whole: bytes, share: float) -> int:
    """A place to cut that is never the end of a line, so that the last line is always damaged."""
    place = int(len(whole) * share)
    while place > 0 and (whole[place - 1 : place] in (b"\n", b"}") or whole[place : place + 1] == b"\n"):
        place -= 1
    return place
