"""OpenRouter's batch API: chat-completions requests inline in the create call, results inline in the batch object,
through the ``openai`` SDK at another address.

Sources, looked up 2026-11-23 in stored copies, so perhaps not the newest of each:

- https://openrouter.ai/docs/batch-quickstart (2026-10, and github.com/OpenRouterTeam/docs at fe1437e, 2026-08): order
  of the body's fields, one model and endpoint a batch, statuses, list, inline results, kept 30 days, no other window.
- https://openrouter.ai/docs/guides/features/batch-api (2026-11): 5,000 requests and 200 MB; Vertex up to 96 hours.
- https://openrouter.ai/docs/api/api-reference/batch/get-a-batch.md, list-batches.md (2026-10): batch object, row errors
  ``{type, message, param}``, HTTP 402 on a look at a finished batch that the balance cannot pay: its results come after
  a top-up. No call cancels, and a list's row has neither metadata nor name.
- https://openrouter.ai/docs/guides/best-practices/reasoning-tokens (2026): ``reasoning: {effort | max_tokens}``.
- https://openrouter.ai/blog/announcements/batch-api (2026-09): ``model`` is the plain slug, in ``/api/v1/batches``.
- github.com/tobert/kaibo issue 123 (2026-08-04): a missing ``model`` or ``endpoint`` is told as an error of order.

Not confirmed by them, and read as what cannot pay twice: whether a list shows a batch at once (so what it lacks is no
proof, and a person decides), whether the rows done of a batch that expired or failed come with results (one reference
says so, the quickstart says null) or are billed, and why a batch failed (so its requests never go again by themselves).
Whether the slug of the ``:batch`` price may be sent: crate openrouter-batch 0.1.2 says it must be, the documents never
do so. A model is sent as the manifest names it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

import orjson

from layton_batch.errors import ManifestError, RequestRefusedError
from layton_batch.providers import chat, inline
from layton_batch.providers.finding import ListedBatch
from layton_batch.providers.openai import OpenAIElsewhere, in_catalogue
from layton_batch.providers.protocol import Capabilities, Limits, ModelNotice
from layton_batch.providers.wire_json import JsonObject, at, clean, count, moment, text
from layton_batch.records import Image, JsonValue, Reasoning, Request, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

BATCH_PRICED = ":batch"
"""The end of the catalogue's second entry of a model that runs as batches."""


class OpenRouter(OpenAIElsewhere):
    """See the module text."""

    name = "openrouter"
    limits = Limits(
        max_requests=5_000,
        max_bytes=198_000_000,  # 200 MB less 1 %: the create call wraps the lines
        max_line_bytes=198_000_000,
        window_seconds=96 * 3600.0,  # 24 hours, but on Google Vertex, which OpenRouter may choose
        retention_seconds=30 * 86_400.0,
    )
    capabilities = Capabilities(
        images=False,
        certain_find=False,
        cancel=False,
        caveats=(
            "a batch carries no tag: lost in a crash, it can be recognised only once it is completed",
            "a batch cannot be cancelled: what was sent is carried out, and paid for",
            "images only as public addresses, so none is sent",
            "requests are checked after the batch was accepted: one that is refused fails the whole batch",
            "billed by OpenRouter, or, with a provider's own key set there, by that provider",
        ),
    )
    takes_budgets = True
    live_params = ("stream", "n", "provider", "models", "route", "plugins", "modalities", "audio", "image_config")
    max_tokens_key = "max_tokens"
    names_model = False  # the batch names it
    names_call = False
    shows_requests = True  # those that are completed
    resumes = False

    def encode(self, request: Request) -> dict[str, JsonValue]:
        """Raise ManifestError for a request with an image, for which the whole batch would fail."""
        if any(isinstance(part, Image) for part in request.prompt.parts):
            raise ManifestError(
                f"model {request.model.name!r}: openrouter takes no images in a batch but by public addresses; "
                "ask its maker, or leave it out"
            )
        return super().encode(request)

    def reasoning(self, wanted: Reasoning) -> JsonObject:
        if wanted.budget_tokens is not None:
            return {"reasoning": {"max_tokens": wanted.budget_tokens}}
        return {} if wanted.effort is None else {"reasoning": {"effort": wanted.effort}}

    def upload(self, submission: Submission) -> str | None:
        return None

    def create(self, submission: Submission) -> str:
        """Send one POST, streamed from the file. The endpoint and the model must stand before the requests."""
        named = orjson.dumps({"endpoint": chat.ENDPOINT, "model": submission.model})
        head = named[:-1] + b',"requests":['
        size = inline.body_size(submission.path, self.name, head)
        headers = {"Content-Type": "application/json", "Content-Length": str(size)}
        return self._created(
            submission,
            lambda client: client.post(
                "/batches",
                cast_to=object,
                content=inline.body(submission.path, head),
                options={"headers": headers},
            ),
        )

    def _listed(self, submission: Submission) -> Iterator[ListedBatch]:
        for page in self._pages():
            now = self._clock()
            for batch in self._rows(page):
                provider_id, means = text(batch, "id") or "", self.status_map.get(text(batch, "status") or "")
                yield ListedBatch(
                    provider_id,
                    moment(batch, "created_at"),
                    now,
                    requests=count(at(batch, "request_counts"), "total"),
                    has_ended=isinstance(means, BatchOutcome),
                    has_results=means is BatchOutcome.COMPLETED and bool(provider_id),
                )

    def snapshot(self, provider_id: str) -> Snapshot:
        batch = self._batch(provider_id)
        for _ in batch:
            pass
        return self._read(batch.rest(), provider_id)

    def _download(self, ref: str, start: int = 0) -> Generator[bytes, None, None]:
        for row in self._batch(ref):
            yield row + b"\n"

    def _batch(self, provider_id: str) -> inline.ReplyResults:
        """Read a batch with its results."""
        pieces = self._stream(self._url(f"/batches/{provider_id}"), f"read batch {provider_id}")
        return inline.ReplyResults(pieces, self.name, f"batch {provider_id}")

    def cancel(self, provider_id: str) -> None:
        if self.snapshot(provider_id).state is not Lifecycle.ENDED:
            raise RequestRefusedError(f"{self.name}: batches cannot be cancelled; {provider_id} will be carried out")

    def about(self, model: str) -> ModelNotice | None:
        """Read the catalogue, in which a model that runs in batches has a second entry for its batch price."""
        catalogue, plain = self._catalogue(), model.removesuffix(BATCH_PRICED)
        notice = in_catalogue(catalogue, plain, self.name) or in_catalogue(catalogue, model, self.name)
        runs = any(entry.get("id") == plain + BATCH_PRICED for entry in catalogue)
        return None if notice is None else replace(notice, id=model, runs_as_batch=runs)

    def _read(self, batch: JsonObject, provider_id: str) -> Snapshot:
        reading, usage = super()._read(batch, provider_id), at(batch, "usage")
        tokens, has_failed = chat.usage_of(usage), reading.outcome is BatchOutcome.FAILED
        # of a batch that expired or was cancelled, a count of 0 does not say that nothing was carried out
        is_certain = reading.succeeded or has_failed or reading.outcome in (None, BatchOutcome.COMPLETED)
        succeeded = reading.succeeded if is_certain else None
        return replace(
            reading,
            results_ref=provider_id if reading.state is Lifecycle.ENDED and succeeded != 0 else None,
            succeeded=succeeded,
            failed=reading.failed if is_certain else None,
            message=_reason(batch) or reading.message,
            error_class=ErrorClass.INVALID_REQUEST if has_failed else ErrorClass.NONE,
            stated_usd=None if usage.get("is_byok") else chat.dollars(usage.get("cost")),  # else it is a fee alone
            stated_usage=tokens if tokens.is_known else None,
        )


def _reason(batch: JsonObject) -> str | None:
    """Return why a batch failed."""
    return clean(text(at(batch, "error"), "message") or "") or None
