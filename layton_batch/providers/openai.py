"""OpenAI's batch API (files, then batches over ``/v1/chat/completions``) through the ``openai`` SDK."""

from __future__ import annotations

from typing import Any

from layton_batch.errors import NotFoundError
from layton_batch.providers import http_rules, model_notices
from layton_batch.providers.openai_files import FileBatches
from layton_batch.providers.protocol import Access, Capabilities, Limits, ModelNotice


class OpenAI(FileBatches):
    """See the module text."""

    name: str = "openai"
    key_variable: str = "OPENAI_API_KEY"
    limits: Limits = Limits(
        max_requests=50_000,
        max_bytes=199_000_000,  # 200 MB less a margin for how a megabyte is counted
        max_line_bytes=199_000_000,
        max_creates_per_hour=2_000,
        retention_seconds=30 * 86_400.0,
    )
    capabilities: Capabilities = Capabilities(
        caveats=("enqueued prompt tokens are limited per model and tier; above that a batch fails at validation",)
    )
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    max_tokens_key: str = "max_completion_tokens"

    def about(self, model: str) -> ModelNotice | None:
        """By the model's own page, which tells its end as well."""
        try:
            with self._wire("ask about a model"):
                reply = self._open().models.with_raw_response.retrieve(model)
                return model_notices.of_openai(self._object(reply, "what is said of a model"))
        except NotFoundError:
            return None

    def _connect(self, key: str, access: Access) -> Any:
        import openai

        http = http_rules.bound(openai.DefaultHttpxClient(event_hooks=http_rules.HOOKS), access)
        return openai.OpenAI(
            api_key=key, base_url=access.base_url, timeout=access.timeout_seconds, max_retries=0, http_client=http
        )

    def _file_page(self) -> Any:
        # the newest thousand: an interrupted upload was seconds ago, and missing it costs a second copy, not money
        return self._open().files.with_raw_response.list(purpose="batch", order="desc", limit=1000)
