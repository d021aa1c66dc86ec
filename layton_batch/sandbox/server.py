"""The sandbox as one loopback server, with its own pages for health, bills, batches and call counts under /sandbox."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from decimal import Decimal
from pathlib import Path
from types import FrameType, TracebackType

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from layton_batch.sandbox import environment_file
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from layton_batch.sandbox.engine.configuration import SandboxConfig
from layton_batch.sandbox.engine.execution import Executor
from layton_batch.sandbox.engine.faults import PROVIDERS, FaultBook
from layton_batch.sandbox.engine.ledger import Ledger, SandboxPrices, summarise
from layton_batch.sandbox.engine.lifecycle import SandboxEngine
from layton_batch.sandbox.engine.store import Store
from layton_batch.sandbox.wire.anthropic_api import AnthropicApi
from layton_batch.sandbox.wire.api import JsonReply
from layton_batch.sandbox.wire.gateway import Gateway, LoopbackOnly, OpenProtocol
from layton_batch.sandbox.wire.gemini_api import GeminiApi
from layton_batch.sandbox.wire.mistral_api import MistralApi
from layton_batch.sandbox.wire.openai_api import DoublewordApi, GroqApi, OpenAIApi
from layton_batch.sandbox.wire.openrouter_api import OpenRouterApi
from layton_batch.sandbox.wire.together_api import TogetherApi
from layton_batch.sandbox.wire.xai_api import XaiApi

_BASE_URLS = {
    "OPENAI_BASE_URL": "/openai/v1",
    "ANTHROPIC_BASE_URL": "/anthropic",
    "GOOGLE_GEMINI_BASE_URL": "/gemini",
    "MISTRAL_BASE_URL": "/mistral",
    "TOGETHER_BASE_URL": "/together",
    "GROQ_BASE_URL": "/groq",
    "DOUBLEWORD_BASE_URL": "/doubleword/v1",
    "OPENROUTER_BASE_URL": "/openrouter/api/v1",
    "XAI_BASE_URL": "/xai/v1",
}
APIS = (
    OpenAIApi,
    GroqApi,
    DoublewordApi,
    AnthropicApi,
    GeminiApi,
    MistralApi,
    TogetherApi,
    OpenRouterApi,
    XaiApi,
)
_START_SECONDS = 20.0


class Sandbox:
    """Serves from construction to `stop()`; a context manager. Raises OSError when the port is taken."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        self._scratch = None
        folder = self.config.state_dir
        if folder is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="layton-batch-sandbox-")
            folder = Path(self._scratch.name)
        # asyncio turns Nagle's delay (40 ms a reply) off only on sockets that name the protocol.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(("127.0.0.1", self.config.port))
            self._socket.listen(128)
            self._store = Store(folder)
        except BaseException:
            self._socket.close()
            if self._scratch is not None:
                self._scratch.cleanup()
            raise
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        faults = FaultBook(self.config.faults, self.config.clock)
        executor = Executor(
            self.config.answerer or SimulateAnswerer(), SandboxPrices.bundled(), faults, self.config.seed
        )
        self._engine = SandboxEngine(self._store, executor, faults, self.config)
        self._gateway = Gateway(faults, self._store.incoming, self._engine.now)
        self._last_ledger: Ledger | None = None
        self._server = uvicorn.Server(self._uvicorn_config())
        self._thread = threading.Thread(target=self._serve, name="layton-batch-sandbox", daemon=True)
        self._thread.start()
        self._wait()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop serving; what is in `state_dir` stays for the next sandbox. Can be called twice."""
        if not self._thread.is_alive() and self._socket.fileno() < 0:
            return
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)
        self._socket.close()
        self._last_ledger = self.ledger()
        self._store.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def environment(self) -> dict[str, str]:
        """The SDKs' own variables: every provider's address here and a key that is none."""
        variables = {f"{provider.upper()}_API_KEY": f"{environment_file.KEY}{provider}" for provider in PROVIDERS}
        return variables | {name: self.url + path for name, path in _BASE_URLS.items()}

    def ledger(self) -> Ledger:
        """Everything billed so far; after `stop()`, everything that was."""
        return self._last_ledger or summarise(self._store.billed())

    def request_counts(self) -> dict[str, dict[str, int]]:
        """HTTP calls by provider and kind (upload, create, poll, results, list, cancel, ...), failed ones included."""
        return self._gateway.counts()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _wait(self) -> None:
        pause = threading.Event()
        waited = 0.0
        while not self._server.started and self._thread.is_alive() and waited < _START_SECONDS:
            pause.wait(0.005)
            waited += 0.005
        if not self._server.started:
            self.stop()
            raise RuntimeError("the sandbox did not start serving")

    def _uvicorn_config(self) -> uvicorn.Config:
        return uvicorn.Config(
            LoopbackOnly(self._application()),
            http=OpenProtocol,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,  # by the sandbox's own clock
            timeout_graceful_shutdown=1,
        )

    def _application(self) -> Starlette:
        engine = self._engine
        apis = [api(engine) for api in APIS]
        pages = [
            Route("/sandbox/health", self._health),
            Route("/sandbox/ledger", self._ledger_page),
            Route("/sandbox/batches", self._batches_page),
            Route("/sandbox/requests", self._requests_page),
        ]
        return Starlette(routes=[*pages, *map(self._gateway.mount, apis)])

    def _health(self, _request: Request) -> Response:
        return JsonReply({"status": "ok", "providers": list(PROVIDERS)})

    def _requests_page(self, _request: Request) -> Response:
        return JsonReply(self.request_counts())

    def _batches_page(self, _request: Request) -> Response:
        batches = [batch for provider in PROVIDERS for batch in self._engine.everything(provider)]
        return JsonReply([{**dataclasses.asdict(batch), "phase": self._engine.phase(batch)} for batch in batches])

    def _ledger_page(self, request: Request) -> Response:
        document = _plain(dataclasses.asdict(self.ledger()))
        if isinstance(document, dict) and request.query_params.get("rows") != "1":
            del document["rows"]
        return JsonReply(document)


def _plain(value: object) -> object:
    """Decimals as plain strings, exact."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return format(value, "f") if isinstance(value, Decimal) else value


def serve_forever(config: SandboxConfig, env_file: Path | None = None) -> None:
    """Serve until SIGINT or SIGTERM; main thread only. Says where on stderr; `env_file` then gets the environment that
    points here, as a .env file, whole. Raises FileExistsError where that would replace anything else."""
    if env_file is not None:
        environment_file.check_replaceable(env_file)  # before anything listens
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    stop_requests, ends = os.pipe()  # an event that is set by a handler while it begins to be waited for is never set

    def leave(_number: int, _frame: FrameType | None) -> None:
        os.write(ends, b".")

    previous = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Sandbox(config) as sandbox:
            exports = " ".join(f"{name}={value}" for name, value in sandbox.environment().items())
            sys.stderr.write(f"sandbox at {sandbox.url}: export {exports}\n")
            sys.stderr.flush()
            if env_file is not None:
                environment_file.write(env_file, sandbox.environment())
            os.read(stop_requests, 1)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(stop_requests)
        os.close(ends)
