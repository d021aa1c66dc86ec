"""The sandbox's providers without sockets: the SDKs' HTTP transports hand their requests to its gateway directly.

The program under test keeps its dialects and the providers' own SDKs; only the lowest layer, the one that would open a
connection, is replaced. The gateway's coroutines are run by hand: nothing in them waits, so there is no event loop and
no second thread, and a history is the same every time.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import httpx
import httpx2
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import compile_path

from layton_batch.providers import http_client
from layton_batch.providers.protocol import CallLimits
from layton_batch.sandbox.engine.configuration import SandboxConfig
from layton_batch.sandbox.engine.execution import Executor
from layton_batch.sandbox.engine.faults import PROVIDERS, FaultBook
from layton_batch.sandbox.engine.ledger import Ledger, SandboxPrices, summarise
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import SandboxBatch, Store
from layton_batch.sandbox.wire import gateway as wire_side
from layton_batch.sandbox.wire.anthropic_api import AnthropicApi
from layton_batch.sandbox.wire.gateway import Endpoint, Gateway, Wire
from layton_batch.sandbox.wire.gemini_api import GeminiApi
from layton_batch.sandbox.wire.mistral_api import MistralApi
from layton_batch.sandbox.wire.openai_api import OpenAIApi
from layton_batch.sandbox.wire.openai_rows import DOUBLEWORD, GROQ, OPENAI
from layton_batch.sandbox.wire.openrouter_api import OpenRouterApi
from layton_batch.sandbox.wire.together_api import TogetherApi
from tests.simulation.outages import Kind

HOST = "providers.invalid"
GATEWAY = "gateway.invalid"
"""Another address of the same accounts."""
OTHER = "other-account"
"""In each key of the other account."""
SIGNED = f"{OTHER}.invalid"
"""The host of the addresses that the other account signs."""
ADDRESSES = {
    "OPENAI_BASE_URL": "/openai/v1",
    "ANTHROPIC_BASE_URL": "/anthropic",
    "GOOGLE_GEMINI_BASE_URL": "/gemini",
    "MISTRAL_BASE_URL": "/mistral",
    "TOGETHER_BASE_URL": "/together",
    "GROQ_BASE_URL": "/groq",
    "DOUBLEWORD_BASE_URL": "/doubleword/v1",
    "OPENROUTER_BASE_URL": "/openrouter/api/v1",
}
PRICES = SandboxPrices.bundled()
_REFUSED = 400
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

Watch = Callable[[str, str, str], None]
"""Told of every call: (phase, provider, kind of call); phase is "sent" or "executed". May raise, or move the clock."""


class LateLists(SandboxEngine):
    """Providers whose batch listings lag: a batch is not shown before it is ``lag`` seconds old. ``at``: what is being
    carried out belongs to this earlier moment."""

    lag: float = 0.0
    at: float | None = None
    hidden: frozenset[str] = frozenset()
    """Batches that no list shows."""

    def now(self) -> float:
        return super().now() if self.at is None else self.at

    def everything(self, provider: str) -> list[SandboxBatch]:
        shown = (batch for batch in super().everything(provider) if batch.id not in self.hidden)
        return [batch for batch in shown if self.now() - batch.created >= self.lag]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a client sees; ``broken``: the connection ends after these bytes, though more were announced."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """What is behind the keys of an account: its batches, and the calls that carry them on."""

    engine: LateLists
    routes: Sequence[tuple[str, re.Pattern[str], Wire, Endpoint]]


class Unreachable(Exception):
    """No connection is made: the call certainly did nothing."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Call number ``at`` of the history never returns: the program gives it up at its deadline. ``heard``: it was
    carried out. ``drips``: bytes come all the time, so that only the deadline of the whole call ends it."""

    at: int
    heard: bool
    drips: bool


class GivenUp(Exception):
    """A call that never returned, at its deadline."""

    def __init__(self, silence: Silence) -> None:
        super().__init__("no end of the call")
        self.drips = silence.drips


class Mistakes(logging.Handler):
    """What the sandbox logs as its own failures: a provider that fails in a way none does proves nothing."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self.told.append(f"{record.getMessage()}: {cause!r}" if cause else record.getMessage())


class Providers:
    """All eight providers' side of the wire, kept in ``folder``: one account, and with ``open_other`` another one.

    ``late_create``: the next create loses its connection, and is carried out all the same so many seconds later.
    ``denied``: how many creates of a provider are still to be carried out, answered with HTTP 500 and never listed.
    ``outage`` says of a call to a provider whether it fails before it gets there, and how. ``silence`` is asked once
    for each call, and says how it never returns; ``wait`` has its deadline pass. ``mistakes``: what went wrong in the
    sandbox itself, and calls to strangers. ``refused_at``: when a call last failed, in the providers' seconds.
    """

    def __init__(self, folder: Path, config: SandboxConfig, *, list_lag: float = 0.0) -> None:
        assert config.answerer is not None
        self.config, self._faults, self._lag = config, FaultBook(config.faults), list_lag
        self._executor = Executor(config.answerer, PRICES, self._faults, config.seed)
        self._accounts = [self._opened(folder)]
        self._gateway = Gateway(self._faults, folder / "incoming", config.clock)
        self.foreign: frozenset[str] = frozenset()
        self.watch: Watch = lambda _phase, _provider, _kind: None
        self.late_create: float | None = None
        self.denied: Counter[str] = Counter()
        self.outage: Callable[[str], Kind | None] = lambda _provider: None
        self.silence: Callable[[], Silence | None] = lambda: None
        self.wait: Callable[[float], None] = lambda _seconds: None
        self.refused_at = 0.0
        self.mistakes = Mistakes()
        self._delayed: list[tuple[float, LateLists, Callable[[], object]]] = []

    def open_other(self, folder: Path) -> None:
        """Add another account, which has its own keys. Its batches so far, in ``folder``, are a stranger's."""
        other = self._opened(folder)
        self._accounts.append(other)
        store = other.engine.store
        self.foreign = frozenset(batch.id for provider in PROVIDERS for batch in store.batches(provider))
        self.foreign |= {file.id for provider in PROVIDERS for file in store.files(provider)}

    def renew_foreign(self) -> None:
        """Make the stranger's batches and files as new as this moment, so that no time tells them from ours."""
        store, now = self._stores[-1], self.config.clock()
        for provider in PROVIDERS:
            for file in store.files(provider):
                if file.id in self.foreign:
                    store.put_file(replace(file, created=now))
            for batch in store.batches(provider):
                if batch.id in self.foreign:
                    store.put_batch(replace(batch, created=now, ended=now))

    def _opened(self, folder: Path) -> Account:
        engine = LateLists(Store(folder), self._executor, self._faults, self.config)
        engine.lag = self._lag
        routes = [
            (endpoint.method, compile_path(wire.prefix + endpoint.path)[0], wire, endpoint)
            for wire in _wires(engine)
            for endpoint in wire.endpoints
        ]
        return Account(engine, routes)

    @property
    def _stores(self) -> list[Store]:
        return [account.engine.store for account in self._accounts]

    def environment(self) -> dict[str, str]:
        """Keys that are none and the address of each provider here."""
        keys = {f"{provider.upper()}_API_KEY": f"key-for-{provider}" for provider in PROVIDERS}
        return keys | {name: f"http://{HOST}{path}" for name, path in ADDRESSES.items()}

    def ledger(self) -> Ledger:
        """Return what was billed to us, in either account."""
        return summarise(row for store in self._stores for row in store.billed() if row.batch_id not in self.foreign)

    def batches(self, provider: str) -> list[SandboxBatch]:
        """Every batch the provider has, settled as of now, also those its listing does not show yet."""
        return [batch for is_other in (False, True) for batch in self.batches_at(provider, is_other=is_other)]

    def batches_at(self, provider: str, *, is_other: bool) -> list[SandboxBatch]:
        """Return the batches of one account, but for a stranger's."""
        self.catch_up()
        found = [
            account.engine.current(provider, batch.id)
            for account in self._accounts[is_other : 1 + is_other]
            for batch in account.engine.store.batches(provider)
        ]
        return [batch for batch in found if batch is not None and batch.id not in self.foreign]

    def requests_of(self, batch: SandboxBatch) -> bytes:
        """Return the batch file of a batch; empty where it is there no more."""
        paths = [store.blob(batch.provider, batch.input_id) for store in self._stores]
        return next((path.read_bytes() for path in paths if path.is_file()), b"")

    def uploads(self, provider: str) -> int:
        """Batch files the provider holds."""
        files = [file for store in self._stores for file in store.files(provider) if file.id not in self.foreign]
        return sum(file.kind == "input" and file.ready for file in files)

    def calls(self) -> dict[str, dict[str, int]]:
        return self._gateway.counts()

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def answer(self, request: httpx.Request) -> Reply | None:
        """Carry out one call. None: the connection closes without a reply. Raises Unreachable and GivenUp."""
        reply = None
        try:
            reply = self._answer(request)
        finally:
            if reply is None or reply.broken or reply.status >= _REFUSED:
                self.refused_at = self.config.clock()
        return reply

    def route(self, method: str, path: str) -> tuple[str, str]:
        """Return the provider and the kind of call that a request is."""
        wire, endpoint, _ = _route(self._accounts[0], method, path)
        return wire.provider, endpoint.on

    def _answer(self, request: httpx.Request) -> Reply | None:
        account = self._accounts[_is_other(request)]
        wire, endpoint, params = _route(account, request.method, request.url.path)
        if request.method != "GET" and any(name in request.url.path for name in self.foreign):
            self.mistakes.told.append(f"a stranger's batch was called: {request.method} {request.url.path}")
        body = b"".join(request.stream)  # type: ignore[arg-type]
        self.catch_up()
        match self.outage(wire.provider):
            case "network":
                raise Unreachable
            case "keys":
                return _reply(wire_side._refused(wire, wire.no_key))
        silence = self.silence()
        if silence is not None and not silence.heard:
            self.watch("sent", wire.provider, endpoint.on)
            self.wait(CallLimits().seconds)
            raise GivenUp(silence)
        if endpoint.on == "create" and self.late_create is not None:
            due, self.late_create = self.config.clock() + self.late_create, None
            self._delayed.append((due, account.engine, lambda: self._serve(wire, endpoint, request, params, body)))
            self.watch("sent", wire.provider, endpoint.on)
            return None
        self.watch("sent", wire.provider, endpoint.on)
        before = frozenset(batch.id for batch in account.engine.store.batches(wire.provider))
        response = self._serve(wire, endpoint, request, params, body)
        if endpoint.on == "create" and self.denied[wire.provider] > 0:
            response = self._denied(account.engine, wire, response, before)
        self.watch("executed", wire.provider, endpoint.on)
        if silence is not None:
            self.wait(CallLimits().seconds)
            raise GivenUp(silence)
        return _reply(response)

    @property
    def hidden(self) -> frozenset[str]:
        """Batches that were made and denied."""
        return frozenset[str]().union(*(account.engine.hidden for account in self._accounts))

    def _denied(self, engine: LateLists, wire: Wire, response: Response, before: frozenset[str]) -> Response:
        """HTTP 500 where the create made a batch, which is in no list from now on."""
        made = frozenset(batch.id for batch in engine.store.batches(wire.provider)) - before
        if not made:
            return response
        self.denied[wire.provider] -= 1
        engine.hidden |= made
        return Response(b'{"error": {"message": "internal error"}}', 500, media_type="application/json")

    @property
    def waiting(self) -> int:
        """Calls that are yet to be carried out."""
        return len(self._delayed)

    def catch_up(self) -> None:
        """Carry out what was kept waiting until now."""
        now = self.config.clock()
        ready = [late for late in self._delayed if late[0] <= now]
        self._delayed = [late for late in self._delayed if late[0] > now]
        for due, engine, call in ready:
            engine.at = due  # the clock moves only when somebody waits, and may have passed the moment
            call()
            engine.at = None

    def _serve(
        self, wire: Wire, endpoint: Endpoint, request: httpx.Request, params: Mapping[str, str], body: bytes
    ) -> Response:
        return _run(self._gateway._serve(wire, endpoint, _received(request, params, body)))


def _is_other(request: httpx.Request) -> bool:
    return OTHER in " ".join([str(request.url), *request.headers.values()])


def _route(account: Account, method: str, path: str) -> tuple[Wire, Endpoint, dict[str, str]]:
    for wanted, pattern, wire, endpoint in account.routes:
        found = pattern.match(path) if wanted == method else None
        if found:
            return wire, endpoint, found.groupdict()
    raise AssertionError(f"the program called {method} {path}, which no provider has")


def _wires(engine: SandboxEngine) -> list[Wire]:
    faces: list[Any] = [OpenAIApi(engine, flavour) for flavour in (OPENAI, GROQ, DOUBLEWORD)]
    faces += [AnthropicApi(engine), GeminiApi(engine), MistralApi(engine), TogetherApi(engine), OpenRouterApi(engine)]
    return [face.wire() for face in faces]


def _received(request: httpx.Request, params: Mapping[str, str], body: bytes) -> Request:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(name.lower(), value) for name, value in request.headers.raw]
    if _is_other(request):
        headers = [(name, SIGNED.encode() if name == b"host" else value) for name, value in headers]
    scope = {
        "type": "http",
        "method": request.method,
        "scheme": "http",
        "server": (HOST, 80),
        "path": request.url.path,
        "query_string": request.url.query,
        "headers": headers,
        "path_params": dict(params),
        "state": {},
    }
    return Request(scope, receive)


def _run(coroutine: Coroutine[Any, Any, Response]) -> Response:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        response: Response = done.value
        return response
    coroutine.close()
    raise AssertionError("a provider wanted to wait; on a clock of our own nothing may")


async def _here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _reply(response: Response) -> Reply | None:
    if isinstance(response, wire_side._Dropped):
        if response._head is None:
            return None
        head = response._head
        return Reply(head.status_code, list(head.raw_headers), response._part, broken=True)
    content = Path(response.path).read_bytes() if isinstance(response, FileResponse) else bytes(response.body)
    headers = [pair for pair in response.raw_headers if pair[0].lower() != b"content-length"]
    return Reply(response.status_code, [*headers, (b"content-length", str(len(content)).encode())], content)


# ---- in the SDKs' place ---------------------------------------------------------------------------------------------


@contextmanager
def connected(providers: Providers) -> Iterator[None]:
    """While the block runs every SDK's HTTP library reaches these providers, and nothing else."""
    sandbox = logging.getLogger("layton_batch.sandbox")
    with ExitStack() as stack:
        sandbox.addHandler(providers.mistakes)
        stack.callback(sandbox.removeHandler, providers.mistakes)
        stack.enter_context(mock.patch.object(wire_side, "run_in_threadpool", _here))
        # nothing waits here, and the harness knows a program by its thread: the steps of a call are taken in it
        stack.enter_context(mock.patch.object(http_client._HttpCall, "_run", lambda _call, step: step()))
        # one of the SDKs loads the machine's certificates for each client, which takes as long as a tenth of a history
        stack.enter_context(mock.patch.object(ssl, "create_default_context", return_value=_TLS))
        for library in (httpx, httpx2):
            _patch(stack, library, providers)
        yield


def _patch(stack: ExitStack, library: ModuleType, providers: Providers) -> None:
    def handle(_transport: object, request: Any) -> Any:
        if request.url.host not in (HOST, GATEWAY, SIGNED):
            providers.mistakes.told.append(f"a call to {request.url.host}")
        try:
            return _response(library, providers.answer(request), request)
        except GivenUp as given_up:
            if given_up.drips:
                raise http_client.DeadlineError("no end of the call in 600 seconds: it is given up") from None
            raise library.ReadTimeout("The read operation timed out", request=request) from None
        except Unreachable:
            raise library.ConnectError("[Errno 101] Network is unreachable", request=request) from None

    def nothing(*_arguments: object, **_options: object) -> None:
        """No pool, and no TLS context that would take longer to make than a whole history."""

    async def nothing_later(*_arguments: object) -> None:
        pass

    replaced: dict[str, Callable[..., object]] = {"__init__": nothing, "close": nothing, "handle_request": handle}
    for name, function in replaced.items():
        stack.enter_context(mock.patch.object(library.HTTPTransport, name, function))
    for name, function in (("__init__", nothing), ("aclose", nothing_later)):
        stack.enter_context(mock.patch.object(library.AsyncHTTPTransport, name, function))


def _response(library: ModuleType, reply: Reply | None, request: Any) -> Any:
    if reply is None:
        raise library.RemoteProtocolError("Server disconnected without sending a response.", request=request)

    content, broken = reply.content, reply.broken

    class Body(library.SyncByteStream):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Iterator[bytes]:
            yield content
            if broken:
                raise library.RemoteProtocolError("peer closed connection without sending complete message body")

    return library.Response(reply.status, headers=reply.headers, stream=Body(), request=request)
