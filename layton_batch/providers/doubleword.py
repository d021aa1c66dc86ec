"""Doubleword's batch API: OpenAI-shaped, through the ``openai`` SDK at another address.

Its result files exist, and can be read, while a batch still runs; only the status says that it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from layton_batch.providers import openai_elsewhere
from layton_batch.providers.chat_usage import dollars
from layton_batch.providers.openai_files import FileBatches, incomplete
from layton_batch.providers.protocol import Access, Capabilities, Limits
from layton_batch.providers.wire_json import at
from layton_batch.records import JsonValue, Snapshot

ADDRESS = "https://api.doubleword.ai/v1"


class Doubleword(FileBatches):
    """See the module text."""

    name: str = "doubleword"
    key_variable: str = "DOUBLEWORD_API_KEY"
    limits: Limits = Limits(
        max_requests=50_000,  # its documents name no count: the one of the API it is compatible with
        max_bytes=99_000_000,  # its server's default is 100 MB; its documents say 200
        max_line_bytes=10_485_760,  # its server's default; above it the whole file is refused
    )
    capabilities: Capabilities = Capabilities(
        caveats=("images, strict schemas and reasoning efforts only on models that have them",),
    )
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high")
    max_tokens_key: str = "max_tokens"
    windows: tuple[str, ...] = ("1h", "24h")
    poll_query: Mapping[str, str] = MappingProxyType({"include": "analytics"})

    def _connect(self, key: str, access: Access) -> Any:
        return openai_elsewhere.connect(key, access, ADDRESS)

    def _read(self, batch: Mapping[str, JsonValue], provider_id: str) -> Snapshot:
        return replace(super()._read(batch, provider_id), stated_usd=dollars(at(batch, "analytics").get("total_cost")))

    def _file_page(self) -> Any:
        return self._open().files.with_raw_response.list(purpose="batch", limit=100)

    def _check_download(self, reply: Any) -> None:
        if str(reply.headers.get("x-incomplete", "false")).lower() == "true":
            raise incomplete(self.name)
