"""xAI's batch API, with the forms of batchling's adapter.

What each cannot do is declared in its ``capabilities``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

from layton_batch.errors import FileError, ProviderReplyError
from layton_batch.providers import gemini_forms, http_rules
from layton_batch.providers import openai_shape as shape
from layton_batch.providers.chat_usage import dollars
from layton_batch.providers.damaged_rows import unreadable
from layton_batch.providers.longtail_wire import AdapterProvider
from layton_batch.providers.protocol import Capabilities, Limits, ResultPart, StatusMeaning
from layton_batch.providers.wire_errors import clean, excerpt, parse_object
from layton_batch.providers.wire_json import JsonObject, at, compact, count, objects, text, whole
from layton_batch.records import JsonValue, MatchingBatch, Request, Response, Snapshot, Submission, Usage
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome

_DAY = 86_400.0


# ---- xAI -----------------------------------------------------------------------------------------------------------


class Xai(AdapterProvider):
    """A file of OpenAI's lines is uploaded (free), and one call makes the batch of it (paid). The batch carries our tag
    in its name, and the list shows that. Results, counts and cancelling are xAI's own."""

    name: str = "xai"
    adapter_path: str = "batchling.providers.xai:XaiProvider"
    key_variable: str = "XAI_API_KEY"
    address: str = "https://api.x.ai"
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

    def encode(self, request: Request) -> dict[str, JsonValue]:
        effort = request.model.reasoning.effort
        reasoning: Mapping[str, JsonValue] = {} if effort is None else {"reasoning_effort": effort}
        body = shape.chat_body(request, reasoning=reasoning, max_tokens_key="max_completion_tokens")
        return {"custom_id": request.custom_id, "method": "POST", "url": shape.ENDPOINT, "body": body}

    def upload(self, submission: Submission) -> str | None:
        try:
            handle = submission.path.open("rb")
        except OSError as error:
            raise FileError(f"xai: batch file {submission.path} cannot be read: {error.strerror}") from error
        with handle:
            name = (submission.file_name, handle, "application/jsonl")  # an open file is streamed
            file = self._call("POST", "/v1/files", f"upload {submission.file_name}", files={"file": name})
        file_id = text(file, "id")
        if file_id is None:
            raise ProviderReplyError("xai: the reply to an upload names no file")
        return file_id

    def create(self, submission: Submission) -> str:
        body = {"name": _xai_name(submission), "input_file_id": self._input_ref(submission)}
        with self._wire(f"create batch {submission.batch_id}", paid=True):
            batch = self._call("POST", "/v1/batches", f"create batch {submission.batch_id}", body=body, paid=True)
            batch_id = text(batch, "batch_id")
            if batch_id is None:
                raise ProviderReplyError("xai: the reply to a create names no batch")
            return batch_id

    def find(self, submission: Submission) -> Sequence[MatchingBatch]:
        """Batches of our name or our file, of the whole list."""
        listed = submission.listed(self._listed)
        name, ref = _xai_name(submission), submission.input_ref
        matches = []
        for batch in listed:
            provider_id, shown = text(batch, "batch_id") or "", text(batch, "name") or ""
            if shown == name or (ref and text(batch, "input_file_id") == ref):
                matches.append(MatchingBatch(provider_id, certain=True))
            elif submission.is_of_a_copy(provider_id, [shown.partition("/")[0]]):
                matches.append(MatchingBatch(provider_id, certain=False, of_a_copy=True))
        return matches

    def _listed(self) -> Iterator[JsonObject]:
        """Every batch of the list."""

        def read(token: str | None) -> JsonObject:
            params = {"limit": "100"} | ({"pagination_token": token} if token else {})
            return self._call("GET", "/v1/batches", "list batches", params=params)

        for page in http_rules.turned(self.name, read, lambda page: text(page, "pagination_token")):
            yield from _xai_batches(page)

    def snapshot(self, provider_id: str) -> Snapshot:
        payload, over = self._poll(provider_id)
        state = at(payload, "state")
        if not state:
            raise ProviderReplyError(f"xai: batch {provider_id} shows no counts, so its state cannot be told")
        word, reason = _xai_word(payload, state, over=over), text(payload, "cancel_by_xai_message")
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
            error_class=_xai_failure(reason or "") if failed else ErrorClass.NONE,
        )

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        if snapshot.results_ref:
            yield ResultPart("output", self._pages(snapshot.results_ref))

    def _pages(self, provider_id: str) -> Iterator[bytes]:
        """Every page of results, a row a line: the adapter itself reads only the first page."""
        spec = self._adapter().build_results_request_spec(
            base_url=self._base(), api_headers=self._headers(), file_id=None, batch_id=provider_id
        )
        params, seen = {"limit": "1000"}, set()
        while True:
            page = self._call(spec.method, spec.path, f"read the results of batch {provider_id}", params=params)
            for row in _rows(page, provider_id):
                # of what cannot be written the name is kept: the row is then unreadable, the others are not
                yield (_line(row) or compact({"batch_request_id": text(row, "batch_request_id")})) + b"\n"
            token = text(page, "pagination_token")
            if token is None:
                return
            if token in seen:
                raise ProviderReplyError(f"xai: the results of batch {provider_id} repeat a page")
            seen.add(token)
            params["pagination_token"] = token

    def decode(self, line: bytes) -> Response:
        row = parse_object(line, self.name, "a result line")
        custom_id, result = text(row, "batch_request_id"), at(row, "batch_result")
        if custom_id is None:
            raise ProviderReplyError(f"xai: a result line names no batch_request_id: {excerpt(line)}")
        error = result.get("error") or row.get("error") or row.get("error_message") or result.get("error_message")
        body = at(at(result, "response"), "chat_get_completion")
        if error and not body.get("choices"):
            return _xai_error(custom_id, error)
        if not body:
            return unreadable(
                custom_id, f"xai: the result line of {clean(custom_id, 80)} holds neither a reply nor an error"
            )
        response = _chat(custom_id, body, self.name)
        return (
            replace(response, usage=_xai_usage(at(body, "usage")))
            if response.outcome is RequestOutcome.SUCCEEDED
            else response
        )

    def cancel(self, provider_id: str) -> None:
        self._cancel_by(f"/v1/batches/{provider_id}:cancel", provider_id)


def _xai_name(submission: Submission) -> str:
    """Our tag, and how many requests there are: a batch whose file is still being read shows fewer, and with the first
    of them done looks as if it had ended."""
    return f"{submission.tag}/{submission.requests}"


def _xai_batches(page: JsonObject) -> list[JsonObject]:
    """The batches of a page of the list; none may be left out. What is no page does not count as an empty one."""
    batches = objects(page, "batches")
    keys = page.keys() & {"batches", "pagination_token"}
    if "error" in page or (page.get("batches") or []) != batches or (page and not keys):
        raise ProviderReplyError("xai: what was to be a list of batches holds none")
    return batches


def _rows(page: JsonObject, provider_id: str) -> list[JsonObject]:
    """The rows of a page of results; none at all may be left out. What is no page must not count as an empty one."""
    rows = objects(page, "results")
    if (
        "error" in page
        or (page.get("results") or []) != rows
        or (page and page.keys().isdisjoint(("results", "pagination_token")))
    ):
        raise ProviderReplyError(f"xai: what was to be results of batch {provider_id} holds none")
    return rows


def _xai_word(payload: JsonObject, state: JsonObject, *, over: bool) -> str:
    """A word for what the counts say. To the adapter nothing pending means over; here a batch must also be full."""
    if text(payload, "cancel_time") is not None:
        if not over:
            return "cancelling"
        return "failed" if text(payload, "cancel_by_xai_message") else "cancelled"
    expected = count({"requests": (text(payload, "name") or "").rpartition("/")[2]}, "requests")
    full = count(state, "num_requests") >= max(1, expected)
    if over and full:
        return "ended"
    return "running" if count(state, "num_success") + count(state, "num_error") else "pending"


def _xai_failure(reason: str) -> ErrorClass:
    ours = any(word in reason.lower() for word in ("not supported", "validation", "invalid", "not found"))
    return ErrorClass.INVALID_REQUEST if ours else ErrorClass.PROVIDER_FAULT


def _xai_error(custom_id: str, error: JsonValue) -> Response:
    """Codes of failed rows are google.rpc numbers; words and plain texts occur too."""
    if isinstance(error, Mapping) and not isinstance(error.get("code"), str):
        return gemini_forms.errored(custom_id, error)
    return shape.errored(custom_id, None, error)


def _xai_usage(usage: JsonObject) -> Usage:
    """``completion_tokens`` leave reasoning out here."""
    sent = count(usage, "prompt_tokens")
    thought = count(at(usage, "completion_tokens_details"), "reasoning_tokens")
    return Usage(
        input_tokens=sent,
        cached_input_tokens=min(count(at(usage, "prompt_tokens_details"), "cached_tokens"), sent),
        output_tokens=count(usage, "completion_tokens") + thought,
        reasoning_tokens=thought,
        known=None not in (whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))),
        stated_usd=dollars(usage.get("cost_in_usd_ticks"), _TICK),
    )


_TICK = Decimal("1e-10")
"""The unit of xAI's own statement of a reply's cost, in dollars."""


def _chat(custom_id: str, body: JsonValue, provider: str) -> Response:
    """A chat completion that is not wrapped as OpenAI wraps it."""
    line = _line({"custom_id": custom_id, "response": {"status_code": 200, "body": body}})
    if line is None:
        return unreadable(custom_id, f"{provider}: the result line of {clean(custom_id, 80)} is nested too deeply")
    return shape.decode_row(line, provider)


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
