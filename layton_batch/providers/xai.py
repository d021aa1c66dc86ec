"""xAI's batch API, through the ``openai`` SDK at another address: a file of OpenAI's lines is uploaded (free), and one
call makes the batch of it (paid). The batch carries our tag in its name, and the list shows that. Counts in place of a
status word, pages of results and cancelling are xAI's own.

Sources, looked up 2026-11: docs.x.ai (Batch API, Files); published notes of live captures by a gateway (2026-08/09).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any

from layton_batch.errors import ProviderError, ProviderReplyError
from layton_batch.providers import gemini_forms, http_rules, openai_elsewhere
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.chat_usage import dollars
from layton_batch.providers.damaged_rows import unreadable
from layton_batch.providers.openai_files import FileBatches
from layton_batch.providers.protocol import Access, Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_errors import clean, excerpt, parse_object
from layton_batch.providers.wire_json import JsonObject, at, compact, count, moment, objects, text, whole
from layton_batch.records import EMPTY, JsonValue, MatchingBatch, Response, Snapshot, Submission, Usage
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome

ADDRESS = "https://api.x.ai/v1"
_DAY = 86_400.0
_CANCEL_SETTLES = 120.0
"""Seconds from a cancel until its counts are believed: 20 seconds after one, rows that had been counted as cancelled
were there with answers (gateway's notes, A1)."""
_TICK = Decimal("1e-10")
"""The unit of xAI's own statement of a reply's cost, in dollars."""
_NOT_RUN = re.compile(r"\bbatch (was )?cancell?ed\b", re.IGNORECASE)


class Xai(FileBatches):
    """See the module text."""

    name: str = "xai"
    key_variable: str = "XAI_API_KEY"
    limits: Limits = Limits(
        max_requests=50_000,
        max_bytes=199_000_000,
        max_line_bytes=24_700_000,
        window_seconds=3 * _DAY,  # usually within 24 hours; no end is promised before 30 days
        max_creates_per_hour=3_600,
        retention_seconds=30 * _DAY,
    )
    capabilities: Capabilities = Capabilities(
        certain_find=False,  # how soon the list shows a new batch is not documented
        caveats=(
            "a batch that the list does not show may have been made all the same: a person decides",
            "20 to 50 % cheaper on some models, no discount on others",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = MappingProxyType(
        {  # words derived from counts: the API has none
            "pending": StatusMeaning(Lifecycle.IN_FLIGHT),
            "running": StatusMeaning(Lifecycle.IN_FLIGHT),
            "cancelling": StatusMeaning(Lifecycle.CANCELLING),
            "ended": StatusMeaning(Lifecycle.ENDED, BatchOutcome.COMPLETED),
            "cancelled": StatusMeaning(Lifecycle.ENDED, BatchOutcome.CANCELLED),
            "failed": StatusMeaning(Lifecycle.ENDED, BatchOutcome.FAILED),
        }
    )
    efforts: tuple[str, ...] = ("none", "low", "medium", "high")
    max_tokens_key: str = "max_completion_tokens"
    about = None  # type: ignore[assignment]  # its list of models leaves out the other names that a model answers to

    def create(self, submission: Submission) -> str:
        body = {"name": _name(submission), "input_file_id": self._input_ref(submission)}
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            reply, _ = self._call("POST", "/batches", f"the reply to the creation of batch {submission.batch_id}", body)
            batch_id = text(reply, "batch_id")
            if batch_id is None:
                raise ProviderReplyError("xai: the reply to a create names no batch")
            return batch_id

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Batches of our name or our file, of the whole list."""
        name, ref = _name(submission), submission.input_ref
        matches = []
        for batch in submission.listed(self._batches):
            provider_id, shown = text(batch, "batch_id") or "", text(batch, "name") or ""
            if shown == name or (ref and text(batch, "input_file_id") == ref):
                matches.append(MatchingBatch(provider_id, certain=True))
            elif submission.is_of_a_copy(provider_id, [shown.partition("/")[0]]):
                matches.append(MatchingBatch(provider_id, certain=False, of_a_copy=True))
        return matches

    def snapshot(self, provider_id: str) -> Snapshot:
        with self._wire(f"poll batch {provider_id}"):
            batch, headers = self._call("GET", f"/batches/{provider_id}", f"the state of batch {provider_id}")
        state = at(batch, "state")
        if not state:
            raise ProviderReplyError(f"xai: batch {provider_id} shows no counts, so its state cannot be told")
        word, reason = _word(batch, state, headers), text(batch, "cancel_by_xai_message")
        means = self.status_map[word]
        failed = means.outcome is BatchOutcome.FAILED
        return Snapshot(
            provider_id=provider_id,
            provider_status=word,
            state=means.state,
            outcome=means.outcome,
            results_ref=provider_id if means.state is Lifecycle.ENDED and count(state, "num_requests") else None,
            total=count(state, "num_requests"),
            succeeded=whole(state.get("num_success")),
            failed=whole(state.get("num_error")),
            message=clean(reason) if reason else None,
            error_class=shape.class_of_text(reason or "") if failed else ErrorClass.NONE,
        )

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if snapshot.results_ref:
            yield ResultPart("output", self._lines(snapshot.results_ref))

    def decode(self, line: bytes) -> Response:
        row = parse_object(line, self.name, "a result line")
        custom_id, result = text(row, "batch_request_id"), at(row, "batch_result")
        if custom_id is None:
            raise ProviderReplyError(f"xai: a result line names no batch_request_id: {excerpt(line)}")
        body = at(at(result, "response"), "chat_get_completion")
        errors = [holder.get(key) for holder in (result, row, body) for key in ("error", "error_message")]
        error = next((stated for stated in errors if stated), None)
        if error and not body.get("choices"):
            return _failed(custom_id, error)
        if not body:
            return unreadable(custom_id, f"xai: the result line of {clean(custom_id, 80)} holds no reply and no error")
        # with search tools the answer is the last of several choices
        last: list[JsonValue] = [*objects(body, "choices")[-1:]]
        reply = shape.chat_reply(custom_id, {**body, "choices": last})
        return replace(reply, usage=_usage(at(body, "usage")))

    def cancel(self, provider_id: str) -> None:
        try:
            with self._wire(f"cancel batch {provider_id}"):
                self._call("POST", f"/batches/{provider_id}:cancel", f"the reply to the cancel of {provider_id}")
        except ProviderError as error:
            if error.status not in (400, 409, 412, 422) or self.snapshot(provider_id).state is Lifecycle.IN_FLIGHT:
                raise

    # ---- wire

    def _connect(self, key: str, access: Access) -> Any:
        return openai_elsewhere.connect(key, access, ADDRESS)

    def _call(
        self, method: str, path: str, reply_name: str, body: JsonObject | None = None, query: JsonObject = EMPTY
    ) -> tuple[JsonObject, Mapping[str, str]]:
        """Make a call that the SDK has no method for. Return its reply and the reply's headers."""
        import httpx2  # the SDK's own HTTP library, whose reply it hands through

        client, options = self._open(), {"params": query, "max_retries": 0}
        if method == "GET":
            reply = client.get(path, cast_to=httpx2.Response, options=options)
        else:
            reply = client.post(path, cast_to=httpx2.Response, body=body, options=options)
        return parse_object(reply.content or b"{}", self.name, reply_name), reply.headers

    def _uploaded(self, file_name: str, size: int) -> str | None:
        """None: what its list of files shows is not documented, and a second copy of a file costs nothing."""

    def _batches(self) -> Iterator[JsonObject]:
        with self._wire("list batches"):
            yield from self._pages_of("/batches", "batches", "a list of batches", limit="100")

    def _lines(self, provider_id: str) -> Iterator[bytes]:
        """Every row of every page of results."""
        with self._wire(f"read the results of batch {provider_id}"):
            for row in self._pages_of(f"/batches/{provider_id}/results", "results", f"results of {provider_id}"):
                # of what cannot be written the name is kept: the row is then unreadable, the others are not
                yield (_line(row) or compact({"batch_request_id": text(row, "batch_request_id")})) + b"\n"

    def _pages_of(self, path: str, key: str, reply: str, limit: str = "1000") -> Iterator[JsonObject]:
        """Yield the objects of all pages. Raises ProviderReplyError for a reply that is not a page."""

        def read(token: str | None) -> JsonObject:
            query = {"limit": limit} | ({"pagination_token": token} if token else {})
            return self._call("GET", path, reply, query=query)[0]

        for page in http_rules.turned(self.name, read, lambda page: text(page, "pagination_token")):
            listed, keys = objects(page, key), page.keys() & {key, "pagination_token"}
            if "error" in page or (page.get(key) or []) != listed or (page and not keys):
                raise ProviderReplyError(f"xai: what was to be {reply} holds none")
            yield from listed


def _name(submission: Submission) -> str:
    """Our tag, and how many requests there are: a batch whose file is still being read shows fewer, and with the first
    of them done looks as if it had ended."""
    return f"{submission.tag}/{submission.requests}"


def _word(batch: JsonObject, state: JsonObject, headers: Mapping[str, str]) -> str:
    """A word for what the counts say. Nothing pending means over only for a batch that is full."""
    total, done = count(state, "num_requests"), count(state, "num_success") + count(state, "num_error")
    is_over = whole(state.get("num_pending")) == 0
    if text(batch, "cancel_time") is not None:
        if text(batch, "cancel_by_xai_message") and is_over:
            return "failed"
        if not is_over or _since_cancel(batch, headers) < _CANCEL_SETTLES:
            return "cancelling"
        return "ended" if total and done == total else "cancelled"
    expected = count({"requests": (text(batch, "name") or "").rpartition("/")[2]}, "requests")
    if is_over and total >= max(1, expected):
        return "ended"
    return "running" if done else "pending"


def _since_cancel(batch: JsonObject, headers: Mapping[str, str]) -> float:
    """Return the seconds since the cancel by the provider's clock, or its settling time if the clock is not given."""
    cancelled_at = moment(batch, "cancel_time")
    try:
        since = parsedate_to_datetime(headers.get("date", "")).timestamp() - (cancelled_at or 0.0)
    except (ValueError, TypeError, OverflowError):
        return _CANCEL_SETTLES
    return since if cancelled_at is not None and since >= 0 else _CANCEL_SETTLES


def _failed(custom_id: str, error: JsonValue) -> Response:
    """A row without an answer. Codes are google.rpc numbers; words and plain texts occur too."""
    if isinstance(error, Mapping) and not isinstance(error.get("code"), str):
        return gemini_forms.errored(custom_id, error)
    if isinstance(error, str) and _NOT_RUN.search(error):
        return Response(
            custom_id, RequestOutcome.CANCELLED, error_class=ErrorClass.NOT_EXECUTED, error_message=clean(error)
        )
    return shape.errored(custom_id, None, error)


def _usage(usage: JsonObject) -> Usage:
    """``completion_tokens`` leave reasoning out here."""
    sent = count(usage, "prompt_tokens")
    thought = count(at(usage, "completion_tokens_details"), "reasoning_tokens")
    return Usage(
        input_tokens=sent,
        cached_input_tokens=min(count(at(usage, "prompt_tokens_details"), "cached_tokens"), sent),
        output_tokens=count(usage, "completion_tokens") + thought,
        reasoning_tokens=thought,
        is_known=None not in (whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))),
        stated_usd=dollars(usage.get("cost_in_usd_ticks"), _TICK),
    )


def _line(value: JsonValue) -> bytes | None:
    """Write like ``compact``, also what orjson reads and does not write (deep nesting, large integers); None where
    nothing writes it."""
    try:
        return compact(value)
    except (TypeError, RecursionError):
        pass
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return None
