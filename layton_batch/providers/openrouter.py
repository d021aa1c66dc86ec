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

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from layton_batch.errors import ManifestError, NotFoundError, ProviderReplyError, RequestRefusedError
from layton_batch.providers import http_rules, inline_requests, model_notices, openai_elsewhere
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.chat_usage import dollars, usage_of
from layton_batch.providers.inline_results import InlineResults
from layton_batch.providers.openai_files import FileBatches, rows
from layton_batch.providers.protocol import Access, Capabilities, Limits, ModelNotice, ResultPart
from layton_batch.providers.wire_errors import clean, parse_object
from layton_batch.providers.wire_json import JsonObject, at, compact, count, moment, text
from layton_batch.records import Image, JsonValue, MatchingBatch, ModelSpec, Reasoning, Request, Snapshot, Submission
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle

ADDRESS = "https://openrouter.ai/api/v1"
BATCH_PRICED = ":batch"
"""The end of the catalogue's second entry of a model that runs as batches."""

_HEAD_BYTES = 1 << 20
"""Bytes at the head of a batch's results, whose custom_ids tell whose it is."""
_OF_THE_BATCH = ("provider", "models", "route", "plugins", "modalities", "audio", "image_config")
"""Parameters of single calls that a row of a batch must not have."""


class OpenRouter(FileBatches):
    """See the module text."""

    name: str = "openrouter"
    key_variable: str = "OPENROUTER_API_KEY"
    limits: Limits = Limits(
        max_requests=5_000,
        max_bytes=198_000_000,  # 200 MB less 1 %: the create call wraps the lines
        max_line_bytes=198_000_000,
        window_seconds=96 * 3600.0,  # 24 hours, but on Google Vertex, which OpenRouter may choose
        retention_seconds=30 * 86_400.0,
    )
    capabilities: Capabilities = Capabilities(
        images=False,
        tag=False,
        certain_find=False,
        finds_marks=True,
        cancel=False,
        caveats=(
            "a batch carries no tag: lost in a crash, it can be recognised only once it is completed",
            "a batch cannot be cancelled: what was sent is carried out, and paid for",
            "images only as public addresses, so none is sent",
            "requests are checked after the batch was accepted: one that is refused fails the whole batch",
            "billed by OpenRouter, or, with a provider's own key set there, by that provider",
        ),
    )
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    max_tokens_key: str = "max_tokens"

    def check(self, spec: ModelSpec) -> list[str]:
        without_budget = replace(spec, reasoning=replace(spec.reasoning, budget_tokens=None))
        problems = super().check(without_budget)
        return problems + [f"params.{key} is not for a row of a batch" for key in _OF_THE_BATCH if key in spec.params]

    def encode(self, request: Request) -> dict[str, JsonValue]:
        """Without the model: the batch has it. Raises ManifestError for a request with an image, for which the whole
        batch would fail."""
        if any(isinstance(part, Image) for part in request.prompt.parts):
            raise ManifestError(
                f"model {request.model.name!r}: openrouter takes no images in a batch but by public addresses; "
                "ask its maker, or leave it out"
            )
        body = shape.chat_body(
            request,
            reasoning=self.reasoning(request.model.reasoning),
            max_tokens_key=self.max_tokens_key,
            model=False,
        )
        return {"custom_id": request.custom_id, "body": body}

    def reasoning(self, wanted: Reasoning) -> Mapping[str, JsonValue]:
        if wanted.budget_tokens is not None:
            return {"reasoning": {"max_tokens": wanted.budget_tokens}}
        return {} if wanted.effort is None else {"reasoning": {"effort": wanted.effort}}

    def upload(self, submission: Submission) -> str | None:
        return None

    def create(self, submission: Submission) -> str:
        """One POST, streamed from the file. The endpoint and the model must stand before the requests."""
        import httpx2  # the SDK's own HTTP library, whose reply it hands through

        named = compact({"endpoint": shape.ENDPOINT, "model": submission.model})
        head = named[:-1] + b',"requests":['
        size = inline_requests.body_size(submission.path, self.name, head)
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            reply = self._open().post(
                "/batches",
                cast_to=httpx2.Response,
                content=inline_requests.body(submission.path, head),
                options={
                    "headers": {"Content-Type": "application/json", "Content-Length": str(size)},
                    "max_retries": 0,
                    "follow_redirects": False,  # what the next address says is not what became of this call
                },
            )
            reply_name = f"the reply to the creation of batch {submission.batch_id}"
            batch_id = text(parse_object(reply.content, self.name, reply_name), "id")
            if batch_id is None:
                raise ProviderReplyError(f"{self.name}: {reply_name} names no id")
            return batch_id

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """A completed batch is told by the ``custom_id``s of its results; another one only looks like ours, by its
        size. No time rules out a batch that runs, or that shows whose it is; see Anthropic's ``find``."""
        ours: set[str] | None = None
        matches = []
        for batch, headers in submission.listed(self._rows):
            since = http_rules.intended_at(submission, headers)
            created_at, total = moment(batch, "created_at"), count(at(batch, "request_counts"), "total")
            named, status = text(batch, "id") or "", text(batch, "status") or ""
            if named in submission.known_ids:
                continue
            of_our_size, seen = total in (0, submission.requests), frozenset[str]()
            means = self.status_map.get(status)
            has_ended = means is not None and means.state is Lifecycle.ENDED
            has_results = means is not None and means.outcome is BatchOutcome.COMPLETED and bool(named)
            if not of_our_size and not (has_results and http_rules.is_near(created_at, since)):
                continue
            if has_ended and not has_results and not http_rules.is_near(created_at, since):
                continue  # it never shows anything, and is too old to be ours
            if has_results:
                if http_rules.is_older_than_run(submission, created_at, since):
                    continue
                ours = inline_requests.custom_ids(submission.path) if ours is None else ours
                seen = self._first_custom_ids(named, submission.custom_ids)
                if seen and ours and not seen & ours:
                    if submission.is_of_a_copy(named, seen):
                        matches.append(MatchingBatch(named, certain=False, of_a_copy=True))
                    continue
            certain = bool(seen and ours)
            may_tell = not seen and (has_results or not has_ended)
            matches.append(MatchingBatch(named, certain=certain, created_at=created_at, may_tell=may_tell))
        return matches

    def snapshot(self, provider_id: str) -> Snapshot:
        batch = next(entry for entry in self._results(provider_id) if not isinstance(entry, bytes))
        return self._reading(batch, provider_id)

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if snapshot.results_ref:
            yield ResultPart("output", self._lines(snapshot.results_ref))

    def cancel(self, provider_id: str) -> None:
        if self.snapshot(provider_id).state is not Lifecycle.ENDED:
            raise RequestRefusedError(f"{self.name}: batches cannot be cancelled; {provider_id} will be carried out")

    def about(self, model: str) -> ModelNotice | None:
        """Read the catalogue, in which a model that runs in batches has a second entry for its batch price."""
        with self._wire("list models"):
            catalogue = self._catalogue()
        plain = model.removesuffix(BATCH_PRICED)
        notices = (model_notices.in_list(catalogue, model_id, self.name) for model_id in (plain, model))
        notice = next(filter(None, notices), None)
        runs = any(entry.get("id") == plain + BATCH_PRICED for entry in catalogue)
        return None if notice is None else replace(notice, id=model, runs_as_batch=runs)

    # ---- wire

    def _connect(self, key: str, access: Access) -> Any:
        return openai_elsewhere.connect(key, access, ADDRESS)

    def _rows(self) -> Iterator[tuple[JsonObject, Mapping[str, str]]]:
        """Every batch of the list, with the headers of the reply that showed it."""

        def read(last: str | None) -> tuple[JsonObject, Mapping[str, str]]:
            after = {"after": last} if last else {}
            with self._wire("list batches"):
                reply = self._open().batches.with_raw_response.list(limit=100, **after)
                return self._object(reply, "the list of batches"), reply.http_response.headers

        def following(reply_page: tuple[JsonObject, Mapping[str, str]]) -> str | None:
            return (text(reply_page[0], "last_id") or "") if reply_page[0].get("has_more") else None

        for page, headers in http_rules.turned(self.name, read, following):
            for batch in rows(page, self.name):
                yield batch, headers

    def _results(self, provider_id: str) -> Iterator[bytes | JsonObject]:
        """Every result as a line, then the batch without them."""
        batches = self._open().batches.with_streaming_response
        with self._wire(f"read batch {provider_id}"), batches.retrieve(provider_id) as reply:
            results = InlineResults(reply.iter_bytes(), "results", self.name, f"batch {provider_id}")
            yield from results
            yield results.rest()

    def _lines(self, provider_id: str) -> Generator[bytes, None, None]:
        for entry in self._results(provider_id):
            if isinstance(entry, bytes):
                yield entry + b"\n"

    def _first_custom_ids(self, provider_id: str, seen: dict[str, frozenset[str]]) -> frozenset[str]:
        """The first ``custom_id``s of the results, which are read once, and put into ``seen``; none where there are no
        results."""
        if provider_id not in seen:
            head = b""
            try:
                with closing(self._lines(provider_id)) as lines:
                    while len(head) < _HEAD_BYTES and (line := next(lines, b"")):
                        head += line
            except NotFoundError:
                return frozenset()
            if custom_ids := frozenset(name.decode() for name in inline_requests.CUSTOM_ID.findall(head)):
                seen[provider_id] = custom_ids
        return seen.get(provider_id, frozenset())

    def _reading(self, batch: JsonObject, provider_id: str) -> Snapshot:
        reading = shape.snapshot_of(batch, provider_id, self.name, self.status_map)
        reason = text(at(batch, "error"), "message")
        usage = at(batch, "usage")
        tokens = usage_of(usage)
        failed = reading.outcome is BatchOutcome.FAILED
        # of a batch that expired or was cancelled, a count of 0 does not say that nothing was carried out
        is_certain = reading.succeeded or failed or reading.outcome in (None, BatchOutcome.COMPLETED)
        succeeded = reading.succeeded if is_certain else None
        return replace(
            reading,
            results_ref=provider_id if reading.state is Lifecycle.ENDED and succeeded != 0 else None,
            succeeded=succeeded,
            failed=reading.failed if is_certain else None,
            message=clean(reason) if reason else reading.message,
            error_class=ErrorClass.INVALID_REQUEST if failed else ErrorClass.NONE,
            stated_usd=None if usage.get("is_byok") else dollars(usage.get("cost")),  # else it is a fee alone
            stated_usage=tokens if tokens.is_known else None,
        )
