"""Groq's batch API: OpenAI-shaped objects under ``/openai/v1`` through the ``groq`` SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from layton_batch.providers import http_rules
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.http_client import open_client
from layton_batch.providers.openai_files import FileBatches, ReplyPage
from layton_batch.providers.protocol import Access, Capabilities, Limits


class Groq(FileBatches):
    """See the module text."""

    name: str = "groq"
    key_variable: str = "GROQ_API_KEY"
    limits: Limits = Limits(
        max_requests=50_000,
        max_bytes=99_000_000,  # the guide says 200 MB, the SDK's own documentation 100: the smaller one is sure to pass
        max_line_bytes=99_000_000,
        retention_seconds=30 * 86_400.0,
    )
    capabilities: Capabilities = Capabilities(
        caveats=(
            "strict schemas, reasoning efforts and images only on models that have them",
            "needs a paid plan; batches of about 1,000 requests are recommended, larger ones may expire after 24 hours",
        ),
    )
    efforts: tuple[str, ...] = ("none", "default", "low", "medium", "high")
    max_tokens_key: str = "max_completion_tokens"
    windows: tuple[str, ...] = ("24h", "48h", "72h", "96h", "120h", "144h", "168h", *(f"{n}d" for n in range(1, 8)))

    def _connect(self, key: str, access: Access) -> Any:
        import groq

        base = access.base_url.rstrip("/").removesuffix("/openai/v1") if access.base_url else None  # the SDK adds it
        http = open_client(groq.DefaultHttpxClient, access, event_hooks=http_rules.HOOKS)
        return groq.Groq(api_key=key, base_url=base, timeout=access.timeout_seconds, max_retries=0, http_client=http)

    def _file_page(self) -> Any:
        return self._open().files.with_raw_response.list()

    def _pages(self) -> Iterator[ReplyPage]:
        def read(cursor: str | None) -> ReplyPage:
            query = {"cursor": cursor} if cursor else {}
            return self._page(self._open().batches.with_raw_response.list(extra_query=query))

        def following(reply_page: ReplyPage) -> str | None:
            paging = reply_page[0].get("paging")
            return shape.text_or_none(paging.get("next_cursor")) if isinstance(paging, Mapping) else None

        return http_rules.turned(self.name, read, following)
