"""Where Groq differs from OpenAI."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderReplyError
from layton_batch.providers import connect, problems
from layton_batch.providers.protocol import Access
from layton_batch.providers.request_line import request_line
from layton_batch.records import Submission
from layton_batch.states import ErrorClass, FinishReason
from layton_batch.testing.providers import Answer, Loopback

from .conftest import KEY, Serve, effort, make_request, reply, routes

GROQ = connect("groq", None)


def test_the_line_is_the_documented_one() -> None:
    line = request_line(GROQ, make_request("groq", reasoning=effort("low"), max_output_tokens=2000))
    assert line == (
        b'{"custom_id":"run7-0001","method":"POST","url":"/v1/chat/completions","body":{"model":"the-model","messages":['
        b'{"role":"system","content":"Grade strictly."},{"role":"user","content":"2+2?"}],"response_format":{"type":'
        b'"json_schema","json_schema":{"name":"grade","strict":true,"schema":{"type":"object","properties":{"score":'
        b'{"type":"integer"}},"required":["score"],"additionalProperties":false}}},"reasoning_effort":"low",'
        b'"max_completion_tokens":2000}}'
    )


def test_efforts_are_groqs_own() -> None:
    assert problems(GROQ, make_request("groq", reasoning=effort("default")).model) == []
    assert "minimal" in problems(GROQ, make_request("groq", reasoning=effort("minimal")).model)[0]


@pytest.mark.parametrize(("window", "sent"), [(None, "24h"), ("7d", "7d"), ("48h", "48h")])
def test_a_window_of_24_hours_to_7_days_is_sent(
    serve: Serve, submission: Submission, window: str | None, sent: str
) -> None:
    provider, server = serve("groq", routes({"POST /openai/v1/batches": {"id": "batch_1"}}))
    provider.create(replace(submission, window=window))
    assert json.loads(server.calls[0].body)["completion_window"] == sent
    assert problems(GROQ, replace(make_request("groq").model, window=window)) == []


@pytest.mark.parametrize(
    ("name", "window", "known"),
    [("groq", "1h", "24h, 48h"), ("groq", "8d", "24h, 48h"), ("doubleword", "7d", "1h, 24h"), ("openai", "7d", "24h"),
     ("anthropic", "1h", "24h")],
)  # fmt: skip
def test_a_window_that_the_provider_lacks_is_refused(name: str, window: str, known: str) -> None:
    (said,) = problems(connect(name, None), replace(make_request(name).model, window=window))
    assert said.startswith(f"window {window!r} is not one that {name} has: use one of {known}")


def test_a_file_stays_under_the_smaller_of_two_documented_limits() -> None:
    assert GROQ.limits.max_bytes < 100_000_000


def test_paths_are_groqs_whatever_form_the_address_has(submission: Submission) -> None:
    for suffix in ("", "/", "/openai/v1", "/openai/v1/"):
        with Loopback(reply({"id": "batch_1"})) as server:
            provider = connect("groq", Access(KEY, server.url + suffix))
            assert provider.create(submission) == "batch_1"
            provider.close()  # type: ignore[attr-defined]
        assert [call.path for call in server.calls] == ["/openai/v1/batches"]
        assert json.loads(server.calls[0].body)["metadata"] == {"layton_batch": "tag-b1"}


@pytest.mark.parametrize("answer", [reply({}, 500), Answer(drop=True), Answer(hold=True)])
def test_create_is_one_post(serve: Serve, submission: Submission, answer: Answer) -> None:
    provider, server = serve("groq", answer, timeout=0.2 if answer.hold else 10.0)
    with pytest.raises(AmbiguousCallError):
        provider.create(submission)
    assert server.called.wait(10.0)  # a call that the client gave up may come in later
    assert server.posts() == 1


def test_an_interrupted_upload_is_taken_up_again(serve: Serve, submission: Submission) -> None:
    file = {"id": "ours", "filename": "tag-b1.jsonl", "bytes": submission.path.stat().st_size, "purpose": "batch"}
    provider, server = serve("groq", routes({"GET /openai/v1/files": {"data": [file]}}))
    assert provider.upload(submission) == "ours"
    assert server.posts() == 0


def test_find_follows_cursors_to_the_end_whatever_the_order(serve: Serve, submission: Submission) -> None:
    old, ours = (
        {"id": "old", "created_at": 1, "metadata": None},
        {"id": "ours", "input_file_id": "file-in", "created_at": 2},
    )
    provider, server = serve(
        "groq",
        routes({
            "GET /openai/v1/batches": {"data": [old], "paging": {"next_cursor": "c2"}},
            "GET /openai/v1/batches?cursor=c2": {"data": [ours], "paging": {"next_cursor": None}},
        }),
    )  # fmt: skip
    assert [one.provider_id for one in provider.find(submission)] == ["ours"]
    assert len(server.calls) == 2


def test_a_cursor_that_goes_in_circles_is_an_error(serve: Serve, submission: Submission) -> None:
    provider, _ = serve("groq", reply({"data": [], "paging": {"next_cursor": "c"}}))
    with pytest.raises(ProviderReplyError, match="next page"):
        provider.find(submission)


def test_no_batches_at_all_is_an_empty_listing(serve: Serve, submission: Submission) -> None:
    provider, _ = serve("groq", reply({"data": None}))
    assert provider.find(submission) == []


def test_errors_as_a_bare_list_are_read(serve: Serve) -> None:
    errors = [{"code": "invalid_url", "message": "The URL is wrong.", "line": 1}]
    provider, _ = serve("groq", reply({"id": "b", "status": "failed", "errors": errors}))
    snapshot = provider.snapshot("b")
    assert snapshot.message == "line 1: invalid_url: The URL is wrong."
    assert snapshot.error_class is ErrorClass.INVALID_REQUEST


def test_the_chain_of_thought_is_not_the_answer() -> None:
    body = {"choices": [{"message": {"content": "4", "reasoning": "two and two"}, "finish_reason": "stop"}]}
    response = GROQ.decode(json.dumps({"custom_id": "c", "response": {"status_code": 200, "body": body}}).encode())
    assert (response.text, response.finish_reason) == ("4", FinishReason.STOP)
