"""Together: files addressed by content, jobs without a tag, error rows of their own form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.errors import AmbiguousCallError, FileError, ProviderReplyError, TransientProviderError
from layton_batch.providers import connect, problems
from layton_batch.providers.protocol import Access
from layton_batch.providers.request_line import request_line
from layton_batch.records import Submission, Usage
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, RequestOutcome
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .conftest import IMAGE, KEY, Serve, effort, make_request, reply, routes

TOGETHER = connect("together", None)
FILE = {
    "id": "file-1",
    "object": "file",
    "filename": "shard-1.jsonl",
    "bytes": 18,
    "created_at": 1,
    "purpose": "batch-api",
    "FileType": "jsonl",
    "processing_status": "COMPLETED",
}

# ---- encode, decode ------------------------------------------------------------------------------------------------


def test_the_line_is_the_documented_one() -> None:
    line = request_line(TOGETHER, make_request("together", "?", IMAGE, reasoning=effort("low"), max_output_tokens=2000))
    assert line == (
        b'{"custom_id":"run7-0001","body":{"model":"the-model","messages":[{"role":"system","content":'
        b'"Grade strictly."},{"role":"user","content":[{"type":"text","text":"?"},{"type":"image_url","image_url":{'
        b'"url":"data:image/jpeg;base64,/9j/4AAQ"}}]}],"response_format":{"type":"json_schema","json_schema":{"name":"grade",'
        b'"strict":true,"schema":{"type":"object","properties":{"score":{"type":"integer"}},"required":["score"],'
        b'"additionalProperties":false}}},"reasoning_effort":"low","max_tokens":2000}}'
    )


def test_no_reasoning_is_a_switch_and_not_an_effort() -> None:
    request = make_request("together", reasoning=effort("none"))
    body = json.loads(request_line(TOGETHER, request))["body"]
    assert body["reasoning"] == {"enabled": False}
    assert "reasoning_effort" not in body
    assert problems(TOGETHER, request.model) == []
    assert problems(TOGETHER, make_request("together", reasoning=effort("xhigh")).model) != []


def test_an_answer_with_flat_reasoning_tokens_is_read() -> None:
    message = {"role": "assistant", "content": "4", "reasoning": "two and two"}
    usage = {"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17, "reasoning_tokens": 6}
    body = {"choices": [{"message": message, "finish_reason": "eos"}], "usage": usage}
    row = {"id": "br_1", "custom_id": "c", "response": {"status_code": 200, "body": body}}
    response = TOGETHER.decode(json.dumps(row).encode())
    assert (response.text, response.finish_reason, response.raw_finish_reason) == ("4", FinishReason.STOP, "eos")
    assert response.usage == Usage(9, 0, 8, 6)


def test_an_error_row_without_a_response_is_read() -> None:
    # seen in practice with server faults under it: the code alone does not make the row hopeless
    row = {"id": "br_1", "custom_id": "c", "error": {"code": "batch_client_error", "message": "Internal Server Error"}}
    response = TOGETHER.decode(json.dumps(row).encode())
    assert (response.outcome, response.error_class) == (RequestOutcome.ERRORED, ErrorClass.PROVIDER_FAULT)
    assert (response.error_code, response.error_message) == ("batch_client_error", "Internal Server Error")


# ---- upload --------------------------------------------------------------------------------------------------------


def upload_server(stored: dict[str, bytes]) -> Callable[[HandlerCall], Answer]:
    """The documented upload: announce, PUT to the address given, finish; bytes already there give 409 with their id."""

    def answer(call: HandlerCall) -> Answer:
        if call.method == "POST" and call.path == "/v1/files":
            if stored:
                return reply({"file_id": "file-1"}, 409)
            location = f"http://{call.headers['host']}/bucket/1"
            return Answer(302, b"", {"Location": location, "X-Together-File-Id": "file-1"})
        if call.method == "PUT":
            stored[call.path] = call.body
        return reply(FILE)

    return answer


def test_the_bytes_are_uploaded_once_and_found_again(serve: Serve, submission: Submission) -> None:
    stored: dict[str, bytes] = {}
    provider, server = serve("together", upload_server(stored))
    assert provider.upload(submission) == "file-1"
    assert stored == {"/bucket/1": submission.path.read_bytes()}
    assert hashlib.sha256(submission.path.read_bytes()).hexdigest().encode() in server.calls[0].body
    before = len(server.calls)
    assert provider.upload(submission) == "file-1"
    assert [call.method for call in server.calls[before:]] == ["POST", "GET"]


def test_the_key_is_not_sent_to_the_storage(serve: Serve, submission: Submission) -> None:
    provider, server = serve("together", upload_server({}))
    provider.upload(submission)
    put = next(call for call in server.calls if call.method == "PUT")
    assert KEY not in " ".join(put.headers.values())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (reply({}, 500), TransientProviderError),
        (Answer(drop=True), TransientProviderError),
        (reply({"odd": 1}, 409), ProviderReplyError),
        (reply({"no": "location"}), ProviderReplyError),
    ],
)
def test_an_upload_that_fails_is_told_from_one_that_cannot_be_read(
    serve: Serve, submission: Submission, answer: Answer, expected: type[Exception]
) -> None:
    provider, _ = serve("together", answer)
    with pytest.raises(expected, match=r"upload tag-b1\.jsonl"):
        provider.upload(submission)


def test_a_batch_file_that_is_gone_is_a_file_error(serve: Serve, submission: Submission, tmp_path: Path) -> None:
    provider, _ = serve("together", routes({}))
    with pytest.raises(FileError, match="absent"):
        provider.upload(replace(submission, path=tmp_path / "absent.jsonl"))


# ---- create, find, snapshot ----------------------------------------------------------------------------------------


def test_create_answers_with_a_job_whatever_form_the_address_has(submission: Submission) -> None:
    for suffix in ("", "/", "/v1", "/v1/"):
        with Loopback(reply({"job": {"id": "job-1"}, "warning": "w"}, 201)) as server:
            provider = connect("together", Access(KEY, server.url + suffix))
            assert provider.create(submission) == "job-1"
            provider.close()  # type: ignore[attr-defined]
        assert [call.path for call in server.calls] == ["/v1/batches"]
    sent = json.loads(server.calls[0].body)
    assert sent == {"endpoint": "/v1/chat/completions", "input_file_id": "file-in", "completion_window": "24h"}


@pytest.mark.parametrize(
    "answer", [reply({}, 500), reply({}, 409), reply({"warning": "no job"}), Answer(drop=True), Answer(hold=True)]
)
def test_create_is_one_post(serve: Serve, submission: Submission, answer: Answer) -> None:
    provider, server = serve("together", answer, timeout=0.2 if answer.hold else 10.0)
    with pytest.raises(AmbiguousCallError, match="batch b1"):
        provider.create(submission)
    assert server.called.wait(10.0)  # a call that the client gave up may come in later
    assert server.posts() == 1


def job(name: str, created: str | None, file: str = "file-in") -> dict[str, object]:
    return {"id": name, "input_file_id": file, "created_at": created, "status": "IN_PROGRESS"}


def test_find_goes_by_the_input_file_also_of_a_job_without_a_time_or_an_id(
    serve: Serve, submission: Submission
) -> None:
    jobs = [
        job("ours", "2027-01-15T08:00:30.123456789Z"),
        job("long before", "2027-01-12T00:00:00Z"),
        job("other file", "2027-01-15T08:00:30Z", "file-x"),
        job("no time", None),
        job("", None),
        job(None, None),
        job(7, None),
    ]
    provider, _ = serve("together", reply(jobs))
    found = provider.find(submission)
    assert [one.provider_id for one in found] == ["ours", "long before", "no time", "", "", ""]
    assert all(one.certain for one in found)
    assert provider.find(replace(submission, input_ref=None)) == []


def test_a_listing_with_what_is_no_job_is_an_error_not_an_absence(serve: Serve, submission: Submission) -> None:
    provider, _ = serve("together", reply([job("ours", None), "not a job"]))
    with pytest.raises(ProviderReplyError, match="no batch"):
        provider.find(submission)


def test_no_jobs_at_all_is_an_empty_listing_and_an_object_is_an_error(serve: Serve, submission: Submission) -> None:
    provider, _ = serve("together", reply(None))
    assert provider.find(submission) == []
    provider, _ = serve("together", reply({"error": "odd"}))
    with pytest.raises(ProviderReplyError, match="not a list"):
        provider.find(submission)


@pytest.mark.parametrize("status", list(TOGETHER.status_map))
def test_every_documented_status_is_read(serve: Serve, status: str) -> None:
    provider, _ = serve("together", reply({"id": "j", "status": status, "output_file_id": "out", "error_file_id": ""}))
    snapshot = provider.snapshot("j")
    ended = snapshot.state is Lifecycle.ENDED
    assert (snapshot.results_ref, snapshot.errors_ref) == ("out" if ended else None, None)


@pytest.mark.parametrize(
    ("error", "message", "error_class"),
    [
        ("Invalid JSON on line 3", "Invalid JSON on line 3", ErrorClass.INVALID_REQUEST),
        ("model is not supported", "model is not supported", ErrorClass.INVALID_REQUEST),
        ("enqueued tokens above the limit", "enqueued tokens above the limit", ErrorClass.RATE_LIMITED),
        ("something broke", "something broke", ErrorClass.PROVIDER_FAULT),
        ("", "the provider gave no reason", ErrorClass.PROVIDER_FAULT),
        (None, "the provider gave no reason", ErrorClass.PROVIDER_FAULT),
    ],
)
def test_a_failed_job_says_why(serve: Serve, error: str | None, message: str, error_class: ErrorClass) -> None:
    provider, _ = serve("together", reply({"id": "j", "status": "FAILED", "error": error}))
    snapshot = provider.snapshot("j")
    assert snapshot.outcome is BatchOutcome.FAILED
    assert (snapshot.message, snapshot.error_class) == (message, error_class)


def test_cancelling_what_has_ended_is_no_error(serve: Serve) -> None:
    provider, server = serve(
        "together", routes({"POST /v1/batches/j/cancel": reply({}, 409), "GET /v1/batches/j": {"status": "COMPLETED"}})
    )
    provider.cancel("j")
    assert server.posts() == 1
