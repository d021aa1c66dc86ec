"""How batchling's provider adapters are used: for the forms of requests and replies, never for waiting.

Its own poll loop is not called: it fails on Python 3.11, and one failed reading costs it the whole batch. What its
adapters would lose (error codes, later pages of results, a status they do not know) is read here from the replies
themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from layton_batch.errors import FileError, ProviderError, RequestRefusedError
from layton_batch.providers import http_rules
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.protocol import Access, Capabilities, Limits, Patience, StatusMeaning
from layton_batch.providers.wire_errors import api_key, parse_object, wire
from layton_batch.providers.wire_json import JsonObject
from layton_batch.records import Found, JsonValue, ModelSpec, Request, Snapshot, Submission
from layton_batch.states import Lifecycle

if TYPE_CHECKING:
    import httpx

MEMORY = "its adapter holds batch files and creation calls in memory whole"

_Result = TypeVar("_Result")
_CHUNK = 65_536


class Adapted:
    """What the APIs behind batchling's adapters have in common. ``adapter_path`` is ``module:class``."""

    name: str
    adapter_path: str
    key_variable: str
    address: str
    limits: Limits
    capabilities: Capabilities
    status_map: Mapping[str, StatusMeaning]
    efforts: tuple[str, ...] = ("none", "low", "medium", "high")

    def __init__(self, access: Access | None) -> None:
        self._access = access
        self._made: Any = None
        self._http: httpx.Client | None = None

    # ---- no network

    def check(self, spec: ModelSpec) -> list[str]:
        """What in a model's settings this API cannot do."""
        return shape.spec_problems(spec, efforts=self.efforts)

    def encode(self, request: Request) -> dict[str, JsonValue]:
        """One line of a batch file, as an object."""
        raise NotImplementedError

    # ---- network

    def find(self, submission: Submission) -> Sequence[Found]:
        """Nothing: no way to list batches that could be relied on."""
        return []

    def snapshot(self, provider_id: str) -> Snapshot:
        raise NotImplementedError

    def cancel(self, provider_id: str) -> None:
        raise RequestRefusedError(
            f"{self.name}: batch {provider_id} cannot be cancelled from here; stop it in the provider's console"
        )

    def close(self) -> None:
        """Let go of connections; the next call opens new ones."""
        client, self._http = self._http, None
        if client is not None:
            client.close()

    # ---- shared machinery

    def _adapter(self) -> Any:
        if self._made is None:
            module, _, name = self.adapter_path.partition(":")
            self._made = getattr(importlib.import_module(module), name)()
        return self._made

    def _key(self) -> str:
        return api_key(self._access, self.key_variable, self.name)

    def _base(self) -> str:
        """Scheme and host (and path before ``/v1``): the adapters' paths begin with ``/v1``."""
        address = (self._access.base_url if self._access else None) or self.address
        return address.rstrip("/").removesuffix("/v1")

    @property
    def _patience(self) -> Patience:
        return self._access.patience if self._access else Patience()

    def _seconds(self) -> float:
        return self._patience.head

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = self._adapter().build_api_headers(headers={"authorization": f"Bearer {self._key()}"})
        return headers

    def _wire(self, call: str, *, paid: bool = False) -> AbstractContextManager[None]:
        return wire(self.name, call, secret=self._key(), paid=paid)

    def _drive(self, step: Coroutine[Any, Any, _Result], size: int = 0) -> _Result:
        """Run one of the adapter's asynchronous steps, which moves about ``size`` bytes, to its end, in this thread."""
        return http_rules.run_within(step, self._access, size)

    def _client_factory(self) -> httpx.AsyncClient:
        """What the adapters send with. A reply that is not JSON must not pass for a yes, and they do not all look."""
        import httpx

        async def must_be_json(reply: httpx.Response) -> None:
            http_rules.measured_later(reply, self._patience)
            if reply.is_success:
                raw = await reply.aread()
                if raw.strip():
                    parse_object(raw, self.name, f"the reply to {reply.request.method} {reply.request.url.path}")

        hooks: dict[str, list[Any]] = {"request": [http_rules.ask_for_gzip_later], "response": [must_be_json]}
        return httpx.AsyncClient(verify=http_rules.certificates("httpx"), timeout=self._seconds(), event_hooks=hooks)

    def _plain_client(self) -> httpx.AsyncClient:
        import httpx

        async def a_file(reply: httpx.Response) -> None:
            http_rules.measured_later(reply, self._patience, whole=False)

        hooks: dict[str, list[Any]] = {"request": [http_rules.ask_for_gzip_later], "response": [a_file]}
        return httpx.AsyncClient(verify=http_rules.certificates("httpx"), timeout=self._seconds(), event_hooks=hooks)

    def _open(self) -> httpx.Client:
        if self._http is None:
            import httpx

            self._http = http_rules.opened(httpx.Client, self._access, headers=self._headers())
        return self._http

    def _call(
        self,
        method: str,
        path: str,
        call: str,
        *,
        params: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        files: Mapping[str, tuple[str, IO[bytes], str]] | None = None,
        paid: bool = False,
    ) -> JsonObject:
        """One plain HTTP call; its reply as an object."""
        client = self._open()
        with self._wire(call, paid=paid):
            reply = client.request(method, self._base() + path, params=params, json=body, files=files)
            reply.raise_for_status()
            return parse_object(reply.content or b"{}", self.name, f"the reply to: {call}")

    def _poll(self, provider_id: str) -> tuple[JsonObject, bool]:
        """A batch's payload, and whether the adapter's word for its status is a final one.

        The word is compared with the values of its states: ``in`` their class raises before Python 3.12.
        """
        adapter = self._adapter()
        spec = adapter.build_poll_request_spec(base_url=self._base(), api_headers=self._headers(), batch_id=provider_id)
        payload = self._call(spec.method, spec.path, f"poll batch {provider_id}")
        with self._wire(f"read the state of batch {provider_id}"):
            reading = self._drive(adapter.parse_poll_response(payload=dict(payload), requests_count=0))
        return payload, reading.status in [state.value for state in adapter.batch_terminal_states]

    def _stream(self, path: str, call: str) -> Iterator[bytes]:
        client = self._open()
        with self._wire(call), client.stream("GET", self._base() + path) as reply:
            if reply.is_error:
                reply.read()
            reply.raise_for_status()
            yield from reply.iter_bytes(_CHUNK)

    def _cancel_by(self, path: str, provider_id: str) -> None:
        """POST to ``path``; a refusal is no error where the batch turns out to have ended."""
        try:
            self._call("POST", path, f"cancel batch {provider_id}")
        except ProviderError as error:
            if error.status not in (400, 409, 412, 422) or self.snapshot(provider_id).state is Lifecycle.IN_FLIGHT:
                raise

    def _input_ref(self, submission: Submission) -> str:
        if submission.input_ref is None:
            raise ProviderError(
                f"{self.name}: batch {submission.batch_id} was not uploaded before it was to be created"
            )
        return submission.input_ref

    def _lines(self, path: Path) -> list[JsonObject]:
        """A batch file as the adapters take it: every line an object, all in memory."""
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise FileError(f"{self.name}: batch file {path} cannot be read: {error.strerror}") from error
        return [parse_object(line, self.name, f"batch file {path}") for line in raw.split(b"\n") if line]
