"""OpenAI's batch API (files, then batches over ``/v1/chat/completions``) through the ``openai`` SDK.

Models that have no chat completions, by ``models.toml``, are asked over ``/v1/responses``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from layton_batch.errors import NotFoundError
from layton_batch.providers import http_rules, model_notices, openai_responses
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.chat_usage import batch_usage
from layton_batch.providers.http_client import open_client
from layton_batch.providers.openai_files import FileBatches
from layton_batch.providers.protocol import Access, Capabilities, Limits, ModelNotice
from layton_batch.records import JsonValue, ModelSpec, Request, Response, Snapshot


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
        caveats=("enqueued prompt tokens are limited per model and tier; above that a batch fails at validation",),
    )
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    max_tokens_key: str = "max_completion_tokens"
    lists_newest_first: bool = True

    def check(self, spec: ModelSpec) -> list[str]:
        problems = super().check(spec)
        if self.endpoint(spec.model) == openai_responses.ENDPOINT:
            ours = [key for key in ("input", "instructions") if key in spec.params]
            problems += [f"params.{key} cannot be overridden: leave it out" for key in ours]
        return problems

    def encode(self, request: Request) -> dict[str, JsonValue]:
        url = self.endpoint(request.model.model)
        if url != openai_responses.ENDPOINT:
            return super().encode(request)
        body = openai_responses.responses_body(request)
        return {"custom_id": request.custom_id, "method": "POST", "url": url, "body": body}

    def reply(self, custom_id: str, body: JsonValue) -> Response:
        """Read the reply in a result line, in either form."""
        if openai_responses.is_response(body):
            return openai_responses.decoded(custom_id, body)
        return super().reply(custom_id, body)

    def endpoint(self, model: str) -> str:
        return _endpoint(self.name, model)

    def about(self, model: str) -> ModelNotice | None:
        """Read the model's own page, which also tells its retirement."""
        try:
            with self._wire("ask about a model"):
                reply = self._open().models.with_raw_response.retrieve(model)
                return model_notices.of_openai(self._object(reply, "what is said of a model"))
        except NotFoundError:
            return None

    def _connect(self, key: str, access: Access) -> Any:
        import openai

        http = open_client(openai.DefaultHttpxClient, access, event_hooks=http_rules.HOOKS)
        return openai.OpenAI(
            api_key=key, base_url=access.base_url, timeout=access.timeout_seconds, max_retries=0, http_client=http
        )

    def _read(self, batch: Mapping[str, JsonValue], provider_id: str) -> Snapshot:
        return replace(super()._read(batch, provider_id), stated_usage=batch_usage(batch.get("usage")))

    def _file_page(self) -> Any:
        # the newest thousand: an interrupted upload was seconds ago, and missing it costs a second copy, not money
        return self._open().files.with_raw_response.list(purpose="batch", order="desc", limit=1000)


@lru_cache(256)
def _endpoint(provider: str, model: str) -> str:
    """Return what a batch of this model's requests calls: every line of a job asks for it."""
    from layton_batch import model_table  # loads pydantic

    facts = model_table.load().model(provider, model)
    lacks_chat = facts is not None and facts.takes_chat is not None and not facts.takes_chat.fact
    return openai_responses.ENDPOINT if lacks_chat else shape.ENDPOINT
