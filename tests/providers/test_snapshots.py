"""Readings of batches, as each provider shows them: state, outcome, files, counts and why a batch failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from layton_batch.errors import (
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
    UnknownStatusError,
)
from layton_batch.records import JsonValue, Usage
from layton_batch.testing.providers import Answer

from .conftest import Serve, reply, routes
from .documents import (
    ODD_JOBS,
    Json,
    anthropic_batch,
    gemini_batch,
    mistral_job,
    openai_batch,
    openrouter_batch,
    picked,
)

Facts = dict[str, object]
FLYING: Facts = {"state": "in_flight", "outcome": None, "results_ref": None, "errors_ref": None}


def ended(outcome: str, **more: object) -> Facts:
    return {"state": "ended", "outcome": outcome, **more}


def why(error_class: str, message: str | None = None) -> Facts:
    return ended("failed", error_class=error_class, **({"message": message} if message else {}))


NAMED: Json = {"output_file_id": "out", "error_file_id": ""}
ENTRIES: JsonValue = [
    {"code": "invalid_json_line", "line": 3, "message": "This line is\x1b[2J not JSON."},
    *({"code": "x", "message": f"m{number}"} for number in range(9)),
]
TOLD = "line 3: invalid_json_line: This line is [2J not JSON.; x: m0; x: m1"
NO_REASON = "the provider gave no reason"
FILE: Json = {"responsesFile": "files/batch-r"}


def gemini_counts(**stats: JsonValue) -> Json:
    batch = gemini_batch("BATCH_STATE_SUCCEEDED", response=FILE)
    batch["metadata"] |= {"batchStats": stats}  # type: ignore[operator]
    return batch


def xai_state(name: str = "tag-b1/4", **counts: JsonValue) -> Json:
    return {"batch_id": "b", "name": name, "cancel_time": None, "state": {f"num_{key}": n for key, n in counts.items()}}


def vertex_job(state: str, **more: JsonValue) -> Json:
    return {"state": state, **more}


@pytest.mark.parametrize(("provider", "batch", "expected"), [
    *((name, openai_batch(word, **NAMED), {**FLYING, "status": word})
      for name in ("openai", "doubleword") for word in ("validating", "in_progress", "finalizing")),
    ("openai", openai_batch("cancelling", **NAMED), {"state": "cancelling", "results_ref": None}),
    *(("openai", openai_batch(outcome, **NAMED), ended(outcome, results_ref="out", errors_ref=None))
      for outcome in ("completed", "failed", "expired", "cancelled")),
    ("openai", openai_batch("completed", error_file_id="e", request_counts={"total": 3, "completed": 0, "failed": 3}),
     ended("completed", results_ref=None, errors_ref="e", total=3, succeeded=0, failed=3, error_class="none")),
    ("openai", openai_batch("completed", usage={"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}),
     {"stated_usage": Usage(7, 0, 5)}),
    ("openai", openai_batch("completed", usage=None), {"stated_usage": None}),
    *((name, openai_batch("failed", errors=errors), why("invalid_request", TOLD))
      for name, errors in (("openai", {"object": "list", "data": ENTRIES}), ("groq", ENTRIES))),
    *(("openai", openai_batch("failed", errors={"data": [{"code": code}]}), why(error_class)) for code, error_class in (
        ("token_limit_exceeded", "rate_limited"), ("model_not_found", "invalid_request"),
        ("mismatched_model", "invalid_request"), ("model_mismatch", "invalid_request"),
        ("invalid_url", "invalid_request"), ("url_mismatch", "invalid_request"), ("too_many_tasks", "too_large"),
        ("invalid_request", "invalid_request"), ("server_error", "provider_fault"))),
    ("openai", openai_batch("failed", errors=None), why("provider_fault", NO_REASON)),
    ("doubleword", openai_batch("completed", analytics={"total_cost": "0.0125"}), {"stated_usd": Decimal("0.0125")}),
    *(("doubleword", openai_batch("completed", analytics=analytics), ended("completed", stated_usd=None))
      for analytics in (None, {}, [], {"total_cost": None}, {"total_cost": "none"}, {"total_cost": -1})),
    *(("together", {"id": "j", "status": word, **NAMED}, {**FLYING, "status": word})
      for word in ("VALIDATING", "IN_PROGRESS")),
    *(("together", {"id": "j", "status": outcome.upper(), **NAMED}, ended(outcome, results_ref="out", errors_ref=None))
      for outcome in ("completed", "failed", "expired", "cancelled")),
    *(("together", {"id": "j", "status": "FAILED", "error": error}, why(error_class, error or NO_REASON))
      for error, error_class in (
          ("Invalid JSON on line 3", "invalid_request"), ("model is not supported", "invalid_request"),
          ("enqueued tokens above the limit", "rate_limited"), ("something broke", "provider_fault"),
          ("", "provider_fault"), (None, "provider_fault"))),
    *(("anthropic", anthropic_batch("ended", request_counts=counts, results_url="http://x"),
       ended(outcome, results_ref="b-1")) for counts, outcome in (
        ({"succeeded": 2}, "completed"), ({"errored": 2}, "completed"), ({"succeeded": 1, "expired": 1}, "completed"),
        ({"expired": 2}, "expired"), ({"succeeded": 1, "canceled": 1}, "cancelled"))),
    ("anthropic", anthropic_batch("canceling"), {**FLYING, "state": "cancelling"}),
    ("anthropic", anthropic_batch("ended", archived_at="2027-02-12T13:46:40Z"), {"results_ref": None}),
    # only a time says that results are gone
    *(("anthropic", anthropic_batch("ended", archived_at=archived), {"results_ref": "b-1"})
      for archived in (None, "", False, 0, {})),
    ("gemini", gemini_batch("BATCH_STATE_SUCCEEDED", response=FILE),
     ended("completed", results_ref="files/batch-r", total=4, succeeded=3, failed=1)),
    *(("gemini", gemini_batch(word, response=FILE), {**FLYING, "status": word})
      for word in ("BATCH_STATE_PENDING", "JOB_STATE_RUNNING")),
    ("gemini", gemini_batch("JOB_STATE_CANCELLING"), {**FLYING, "state": "cancelling"}),
    ("gemini", gemini_batch("BATCH_STATE_CANCELLED"), ended("cancelled", results_ref=None)),
    ("gemini", gemini_batch("BATCH_STATE_EXPIRED"), ended("expired", results_ref=None)),
    ("gemini", gemini_batch("BATCH_STATE_FAILED", error={"code": 8, "message": "quota"}), why("rate_limited", "quota")),
    # success without a file of which every request failed is a failure
    ("gemini", {**gemini_counts(requestCount="4", failedRequestCount="4"), "response": {}},
     ended("failed", results_ref=None, succeeded=0)),
    *(("mistral", mistral_job(word, output_file="out", error_file="err"), {**FLYING, "total": 4, "succeeded": 3})
      for word in ("QUEUED", "RUNNING")),
    ("mistral", mistral_job("CANCELLATION_REQUESTED", output_file="out"), {**FLYING, "state": "cancelling"}),
    *(("mistral", mistral_job(word, output_file="out", error_file="err"),
       ended(outcome, results_ref="out", errors_ref="err", total=4, succeeded=3, failed=1))
      for word, outcome in (("SUCCESS", "completed"), ("TIMEOUT_EXCEEDED", "expired"), ("CANCELLED", "cancelled"))),
    ("mistral", mistral_job("FAILED", errors=[{"message": "no such model", "count": 4}]),
     {**why("provider_fault", "no such model"), "results_ref": None}),
    ("mistral", mistral_job("RUNNING", output_file=7), {"results_ref": None}),
    *(("openrouter", openrouter_batch(word), {"outcome": None, "results_ref": None, "total": 1, "succeeded": 0})
      for word in ("validating", "in_progress", "finalizing", "cancelling")),
    ("openrouter",
     openrouter_batch(usage={"prompt_tokens": 20, "completion_tokens": 40, "cost": 0.000225, "is_byok": False}),
     ended("completed", results_ref="b-1", succeeded=1, stated_usd=Decimal("0.000225"), stated_usage=Usage(20, 0, 40))),
    # a fee beside a provider's own bill is not the cost
    ("openrouter", openrouter_batch(usage={"cost": 0.01, "is_byok": True}), {"stated_usd": None}),
    ("openrouter", openrouter_batch("failed", error={"message": "request 3: response_format differs"}),
     {**why("invalid_request", "request 3: response_format differs"), "results_ref": None}),
    # no results of a batch that was broken off are no proof that nothing was carried out
    *(("openrouter", openrouter_batch(word), ended(word, results_ref="b-1", succeeded=None))
      for word in ("expired", "cancelled")),
    *(("xai", xai_state(**counts), {"state": state, "status": word, "total": counts["requests"]})
      for counts, word, state in (
        ({"requests": 0, "pending": 0}, "pending", "in_flight"),
        ({"requests": 4, "pending": 4}, "pending", "in_flight"),
        ({"requests": 4, "pending": 3, "success": 1}, "running", "in_flight"),
        ({"requests": 2, "pending": 0, "success": 2}, "running", "in_flight"),  # two are not in yet
        ({"requests": 4, "pending": 0, "success": 3, "error": 1}, "ended", "ended"))),
    ("vertex", vertex_job("JOB_STATE_SUCCEEDED", outputInfo={"gcsOutputDirectory": "gs://bucket/runs/outputs/x"},
                          completionStats={"successfulCount": "3", "failedCount": "1"}),
     ended("completed", results_ref="gs://bucket/runs/outputs/x", total=4, succeeded=3, failed=1)),
    ("vertex", vertex_job("JOB_STATE_QUEUED"), {"state": "in_flight", "outcome": None}),
    ("vertex", vertex_job("JOB_STATE_EXPIRED"), ended("expired", error_class="none")),
    ("vertex", vertex_job("JOB_STATE_FAILED", error={"code": 3, "message": "m"}), why("invalid_request", "m")),
    ("vertex", vertex_job("JOB_STATE_FAILED"), why("provider_fault", NO_REASON)),
    # counts that are none do not say that nothing was answered
    *(("anthropic", anthropic_batch("ended", request_counts=counts), {"total": None, "succeeded": None})
      for counts in (None, [], {}, {"succeeded": None}, {"succeeded": "many"}, {"succeeded": [2]})),
    *(("gemini", gemini_counts(requestCount=number, successfulRequestCount=number), {"total": None, "succeeded": None})
      for number in ("many", [], -1, None)),
    ("mistral", {"id": "job-1", "status": "RUNNING"}, {"state": "in_flight", "total": None, "succeeded": None}),
    *(("mistral", mistral_job("SUCCESS", output_file="out") | odd, ended("completed", results_ref="out"))
      for odd in ODD_JOBS.values()),
    ("xai", xai_state(requests=4, pending=0, error="x"), {"total": 4, "succeeded": None, "failed": None}),
])  # fmt: skip
def test_a_batch_is_read(serve: Serve, provider: str, batch: Json, expected: Facts) -> None:
    connected, _ = serve(provider, reply(batch))
    assert picked(connected.snapshot("b-1"), expected) == expected


@pytest.mark.parametrize(("counts", "said", "seconds", "expected"), [
    ((2, 0, 2), None, 300, {"status": "cancelling", "outcome": None}),
    # 20 seconds after a cancel, five rows counted as cancelled were there with answers
    ((0, 0, 4), None, 20, {"status": "cancelling", "outcome": None}),
    ((0, 0, 4), None, 300, ended("cancelled")),
    ((0, 4, 0), None, 300, ended("completed")),
    ((0, 0, 4), "Model x is not supported", 20, why("invalid_request", "Model x is not supported")),
    ((0, 0, 4), "no capacity", 300, why("provider_fault", "no capacity")),
])  # fmt: skip
def test_a_cancel_at_xai_is_believed_when_its_counts_have_settled(
    serve: Serve, counts: tuple[int, ...], said: str | None, seconds: float, expected: Facts
) -> None:
    asked = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()  # the server tells the time of this machine
    batch = xai_state(requests=4, **dict(zip(("pending", "success", "cancelled"), counts, strict=True)))
    provider, _ = serve("xai", reply({**batch, "cancel_time": asked, "cancel_by_xai_message": said}))
    assert picked(provider.snapshot("b"), expected) == expected


PAGE = Answer(200, b"<html>", {"content-type": "text/html"})


@pytest.mark.parametrize(("provider", "answer", "error"), [
    ("openai", reply({}), ProviderReplyError),
    ("openai", PAGE, ProviderReplyError),
    ("openai", routes({}), NotFoundError),
    ("anthropic", routes({}), NotFoundError),
    ("xai", reply({"error": "no"}, 404), NotFoundError),
    ("xai", Answer(503, headers={"retry-after": "3"}), TransientProviderError),
    *(("gemini", reply(odd), ProviderReplyError) for odd in ({}, {"name": "b", "metadata": 5}, [])),
    *(("mistral", reply(odd), ProviderReplyError) for odd in ({}, {"id": "j"}, {"id": "j", "status": None}, [])),
    # a file named in another form is not taken for no file
    *(("mistral", reply(mistral_job("SUCCESS", output_file=ref)), ProviderReplyError)
      for ref in ({"id": "out"}, ["out"], 7, False)),
    # success without a file tells no more than a word nobody knows
    *(("gemini", reply(gemini_batch("BATCH_STATE_SUCCEEDED", response=output)), UnknownStatusError)
      for output in ({}, {"inlinedResponses": {"inlinedResponses": [{"response": {}}]}})),
    ("openrouter", reply({"error": {"code": 402, "message": "Insufficient credits"}}, 402), RequestRefusedError),
])  # fmt: skip
def test_what_is_no_reading_is_an_error(
    serve: Serve, provider: str, answer: Answer, error: type[ProviderError]
) -> None:
    connected, _ = serve(provider, answer)
    with pytest.raises(error) as caught:
        connected.snapshot("b-1")
    assert type(caught.value) is error
