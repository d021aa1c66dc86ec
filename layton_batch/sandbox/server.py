"""The sandbox as one loopback server, with its own pages for the bill and the batches under /sandbox."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from layton_batch.sandbox import environment_file
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from layton_batch.sandbox.engine.faults import FaultBook
from layton_batch.sandbox.engine.lifecycle import SandboxConfig, SandboxEngine
from layton_batch.sandbox.engine.store import Ledger, Store, summarise
from layton_batch.sandbox.wire.anthropic_api import AnthropicApi
from layton_batch.sandbox.wire.api import JsonReply
from layton_batch.sandbox.wire.gateway import Gateway, OpenProtocol
from layton_batch.sandbox.wire.gemini_api import GeminiApi
from layton_batch.sandbox.wire.mistral_api import MistralApi
from layton_batch.sandbox.wire.openai_api import DoublewordApi, GroqApi, OpenAIApi, XaiApi
from layton_batch.sandbox.wire.openrouter_api import OpenRouterApi
from layton_batch.sandbox.wire.together_api import TogetherApi

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
_END_SECONDS = 20.0


class Sandbox:
    """Serves from construction to `stop()`; a context manager. Raises OSError when the port is taken."""

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config or SandboxConfig()
        self._last_ledger: Ledger | None = None
        with ExitStack() as opened:
            folder = self.config.state_dir
            if folder is None:
                folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="layton-batch-sandbox-")))
            # asyncio turns Nagle's delay (40 ms a reply) off only on sockets that name the protocol.
            listener = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.config.port))
            listener.listen(128)
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._store = Store(folder)
            opened.callback(self._store.close)
            faults = FaultBook(self.config.faults, self.config.clock)
            answerer = self.config.answerer or SimulateAnswerer()
            self._engine = SandboxEngine(self._store, faults, self.config, answerer)
            self._gateway = Gateway(faults, self._engine.now)
            self._apis = [api(self._engine, self.url) for api in APIS]
            self._server = uvicorn.Server(self._uvicorn_config())
            thread = threading.Thread(target=self._server.run, args=([listener],), name="sandbox", daemon=True)
            thread.start()  # calls may come at once: they wait at the socket
            opened.callback(self._end, thread)
            self._opened = opened.pop_all()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop serving; what is in `state_dir` stays for the next sandbox. Can be called twice."""
        self._opened.close()

    def _end(self, thread: threading.Thread) -> None:
        self._server.should_exit = True
        thread.join(_END_SECONDS)
        self._last_ledger = self.ledger()

    def environment(self) -> dict[str, str]:
        """The SDKs' own variables: every provider's address here and a key that is none."""
        variables = {}
        for api in APIS:
            name = api.provider.upper()
            variables[f"{name}_API_KEY"] = f"{environment_file.KEY}{api.provider}"
            variables[f"{api.address_name or name}_BASE_URL"] = self.url + api.prefix
        return variables

    def ledger(self) -> Ledger:
        """Everything billed so far; after `stop()`, everything that was."""
        return self._last_ledger or summarise(self._store.billed())

    def request_counts(self) -> dict[str, dict[str, int]]:
        """HTTP calls by provider and kind (upload, create, poll, results, list, cancel, ...), failed ones included."""
        return self._gateway.counts()

    def _uvicorn_config(self) -> uvicorn.Config:
        return uvicorn.Config(
            self._application(),
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
        pages = [Route("/sandbox/ledger", self._ledger_page), Route("/sandbox/batches", self._batches_page)]
        # A page in a browser can have its own name resolve to 127.0.0.1 (DNS rebinding) and would then read all that is
        # here; the browser's Host header still gives that name.
        loopback_only = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
        return Starlette(routes=[*pages, *map(self._gateway.mount, self._apis)], middleware=[loopback_only])

    def _batches_page(self, _request: Request) -> Response:
        return JsonReply([batch for api in self._apis for batch in self._engine.everything(api)])

    def _ledger_page(self, request: Request) -> Response:
        ledger = self.ledger()
        names = [field.name for field in dataclasses.fields(ledger)]
        is_whole = request.query_params.get("rows") == "1"
        return JsonReply({name: getattr(ledger, name) for name in names if is_whole or name != "rows"})


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
