"""OpenRouter's dialect on the wire: requests inline, results inline, and a search without a tag."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest

from layton_batch.errors import (
    AmbiguousCallError,
    ManifestError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.providers import connect, problems
from layton_batch.providers.inline_results import InlineResults
from layton_batch.providers.openrouter import ADDRESS
from layton_batch.providers.protocol import Access, ModelNotice
from layton_batch.providers.request_line import request_line
from layton_batch.records import JsonValue, ModelSpec, Reasoning, Snapshot, Submission, Usage
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, RequestOutcome
from layton_batch.testing.providers import Answer

from .conftest import IMAGE, KEY, Serve, effort, make_request, reply, routes

OPENROUTER = connect("openrouter", None)
MADE = 1_800_000_000


def batch(status: str = "completed", **changes: JsonValue) -> dict[str, JsonValue]:
    """As the quickstart shows one."""
    counts: JsonValue = {"total": 1, "completed": 1 if status == "completed" else 0, "failed": 0}
    return {
        "id": "batch_1", "object": "batch", "endpoint": "/v1/chat/completions", "model": "the-model",
        "completion_window": "24h", "status": status, "created_at": MADE, "finalized_at": None,
        "request_counts": counts, "usage": None, "results": None, "error": None, **changes,
    }  # fmt: skip


def row(custom_id: str, **changes: JsonValue) -> dict[str, JsonValue]:
    message: JsonValue = {"role": "assistant", "content": "4"}
    body: JsonValue = {
        "id": "gen-batch-1", "object": "chat.completion", "model": "openai/gpt-4o",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24},
    }  # fmt: skip
    response: JsonValue = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None, **changes}


# ---- what is asked


def test_the_line_is_the_documented_one_and_leaves_the_model_to_the_batch() -> None:
    line = request_line(OPENROUTER, make_request("openrouter", "?", reasoning=effort("high"), max_output_tokens=9))
    assert line == (
        b'{"custom_id":"run7-0001","body":{"messages":[{"role":"system","content":"Grade strictly."},'
        b'{"role":"user","content":"?"}],"response_format":{"type":"json_schema","json_schema":{"name":"grade",'
        b'"strict":true,"schema":{"type":"object","properties":{"score":{"type":"integer"}},"required":["score"],'
        b'"additionalProperties":false}}},"reasoning":{"effort":"high"},"max_tokens":9}}'
    )


def test_a_budget_is_a_limit_of_the_reasoning() -> None:
    line = request_line(OPENROUTER, make_request("openrouter", "?", reasoning=Reasoning(budget_tokens=2000)))
    assert json.loads(line)["body"]["reasoning"] == {"max_tokens": 2000}


def test_a_request_with_an_image_is_refused_before_its_whole_batch_would_fail() -> None:
    with pytest.raises(ManifestError, match="takes no images in a batch"):
        request_line(OPENROUTER, make_request("openrouter", "?", IMAGE))


@pytest.mark.parametrize("key", ["provider", "models", "plugins", "image_config", "stream", "messages"])
def test_what_a_row_of_a_batch_may_not_have_is_refused(key: str) -> None:
    spec = ModelSpec("shown", "openrouter", "m", "family", params={key: ["x"]})
    assert [key in problem for problem in problems(OPENROUTER, spec)] == [True]
    assert problems(OPENROUTER, replace(spec, params={}, reasoning=Reasoning(budget_tokens=2000))) == []


def test_the_endpoint_and_the_model_stand_before_the_requests(serve: Serve, submission: Submission) -> None:
    submission.path.write_bytes(b'{"custom_id":"a"}\n{"custom_id":"b"}\n')
    provider, server = serve("openrouter", reply({"id": "batch_1", "status": "validating"}, 202))
    assert provider.upload(submission) is None
    assert provider.create(submission) == "batch_1"
    (call,) = server.calls
    assert (call.method, call.path) == ("POST", "/v1/batches")
    assert call.body == (
        b'{"endpoint":"/v1/chat/completions","model":"the-model","requests":[{"custom_id":"a"},{"custom_id":"b"}]}'
    )
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.headers["content-type"] == "application/json"


def test_the_key_goes_to_openrouter_whatever_the_environment_says_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    unset = connect("openrouter", Access(KEY))
    assert str(unset._open().base_url).rstrip("/") == ADDRESS  # type: ignore[attr-defined]
    unset.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("body", [b"{}", b'{"id": 7}', b"[]", b"<html>"])
def test_a_reply_without_an_id_may_hide_a_batch(serve: Serve, submission: Submission, body: bytes) -> None:
    provider, _ = serve("openrouter", Answer(202, body))
    with pytest.raises(AmbiguousCallError):
        provider.create(submission)


# ---- what became of a batch


def reading(serve: Serve, told: Mapping[str, JsonValue]) -> Snapshot:
    provider, _ = serve("openrouter", reply(told))
    return provider.snapshot("batch_1")


@pytest.mark.parametrize("word", ["validating", "in_progress", "finalizing", "cancelling"])
def test_a_batch_that_runs_has_no_results(serve: Serve, word: str) -> None:
    found = reading(serve, batch(word))
    assert (found.outcome, found.results_ref, found.total, found.succeeded) == (None, None, 1, 0)


def test_a_completed_batch_says_what_it_cost(serve: Serve) -> None:
    usage: JsonValue = {"prompt_tokens": 20, "completion_tokens": 40, "cost": 0.000225, "is_byok": False}
    found = reading(serve, batch(usage=usage, results=[row("a")]))
    assert (found.outcome, found.results_ref, found.succeeded) == (BatchOutcome.COMPLETED, "batch_1", 1)
    assert found.stated_usd == Decimal("0.000225")
    assert found.stated_usage == Usage(input_tokens=20, output_tokens=40)


def test_a_fee_beside_a_providers_own_bill_is_not_the_cost(serve: Serve) -> None:
    assert reading(serve, batch(usage={"cost": 0.01, "is_byok": True})).stated_usd is None


def test_a_failed_batch_says_why_and_its_requests_do_not_go_again(serve: Serve) -> None:
    found = reading(serve, batch("failed", error={"message": "request 3: response_format differs"}))
    assert (found.outcome, found.results_ref) == (BatchOutcome.FAILED, None)
    assert (found.message, found.error_class) == ("request 3: response_format differs", ErrorClass.INVALID_REQUEST)


@pytest.mark.parametrize("word", ["expired", "cancelled"])
def test_no_results_of_a_batch_that_was_broken_off_are_no_proof_that_nothing_was_carried_out(
    serve: Serve, word: str
) -> None:
    found = reading(serve, batch(word))
    assert (found.state, found.results_ref, found.succeeded) == (Lifecycle.ENDED, "batch_1", None)


def test_results_that_the_balance_cannot_pay_are_asked_for_again(serve: Serve) -> None:
    refused = {"error": {"code": 402, "message": "Insufficient credits"}, "results": None}
    provider, _ = serve("openrouter", reply(refused, 402))
    with pytest.raises(RequestRefusedError, match="Insufficient credits"):
        provider.snapshot("batch_1")


def test_results_come_as_lines_in_order(serve: Serve) -> None:
    provider, _ = serve("openrouter", Answer(200, json.dumps(batch(results=[row("a"), row("b")]), indent=2).encode()))
    snapshot = provider.snapshot("batch_1")
    (part,) = provider.results(snapshot)
    lines = b"".join(part.chunks).splitlines()
    assert [json.loads(line) for line in lines] == [row("a"), row("b")]
    response = provider.decode(lines[1])
    assert (response.custom_id, response.text, response.finish_reason) == ("b", "4", FinishReason.STOP)
    assert (response.usage.input_tokens, response.usage.output_tokens) == (20, 4)


def test_a_row_error_is_told_by_its_type() -> None:
    error: JsonValue = {"type": "invalid_request_error", "message": "too long", "param": None}
    response = OPENROUTER.decode(json.dumps(row("a", response=None, error=error)).encode())
    assert (response.outcome, response.error_class) == (RequestOutcome.ERRORED, ErrorClass.INVALID_REQUEST)
    assert response.error_message == "too long"


def test_a_reply_that_breaks_off_is_no_reading_and_no_download(serve: Serve) -> None:
    whole = json.dumps(batch(results=[row("a")])).encode()
    cut = Answer(200, whole[:-40], {"content-length": str(len(whole))})
    provider, _ = serve("openrouter", cut)
    with pytest.raises(TransientProviderError):
        provider.snapshot("batch_1")
    (part,) = provider.results(Snapshot("batch_1", "completed", Lifecycle.ENDED, results_ref="batch_1"))
    with pytest.raises(TransientProviderError):
        b"".join(part.chunks)


def test_a_batch_cannot_be_cancelled_and_that_is_said_unless_it_has_ended(serve: Serve) -> None:
    provider, server = serve("openrouter", reply(batch("in_progress")))
    with pytest.raises(RequestRefusedError, match="cannot be cancelled"):
        provider.cancel("batch_1")
    assert server.posts() == 0
    provider, _ = serve("openrouter", reply(batch()))
    provider.cancel("batch_1")


# ---- whether a batch exists


def found(serve: Serve, submission: Submission, listed: Mapping[str, JsonValue], *results: JsonValue) -> list[object]:
    page: JsonValue = {"object": "list", "data": [listed], "has_more": False}
    told = {**listed, "results": list(results) or None}
    provider, _ = serve("openrouter", routes({"GET /batches": page, "GET /batches/batch_1": told}))
    return [(one.provider_id, one.certain, one.may_tell) for one in provider.find(submission)]


def test_a_completed_batch_with_our_ids_is_ours(serve: Serve, submission: Submission) -> None:
    assert found(serve, submission, batch(), row("a")) == [("batch_1", True, False)]
    early = replace(submission, intended_at=MADE + 3600.0)
    assert found(serve, early, batch(), row("a")) == [("batch_1", True, False)]


def test_a_completed_batch_with_other_ids_is_not_ours(serve: Serve, submission: Submission) -> None:
    assert found(serve, submission, batch(), row("z")) == []


def test_a_batch_that_runs_may_be_ours_by_its_size_alone(serve: Serve, submission: Submission) -> None:
    assert found(serve, submission, batch("in_progress")) == [("batch_1", False, True)]
    assert found(serve, submission, batch("in_progress", request_counts={"total": 2})) == []
    assert found(serve, submission, batch("pondering")) == [("batch_1", False, True)]


def test_a_batch_without_results_never_tells(serve: Serve, submission: Submission) -> None:
    assert found(serve, submission, batch("expired")) == [("batch_1", False, False)]
    assert found(serve, submission, batch("expired", created_at=MADE - 200_000)) == []


def test_a_list_is_read_to_its_end(serve: Serve, submission: Submission) -> None:
    first: JsonValue = {"data": [batch("failed", id="x", created_at=0)], "has_more": True, "last_id": "x"}
    second: JsonValue = {"data": [batch("in_progress")], "has_more": False}
    table = {"GET /batches?limit=100": first, "GET /batches?after=x&limit=100": second}
    provider, _ = serve("openrouter", routes(table))
    assert [one.provider_id for one in provider.find(submission)] == ["batch_1"]


# ---- models


@pytest.mark.parametrize(
    ("asked", "notice"),
    [
        ("maker/one", ModelNotice("maker/one", runs_as_batch=True)),
        ("maker/one:batch", ModelNotice("maker/one:batch", runs_as_batch=True)),
        ("maker/two", ModelNotice("maker/two", runs_as_batch=False)),
        ("maker/three", None),
    ],
)
def test_a_model_runs_as_batches_where_the_catalogue_has_a_price_for_them(
    serve: Serve, asked: str, notice: ModelNotice | None
) -> None:
    listed = [{"id": "maker/one"}, {"id": "maker/one:batch"}, {"id": "maker/two"}]
    provider, server = serve("openrouter", routes({"GET /models": {"data": listed}}))
    assert provider.about(asked) == notice  # type: ignore[attr-defined]
    assert len(server.calls) == 1


# ---- results inline


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_results_are_taken_out_of_a_reply_however_it_is_cut_into_pieces(indent: int | None, *, reverse: bool) -> None:
    told: dict[str, JsonValue] = {
        "id": "results",
        "results": [{"custom_id": "a", "x": 'he said "[{,\\" ok\n'}, {"y": [1, {"results": [3]}]}],
        "usage": {"results": [1, 2]},
    }
    raw = json.dumps(dict(sorted(told.items(), reverse=reverse)), indent=indent).encode()
    for size in range(1, len(raw) + 1):
        found = InlineResults((raw[at : at + size] for at in range(0, len(raw), size)), "results", "p", "a reply")
        assert [json.loads(line) for line in found] == told["results"]
        assert found.rest() == {**told, "results": []}


@pytest.mark.parametrize("raw", [b'{"results": [{"a": 1}', b'{"results": [{"a": 1}]', b'{"results": [{"a": "x', b"{"])
def test_a_reply_that_ends_within_the_results_is_not_taken_for_all(raw: bytes) -> None:
    with pytest.raises(ProviderReplyError):
        list(InlineResults([raw], "results", "p", "a reply"))


@pytest.mark.parametrize("raw", [b"", b"[]", b"<html>", b'{"results": [}'])
def test_what_is_no_object_is_no_reply(raw: bytes) -> None:
    def read() -> Mapping[str, JsonValue]:
        results = InlineResults([raw], "results", "p", "a reply")
        list(results)
        return results.rest()

    with pytest.raises(ProviderReplyError):
        read()
