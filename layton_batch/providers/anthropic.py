"""Anthropic's Message Batches API.

There is no upload and no tag: the create call carries every request inline, and a lost batch can be recognised only by
its time, its size and, once it has ended, the ``custom_id`` of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from layton_batch import model_table
from layton_batch.errors import NotFoundError, ProviderReplyError
from layton_batch.providers import inline
from layton_batch.providers.dialect import Dialect
from layton_batch.providers.finding import ListedBatch, ListOrder, pages, rows
from layton_batch.providers.protocol import Capabilities, Limits, ModelNotice, PictureLimits, StatusMeaning
from layton_batch.providers.wire_errors import errored, malformed, unreadable
from layton_batch.providers.wire_json import (
    JsonObject,
    at,
    clean,
    count,
    day,
    merged,
    moment,
    objects,
    text,
    whole,
)
from layton_batch.records import (
    Image,
    JsonValue,
    ModelSpec,
    Request,
    Response,
    Snapshot,
    Submission,
    Usage,
)
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, RequestOutcome

VERSION = "2026-10-21"
"""Version of the API, whatever the SDK would send: its refusals stand in ``models.toml``."""
DEFAULT_MAX_TOKENS, TOKENS_BEYOND_THINKING = model_table.STATED_LIMITS["anthropic"]
LEAST_BUDGET = 1_024
BYTES_PER_TOKEN = 4
"""Bytes of instructions in English for each token, roughly."""

_STOPS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
}
_NOT_RUN = {"canceled": RequestOutcome.CANCELLED, "expired": RequestOutcome.EXPIRED}

_BATCHES = "/messages/batches"
_KINDS = ("processing", "succeeded", "errored", "canceled", "expired")


class Anthropic(Dialect):
    """The dialect; see the module's docstring for what this API lacks."""

    name = "anthropic"
    sdk_path = "/v1"
    shows_requests = True
    efforts = ("none", "low", "medium", "high", "xhigh", "max")
    takes_budgets = True
    live_params = ("stream", "speed")
    limits = Limits(
        max_requests=100_000,
        max_bytes=253_000_000,  # 256 MB less 1 %: the create call wraps the lines
        max_line_bytes=253_000_000,
        # of the vision guide and of its refusals: the bytes are those of the base64
        pictures=PictureLimits(characters=5_242_880, side=8_000, many=20, side_of_many=2_000),
    )
    capabilities = Capabilities(
        certain_find=True,  # an empty list proves that there is none; which of several is ours shows in the results
        caveats=(
            "a batch carries no tag: lost in a crash, it can be recognised for certain only once it has ended",
            "requests are checked after the batch was accepted: a wrong parameter fails row by row",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = {
        "in_progress": Lifecycle.IN_FLIGHT,
        "canceling": Lifecycle.CANCELLING,
        "ended": BatchOutcome.COMPLETED,
    }

    def _client_class(self, key: str) -> Callable[..., Any]:
        import anthropic

        return partial(anthropic.Anthropic, default_headers={"anthropic-version": VERSION})

    # ---- requests

    def check(self, spec: ModelSpec) -> list[str]:
        problems, budget = super().check(spec), spec.reasoning.budget_tokens
        if budget is not None and budget < LEAST_BUDGET:
            problems.append(f"reasoning.budget_tokens = {budget} is below the least budget, {LEAST_BUDGET}")
        return problems

    def encode(self, request: Request) -> dict[str, JsonValue]:
        return {"custom_id": request.custom_id, "params": _params(request)}

    def create(self, submission: Submission) -> str:
        """Send one POST whose body is streamed from the file: memory stays at about 1 MiB whatever the file's size.

        The SDK's typed ``create`` would need every request as Python objects and hold the body about three times.
        """
        headers = {"Content-Length": str(inline.body_size(submission.path, self.name))}
        return self._created(
            submission,
            lambda client: client.post(
                f"{self.sdk_path}{_BATCHES}",
                cast_to=object,
                content=inline.body(submission.path),
                options={"headers": headers},
            ),
        )

    # ---- batches

    def _listed(self, submission: Submission) -> Iterator[ListedBatch]:
        def read(after: str | None) -> JsonObject:
            query = {"after_id": after} if after else {}
            return self._ask(
                "list batches", lambda client: client.messages.batches.with_raw_response.list(limit=100, **query)
            )

        order = ListOrder(submission)
        for page in pages(
            self.name, read, lambda page: (text(page, "last_id") or "") if page.get("has_more") else None
        ):
            now = self._clock()
            batches = [self._listed_batch(batch, now) for batch in rows(page, "data", self.name)]
            yield from batches
            if order.is_read([batch.created_at for batch in batches], now):
                return

    def _listed_batch(self, batch: JsonObject, now: float | None) -> ListedBatch:
        provider_id, has_ended = text(batch, "id"), text(batch, "processing_status") == "ended"
        if provider_id is None:
            raise ProviderReplyError("anthropic: the list of batches shows one without an id")
        # the counts of a batch whose results are gone tell nothing more
        requests = 0 if _is_archived(batch) else _sum(at(batch, "request_counts"), *_KINDS) or 0
        return ListedBatch(
            provider_id,
            moment(batch, "created_at"),
            now,
            requests=requests,
            has_ended=has_ended,
            has_results=has_ended and not _is_archived(batch),
        )

    def snapshot(self, provider_id: str) -> Snapshot:
        batch = self._ask(
            f"poll batch {provider_id}",
            lambda client: client.messages.batches.with_raw_response.retrieve(provider_id),
        )
        counts, is_archived = at(batch, "request_counts"), _is_archived(batch)
        has_ended = text(batch, "processing_status") == "ended"
        return self._snapshot(
            provider_id,
            batch.get("processing_status"),
            outcome=_outcome(batch, counts) if has_ended else None,
            files=(None if is_archived else provider_id, None),
            counts=(_sum(counts, *_KINDS), _sum(counts, "succeeded"), _sum(counts, "errored", "canceled", "expired")),
            reason="its results were archived 29 days after its creation" if is_archived else None,
        )

    def _download(self, ref: str, start: int = 0) -> Generator[bytes, None, None]:
        """Yield the results from below the configured address. The SDK would ask the address that the batch names,
        which a proxy does not answer for."""
        url = self._url(f"{_BATCHES}/{quote(ref, safe='')}/results")
        return self._stream(url, f"read the results of batch {ref}", start)

    def _cancel(self, client: Any, provider_id: str) -> object:
        return client.messages.batches.with_raw_response.cancel(provider_id)

    def about(self, model: str) -> ModelNotice | None:
        """Read the model's own page: its lifecycle stage and its capabilities."""
        try:
            page = self._ask("ask about a model", lambda client: client.models.with_raw_response.retrieve(model))
        except NotFoundError:
            return None
        lifecycle, batch = text(page, "lifecycle"), at(at(page, "capabilities"), "batch").get("supported")
        return ModelNotice(
            text(page, "id"),
            day(page, "retires_at"),
            is_deprecated=lifecycle in ("deprecated", "retired"),
            is_over=lifecycle == "retired",
            runs_as_batch=batch if isinstance(batch, bool) else None,
        )

    # ---- result lines

    def _decoded(self, custom_id: str, row: JsonObject) -> Response:
        result = at(row, "result")
        kind = text(result, "type")
        if kind == "succeeded":
            return _answer(custom_id, at(result, "message"))
        if kind == "errored":
            return errored(custom_id, None, result.get("error"))
        if kind in _NOT_RUN:
            return Response(custom_id, _NOT_RUN[kind], error_class=ErrorClass.NOT_EXECUTED, error_code=kind)
        return unreadable(custom_id, f"anthropic: result line of {custom_id}: unknown result {clean(str(kind))!r}")


def _is_archived(batch: JsonObject) -> bool:
    return text(batch, "results_url") is None and text(batch, "archived_at") is not None


def _sum(counts: JsonObject, *kinds: str) -> int | None:
    """Return a sum of counts; None if any of them is not a count: 0 would say that there is nothing to wait for."""
    numbers = [whole(counts.get(kind, 0)) for kind in kinds] if counts else [None]
    return None if None in numbers else sum(number or 0 for number in numbers)


def _outcome(batch: JsonObject, counts: JsonObject) -> BatchOutcome:
    if count(counts, "canceled") or text(batch, "cancel_initiated_at"):
        return BatchOutcome.CANCELLED
    if count(counts, "expired") and not count(counts, "succeeded") and not count(counts, "errored"):
        return BatchOutcome.EXPIRED
    return BatchOutcome.COMPLETED


# ---- forms of requests


def _params(request: Request) -> JsonObject:
    spec, prompt = request.model, request.prompt
    params: dict[str, JsonValue] = {"model": spec.model, "max_tokens": _max_tokens(spec)}
    if prompt.system:
        params["system"] = _system(prompt.system, spec.model)
    params["messages"] = [{"role": "user", "content": [_block(part) for part in prompt.parts if part]}]
    output: dict[str, JsonValue] = {}
    if spec.reasoning.budget_tokens is not None:
        params["thinking"] = {"type": "enabled", "budget_tokens": spec.reasoning.budget_tokens}
    elif spec.reasoning.effort == "none":
        params["thinking"] = {"type": "disabled"}
    elif spec.reasoning.effort is not None:
        output["effort"] = spec.reasoning.effort
        if _thinks_adaptively(spec.model):  # else the effort alone leaves thinking off, without a word
            params["thinking"] = {"type": "adaptive"}
    if prompt.response_schema is not None:
        output["format"] = {"type": "json_schema", "schema": prompt.response_schema.closed}
    if output:
        params["output_config"] = output
    return merged(params, spec.params)


def _system(system: str, model: str) -> JsonValue:
    """The system text. It is the same in all requests of a job, so a batch reads it from the cache where it is long
    enough for the model's: by documents 30 to 98 % of the rows of a batch do, and reading costs a tenth of input,
    keeping a quarter more than input. A shorter text is sent as it is, for the mark would do nothing."""
    facts = model_table.load().model("anthropic", model)
    least = facts.least_cached_tokens if facts is not None else None
    if least is None or len(system.encode("utf-8", "surrogatepass")) < least * BYTES_PER_TOKEN:
        return system
    return [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]


def _thinks_adaptively(model: str) -> bool:
    """Return whether an effort of this model means adaptive thinking: Claude 4.6 and later."""
    facts = model_table.load().model("anthropic", model)
    return facts is not None and "adaptive" in (facts.thinking or ())


def _max_tokens(spec: ModelSpec) -> int:
    """The API refuses a request without a limit; thinking tokens count towards it."""
    if spec.max_output_tokens is not None:
        return spec.max_output_tokens
    budget = spec.reasoning.budget_tokens
    return DEFAULT_MAX_TOKENS if budget is None else budget + TOKENS_BEYOND_THINKING


def _block(part: str | Image) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.base64}}


# ---- forms of replies


def _answer(custom_id: str, message: JsonObject) -> Response:
    stop = text(message, "stop_reason")
    texts = [text(block, "text") or "" for block in objects(message, "content") if block.get("type") == "text"]
    finish = _STOPS.get(stop or "", FinishReason.OTHER)
    explains_silence = finish in (FinishReason.REFUSAL, FinishReason.LENGTH)
    if not explains_silence and not isinstance(message.get("content"), list):
        return malformed(custom_id, _usage(at(message, "usage")), text(message, "model"))
    return Response(
        custom_id,
        RequestOutcome.SUCCEEDED,
        text="".join(texts) or None,
        finish_reason=finish,
        raw_finish_reason=stop,
        refusal=_refusal(message) if finish is FinishReason.REFUSAL else None,
        usage=_usage(at(message, "usage")),
        served_model=text(message, "model"),
    )


def _refusal(message: JsonObject) -> str:
    details = at(message, "stop_details")
    return text(details, "explanation") or text(details, "category") or "the model refused"


def _usage(usage: JsonObject) -> Usage:
    output = count(usage, "output_tokens")
    read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count(usage, "input_tokens") + read + written,
        cached_input_tokens=read,
        output_tokens=output,
        reasoning_tokens=min(count(at(usage, "output_tokens_details"), "thinking_tokens"), output),
        cache_write_tokens=written,
        hour_write_tokens=count(at(usage, "cache_creation"), "ephemeral_1h_input_tokens"),
        is_known=None not in (whole(usage.get("input_tokens")), whole(usage.get("output_tokens"))),
    )
