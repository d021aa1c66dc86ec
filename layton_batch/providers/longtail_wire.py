"""Batch APIs over plain HTTP, with the forms of requests and statuses from batchling's provider adapters.

batchling is an alpha: its public names only, and none of its own calls. These wait in a poll loop that fails on Python
3.11, lose error codes and later pages, and make an upload and the paid create in one step.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any

from layton_batch.errors import ProviderError, RequestRefusedError
from layton_batch.providers import http_rules
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.http_client import open_client
from layton_batch.providers.protocol import Access, Capabilities, Limits, StatusMeaning
from layton_batch.providers.wire_errors import api_key, parse_object, wire
from layton_batch.providers.wire_json import JsonObject
from layton_batch.records import JsonValue, MatchingBatch, ModelSpec, Request, Snapshot, Submission
from layton_batch.states import Lifecycle

if TYPE_CHECKING:
    import httpx


class AdapterProvider:
    """Base of the APIs behind batchling's adapters. ``adapter_path`` is ``module:class``."""

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
        """List in words which of a model's settings this API cannot do."""
        return shape.spec_problems(spec, efforts=self.efforts)

    def encode(self, request: Request) -> dict[str, JsonValue]:
        """One line of a batch file, as an object."""
        raise NotImplementedError

    # ---- network

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
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

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = self._adapter().build_api_headers(headers={"authorization": f"Bearer {self._key()}"})
        return headers

    def _wire(self, call: str, *, paid: bool = False) -> AbstractContextManager[None]:
        return wire(self.name, call, secret=self._key(), paid=paid)

    def _other_addresses(self) -> Sequence[str]:
        """Return the addresses that may have the key besides the configured one."""
        return ()

    def _open(self) -> httpx.Client:
        if self._http is None:
            import httpx

            self._http = open_client(
                httpx.Client, self._access, self._other_addresses(), base_url=self._base(), headers=self._headers()
            )
        return self._http

    def _call(
        self,
        method: str,
        url: str,
        call: str,
        *,
        params: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        files: Mapping[str, tuple[str, IO[bytes], str]] | None = None,
        content: IO[bytes] | None = None,
        paid: bool = False,
    ) -> JsonObject:
        """Make one plain HTTP call, to a path of this API or to another address. Return its reply as an object."""
        client = self._open()
        with self._wire(call, paid=paid):
            reply = client.request(method, url, params=params, json=body, files=files, content=content)
            reply.raise_for_status()
            return parse_object(reply.content or b"{}", self.name, f"the reply to: {call}")

    def _poll(self, provider_id: str) -> tuple[JsonObject, bool]:
        """Read a batch. Return its payload, and whether the adapter's word for its status is a final one.

        The word is compared with the values of its states: ``in`` their class raises before Python 3.12.
        """
        adapter = self._adapter()
        spec = adapter.build_poll_request_spec(base_url=self._base(), api_headers=self._headers(), batch_id=provider_id)
        payload = self._call(spec.method, spec.path, f"poll batch {provider_id}")
        with self._wire(f"read the state of batch {provider_id}"):
            word = adapter.extract_batch_status(payload=dict(payload))
        return payload, word in [state.value for state in adapter.batch_terminal_states]

    def _download(self, url: str, call: str, start: int = 0) -> Iterator[bytes]:
        """Yield a file from byte ``start`` on, as it comes."""
        client, headers = self._open(), http_rules.range_headers(start)
        with self._wire(call), client.stream("GET", url, headers=headers) as reply:
            if reply.is_error:
                reply.read()
            reply.raise_for_status()
            http_rules.check_range(self.name, start, reply.status_code, reply.headers)
            yield from reply.iter_bytes()

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
