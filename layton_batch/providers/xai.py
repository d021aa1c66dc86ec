"""xAI's batch API, through the ``openai`` SDK at another address: a file of OpenAI's lines is uploaded (free), and one
call makes the batch of it (paid). The batch carries our tag in its name, and the list shows that. Counts in place of a
status word, pages of results and cancelling are xAI's own.

Sources, looked up 2026-11: docs.x.ai (Batch API, Files); published notes of live captures by a gateway (2026-08/09).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.chat import dollars, read_reply
from layton_batch.providers.finding import ListedBatch, pages, rows
from layton_batch.providers.inline import ReplyResults
from layton_batch.providers.openai import OpenAIElsewhere
from layton_batch.providers.protocol import Capabilities, Limits, StatusMeaning
from layton_batch.providers.wire_errors import error_class, errored, unreadable
from layton_batch.providers.wire_json import (
    JsonObject,
    at,
    clean,
    count,
    moment,
    objects,
    text,
    whole,
)
from layton_batch.records import JsonValue, Response, Snapshot, Submission, Usage
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome

_DAY = 86_400.0
_CANCEL_SETTLES = 120.0
"""Seconds from a cancel until its counts are believed: 20 seconds after one, rows that had been counted as cancelled
were there with answers (gateway's notes, A1)."""
_TICK = Decimal("1e-10")
"""The unit of xAI's own statement of a reply's cost, in dollars."""
_NOT_RUN = re.compile(r"\bbatch (was )?cancell?ed\b", re.IGNORECASE)
_NEXT = "pagination_token"


class Xai(OpenAIElsewhere):
    """See the module text."""

    name = "xai"
    limits = Limits(
        max_requests=50_000,
        max_bytes=199_000_000,
        max_line_bytes=24_700_000,
        window_seconds=3 * _DAY,  # usually within 24 hours; no end is promised before 30 days
        max_creates_per_hour=3_600,
        retention_seconds=30 * _DAY,
    )
    capabilities = Capabilities(
        certain_find=False,  # how soon the list shows a new batch is not documented
        caveats=(
            "a batch that the list does not show may have been made all the same: a person decides",
            "20 to 50 % cheaper on some models, no discount on others",
        ),
    )
    status_map: Mapping[str, StatusMeaning] = {  # words derived from counts: the API has none
        "pending": Lifecycle.IN_FLIGHT,
        "running": Lifecycle.IN_FLIGHT,
        "cancelling": Lifecycle.CANCELLING,
        "ended": BatchOutcome.COMPLETED,
        "cancelled": BatchOutcome.CANCELLED,
        "failed": BatchOutcome.FAILED,
    }
    efforts = ("none", "low", "medium", "high")
    refuses_cancel = (400, 409, 412, 422)
    resumes = False
    name_key = "batch_request_id"
    about = None  # type: ignore[assignment]  # its list of models leaves out the other names that a model answers to

    def _uploaded(self, file_name: str, size: int) -> str | None:
        """Return None: what its list of files shows is not documented, and a second copy of a file costs nothing."""

    def create(self, submission: Submission) -> str:
        batch = {"name": self._name_of(submission), "input_file_id": self._input_ref(submission)}
        return self._created(submission, lambda client: client.post("/batches", cast_to=object, body=batch), "batch_id")

    def _name_of(self, submission: Submission) -> str:
        """Return our tag, and how many requests there are: a batch whose file is still being read shows fewer, and with
        the first of them done looks as if it had ended."""
        return f"{submission.tag}/{submission.requests}"

    def _listed(self, submission: Submission) -> Iterator[ListedBatch]:
        def read(token: str | None) -> JsonObject:
            query = {"limit": "100"} | ({_NEXT: token} if token else {})
            return self._ask(
                "list batches", lambda client: client.get("/batches", cast_to=object, options={"params": query})
            )

        for page in pages(self.name, read, lambda page: text(page, _NEXT)):
            for batch in rows(page, "batches", self.name, may_lack=(_NEXT,)):
                inputs = (batch.get("input_file_id"),)
                yield ListedBatch(text(batch, "batch_id") or "", None, name=text(batch, "name"), inputs=inputs)

    def snapshot(self, provider_id: str) -> Snapshot:
        batch = self._ask(
            f"poll batch {provider_id}", lambda client: client.get(f"/batches/{provider_id}", cast_to=object)
        )
        state = at(batch, "state")
        if not state:
            raise ProviderReplyError(f"xai: batch {provider_id} shows no counts, so its state cannot be told")
        reason, total = text(batch, "cancel_by_xai_message"), count(state, "num_requests")
        return self._snapshot(
            provider_id,
            _word(batch, state, self._clock()),
            files=(provider_id if total else None, None),
            counts=(total, whole(state.get("num_success")), whole(state.get("num_error"))),
            reason=reason,
            error_class=error_class(None, None, reason),
        )

    def _download(self, ref: str, start: int = 0) -> Generator[bytes, None, None]:
        """Yield every row of every page of results as it came."""

        def read(token: str | None) -> ReplyResults:
            query = urlencode({"limit": "1000"} | ({_NEXT: token} if token else {}))
            call = f"read the results of batch {ref}"
            pieces = self._stream(self._url(f"/batches/{ref}/results?{query}"), call)
            return ReplyResults(pieces, self.name, f"the results of batch {ref}")

        for page in pages(self.name, read, lambda page: text(page.rest(), _NEXT)):
            for row in page:
                if not row.startswith(b"{"):
                    raise ProviderReplyError(f"xai: the results of batch {ref} hold what is no row")
                yield row + b"\n"
            rows(page.rest(), "results", self.name, may_lack=(_NEXT,))

    def _decoded(self, custom_id: str, row: JsonObject) -> Response:
        result = at(row, "batch_result")
        body = at(at(result, "response"), "chat_get_completion")
        errors = [holder.get(key) for holder in (result, row, body) for key in ("error", "error_message")]
        error = next((entry for entry in errors if entry), None)
        if error and not body.get("choices"):
            return _failed(custom_id, error)
        if not body:
            return unreadable(custom_id, f"xai: the result line of {clean(custom_id, 80)} holds no reply and no error")
        # with search tools the answer is the last of several choices
        reply = read_reply(custom_id, {**body, "choices": [*objects(body, "choices")[-1:]]})
        return replace(reply, usage=_usage(at(body, "usage")))

    def _cancel(self, client: Any, provider_id: str) -> object:
        return client.post(f"/batches/{provider_id}:cancel", cast_to=object)


def _word(batch: JsonObject, state: JsonObject, now: float | None) -> str:
    """Return a word for what the counts say. Nothing pending means over only for a batch that is full."""
    total, done = count(state, "num_requests"), count(state, "num_success") + count(state, "num_error")
    is_over = whole(state.get("num_pending")) == 0
    if text(batch, "cancel_time") is not None:
        if text(batch, "cancel_by_xai_message") and is_over:
            return "failed"
        cancelled_at = moment(batch, "cancel_time")
        # a provider whose clock is not known is believed
        since = now - cancelled_at if now is not None and cancelled_at is not None else _CANCEL_SETTLES
        if not is_over or 0 <= since < _CANCEL_SETTLES:
            return "cancelling"
        return "ended" if total and done == total else "cancelled"
    expected = whole((text(batch, "name") or "").rpartition("/")[2]) or 0
    if is_over and total >= max(1, expected):
        return "ended"
    return "running" if done else "pending"


def _failed(custom_id: str, error: JsonValue) -> Response:
    """Read a row without an answer. Codes are google.rpc numbers; words and plain texts occur too."""
    if isinstance(error, str) and _NOT_RUN.search(error):
        return Response(
            custom_id, RequestOutcome.CANCELLED, error_class=ErrorClass.NOT_EXECUTED, error_message=clean(error)
        )
    return errored(custom_id, None, error)


def _usage(usage: JsonObject) -> Usage:
    """Return token counts: ``completion_tokens`` leave reasoning out here."""
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
