"""Gemini's dialect on the wire: operations as the API sends them, an upload that may be repeated."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from layton_batch.errors import (
    FileError,
    MissingKeyError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
    UnknownStatusError,
)
from layton_batch.providers.gemini import Gemini
from layton_batch.providers.protocol import Access, CallLimits
from layton_batch.providers.request_line import request_line
from layton_batch.providers.wire_errors import concerns_account
from layton_batch.records import (
    JsonValue,
    Submission,
)
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .test_gemini_forms import OFFLINE, request


@pytest.fixture
def made() -> Iterator[list[Gemini]]:
    opened: list[Gemini] = []
    yield opened
    for provider in opened:
        provider.close()


def connected(server: Loopback, made: list[Gemini]) -> Gemini:
    provider = Gemini(Access("secret-key", f"{server.url}/gemini/", CallLimits(5.0)))
    made.append(provider)
    return provider


def submission(folder: Path, input_ref: str | None = None) -> Submission:
    path = folder / "shard.jsonl"
    path.write_bytes(request_line(OFFLINE, request()) + b"\n")
    return Submission("b", "lb-tag", path, path.name, "0" * 64, 1, "gemini-3-flash-preview", input_ref)


def told(value: JsonValue, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


# ---- uploading


def uploads(start: Answer | None = None, existing: JsonValue = None) -> Callable[[HandlerCall], Answer]:
    """A resumable upload; ``start`` instead of the first reply; ``existing`` is the file that a GET finds."""

    def answer(call: HandlerCall) -> Answer:
        if call.method == "GET":
            return told(existing) if existing is not None else told({"error": {"code": 403, "message": "no"}}, 403)
        if call.headers.get("x-goog-upload-command") == "start":
            if start is not None:
                return start
            # the host of the reply is not ours: the data must come here all the same
            return Answer(headers={"x-goog-upload-url": "http://192.0.2.1:9/gemini/upload/session"})
        return Answer(body=b'{"file": {"name": "files/x"}}', headers={"x-goog-upload-status": "final"})

    return answer


def test_upload_names_the_file_itself_and_keeps_to_the_address(tmp_path: Path, made: list[Gemini]) -> None:
    with Loopback(uploads()) as server:
        name = connected(server, made).upload(submission(tmp_path))
    start, data = server.calls
    assert name is not None
    assert re.fullmatch(r"files/[a-z0-9-]{1,40}", name)
    assert start.path == "/gemini/upload/v1/files"
    described = json.loads(start.body)["file"]
    assert described["name"] == name
    assert "lb-tag" in described.values()
    assert start.headers["x-goog-upload-header-content-type"] == "application/jsonl"
    assert (data.path, data.body) == ("/gemini/upload/session", (tmp_path / "shard.jsonl").read_bytes())


@pytest.mark.parametrize("status", [400, 409])
def test_a_second_upload_finds_the_first(tmp_path: Path, made: list[Gemini], status: int) -> None:
    ours = submission(tmp_path)
    size = str(ours.path.stat().st_size)
    refused = told({"error": {"code": status, "message": "already exists"}}, status)
    with Loopback(uploads()) as server:
        first = connected(server, made).upload(ours)
    with Loopback(uploads(refused, {"name": first, "sizeBytes": size, "state": "ACTIVE"})) as server:
        assert connected(server, made).upload(ours) == first
    assert server.calls[-1].path == f"/gemini/v1/{first}"


@pytest.mark.parametrize("existing", [None, {"sizeBytes": "1", "state": "ACTIVE"}])
def test_a_refused_upload_without_a_first_stays_refused(
    tmp_path: Path, made: list[Gemini], existing: JsonValue
) -> None:
    refused = told({"error": {"code": 400, "message": "bad file"}}, 400)
    with Loopback(uploads(refused, existing)) as server, pytest.raises(RequestRefusedError, match="bad file"):
        connected(server, made).upload(submission(tmp_path))


def test_names_differ_by_tag(tmp_path: Path, made: list[Gemini]) -> None:
    ours = submission(tmp_path)
    with Loopback(uploads()) as server:
        provider = connected(server, made)
        assert provider.upload(ours) == provider.upload(ours)
        assert provider.upload(ours) != provider.upload(dataclasses.replace(ours, tag="another"))


def test_a_missing_batch_file_is_no_call(tmp_path: Path, made: list[Gemini]) -> None:
    gone = Submission("b", "t", tmp_path / "gone", "gone", "0", 1, "m")
    with Loopback(Answer()) as server, pytest.raises(FileError, match="gone"):
        connected(server, made).upload(gone)
    assert server.calls == []


# ---- creating


def test_create_posts_once_with_our_tag(tmp_path: Path, made: list[Gemini]) -> None:
    reply = {"name": "batches/b-1", "metadata": {"state": "BATCH_STATE_PENDING", "name": "batches/b-1"}}
    with Loopback(told(reply)) as server:
        assert connected(server, made).create(submission(tmp_path, "files/in-1")) == "batches/b-1"
    (call,) = server.calls
    assert call.path == "/gemini/v1/models/gemini-3-flash-preview:batchGenerateContent"
    assert call.headers["x-goog-api-key"] == "secret-key"
    assert json.loads(call.body) == {"batch": {"displayName": "lb-tag", "inputConfig": {"fileName": "files/in-1"}}}


def test_create_wants_an_upload_first(tmp_path: Path, made: list[Gemini]) -> None:
    with Loopback(Answer()) as server, pytest.raises(ProviderError, match="not uploaded"):
        connected(server, made).create(submission(tmp_path))
    assert server.calls == []


def test_without_a_key_the_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingKeyError, match="GEMINI_API_KEY"):
        OFFLINE.upload(submission(tmp_path))


# ---- reading


def operation(
    state: str | None, name: str = "batches/b-1", tag: str = "lb-tag", **fields: JsonValue
) -> dict[str, JsonValue]:
    stats = {"requestCount": "4", "pendingRequestCount": "0", "successfulRequestCount": "3", "failedRequestCount": "1"}
    metadata = {"displayName": tag, "state": state, "createTime": "1970-01-12T13:46:40.5Z", "batchStats": stats}
    return {"name": name, "metadata": metadata, **fields}


def snapshot_of(made: list[Gemini], reading: JsonValue) -> Any:
    with Loopback(told(reading)) as server:
        found = connected(server, made).snapshot("batches/b-1")
    assert [call.path for call in server.calls] == ["/gemini/v1/batches/b-1"]
    return found


def test_a_finished_batch_shows_counts_and_its_file(made: list[Gemini]) -> None:
    found = snapshot_of(made, operation("BATCH_STATE_SUCCEEDED", response={"responsesFile": "files/batch-r"}))
    assert (found.state, found.outcome) == (Lifecycle.ENDED, BatchOutcome.COMPLETED)
    assert (found.total, found.succeeded, found.failed, found.results_ref) == (4, 3, 1, "files/batch-r")


def test_a_failed_batch_says_why(made: list[Gemini]) -> None:
    found = snapshot_of(made, operation("BATCH_STATE_FAILED", done=True, error={"code": 8, "message": "quota"}))
    assert (found.outcome, found.message, found.error_class) == (BatchOutcome.FAILED, "quota", ErrorClass.RATE_LIMITED)


@pytest.mark.parametrize(
    ("word", "state", "outcome"),
    [
        ("BATCH_STATE_PENDING", Lifecycle.IN_FLIGHT, None),
        ("JOB_STATE_RUNNING", Lifecycle.IN_FLIGHT, None),
        ("JOB_STATE_CANCELLING", Lifecycle.CANCELLING, None),
        ("BATCH_STATE_CANCELLED", Lifecycle.ENDED, BatchOutcome.CANCELLED),
        ("BATCH_STATE_EXPIRED", Lifecycle.ENDED, BatchOutcome.EXPIRED),
    ],
)
def test_states(made: list[Gemini], word: str, state: Lifecycle, outcome: BatchOutcome | None) -> None:
    found = snapshot_of(made, operation(word))
    assert (found.state, found.outcome, found.results_ref, found.provider_status) == (state, outcome, None, word)


@pytest.mark.parametrize("output", [{}, {"inlinedResponses": {"inlinedResponses": [{"response": {}}]}}])
def test_success_without_a_file_tells_no_more_than_a_word_nobody_knows(made: list[Gemini], output: JsonValue) -> None:
    with pytest.raises(UnknownStatusError, match="names no results file") as caught:
        snapshot_of(made, operation("BATCH_STATE_SUCCEEDED", response=output))
    assert caught.value.code == "BATCH_STATE_SUCCEEDED without results"


def test_success_without_a_file_of_which_every_request_failed_is_a_failure(made: list[Gemini]) -> None:
    reading = operation("BATCH_STATE_SUCCEEDED", response={})
    reading["metadata"]["batchStats"] = {"requestCount": "4", "failedRequestCount": "4"}  # type: ignore[index, call-overload]
    found = snapshot_of(made, reading)
    assert (found.outcome, found.results_ref, found.succeeded) == (BatchOutcome.FAILED, None, 0)


@pytest.mark.parametrize("count", ["many", [], -1, None])
def test_counts_that_are_none_do_not_say_that_nothing_was_answered(made: list[Gemini], count: JsonValue) -> None:
    reading = operation("BATCH_STATE_SUCCEEDED", response={"responsesFile": "files/batch-r"})
    reading["metadata"]["batchStats"] = {"requestCount": count, "successfulRequestCount": count}  # type: ignore[index, call-overload]
    found = snapshot_of(made, reading)
    assert (found.total, found.succeeded) == (None, None)


@pytest.mark.parametrize("reading", [{}, {"name": "batches/b-1", "metadata": 5}, []])
def test_an_operation_of_another_form_is_refused(made: list[Gemini], reading: JsonValue) -> None:
    with pytest.raises(ProviderReplyError):
        snapshot_of(made, reading)


def test_find_reads_every_page_for_our_tag(tmp_path: Path, made: list[Gemini]) -> None:
    def answer(call: HandlerCall) -> Answer:
        if "pageToken=p2" in call.path:
            return told({"operations": [operation("BATCH_STATE_RUNNING", "batches/ours")]})
        return told({"operations": [operation("BATCH_STATE_RUNNING", tag="other")], "nextPageToken": "p2"})

    with Loopback(answer) as server:
        (found,) = connected(server, made).find(submission(tmp_path))
    assert (found.provider_id, found.certain, found.created_at) == ("batches/ours", True, 1_000_000.5)


def test_a_batch_that_shows_nothing_of_itself_may_be_ours(tmp_path: Path, made: list[Gemini]) -> None:
    listed = {"operations": [{"name": "batches/bare"}, operation("BATCH_STATE_RUNNING", "batches/b", tag="another")]}
    with Loopback(told(listed)) as server:
        (found,) = connected(server, made).find(submission(tmp_path))
    assert (found.provider_id, found.certain, found.may_tell) == ("batches/bare", False, False)


def test_a_batch_of_ours_without_a_name_is_not_passed_over(tmp_path: Path, made: list[Gemini]) -> None:
    """It is there and cannot be named; one that shows nothing at all makes the list unreadable."""
    with Loopback(told({"operations": [operation("BATCH_STATE_RUNNING", "")]})) as server:
        (found,) = connected(server, made).find(submission(tmp_path))
        assert (found.provider_id, found.certain) == ("", True)
    listed: dict[str, object] = {"operations": [{"name": ""}]}
    with Loopback(told(listed)) as server, pytest.raises(ProviderReplyError, match="without a name"):
        connected(server, made).find(submission(tmp_path))


# ---- who may call


@pytest.mark.parametrize(
    ("status", "word", "reason", "said", "is_of_account"),
    [
        (400, "INVALID_ARGUMENT", "API_KEY_INVALID", "API key not valid. Please pass a valid API key.", True),
        (400, "FAILED_PRECONDITION", None, "Free tier is not available in your country. Please enable billing.", True),
        (400, "INVALID_ARGUMENT", None, "Request contains an invalid argument about an API key and billing.", False),
        (404, "NOT_FOUND", None, "models/x is not found for API version v1", False),
    ],
)
def test_a_key_or_an_account_that_cannot_be_used_is_told_from_a_bad_request(
    tmp_path: Path, made: list[Gemini], status: int, word: str, reason: str | None, said: str, is_of_account: bool
) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}] if reason else []
    error = {"code": status, "status": word, "message": said, "details": details}
    refused = told({"error": error}, status)
    with Loopback(refused) as server:
        provider = connected(server, made)
        ours = dataclasses.replace(submission(tmp_path, "files/in-1"), batch_id="billing.of.an-API-key")
        for call in (lambda: provider.create(ours), lambda: provider.snapshot("batches/b-1")):
            with pytest.raises(RequestRefusedError, match=re.escape(said)) as caught:
                call()
            assert concerns_account(status, caught.value.code, str(caught.value)) is is_of_account


def test_results_are_streamed_from_the_file(made: list[Gemini]) -> None:
    results = b"".join(b'{"key": "k-%d"}\n' % number for number in range(200_000))

    def answer(call: HandlerCall) -> Answer:
        if call.path == "/gemini/v1/files/batch-r:download?alt=media":
            return Answer(body=results)
        return told(operation("BATCH_STATE_SUCCEEDED", response={"responsesFile": "files/batch-r"}))

    with Loopback(answer) as server:
        provider = connected(server, made)
        (part,) = provider.results(provider.snapshot("batches/b-1"))
        chunks = list(part.chunks)
    assert b"".join(chunks) == results
    assert max(len(chunk) for chunk in chunks) <= 1 << 20


@pytest.mark.parametrize(("status", "error"), [(404, RequestRefusedError), (502, TransientProviderError)])
def test_a_download_that_fails_says_so(made: list[Gemini], status: int, error: type[ProviderError]) -> None:
    def answer(call: HandlerCall) -> Answer:
        if "download" in call.path:
            return told({"error": {"code": status, "message": "gone away"}}, status)
        return told(operation("BATCH_STATE_SUCCEEDED", response={"responsesFile": "files/batch-r"}))

    with Loopback(answer) as server:
        provider = connected(server, made)
        (part,) = provider.results(provider.snapshot("batches/b-1"))
        with pytest.raises(error, match="gone away"):
            list(part.chunks)


def test_cancel_posts_to_the_batch(made: list[Gemini]) -> None:
    with Loopback(Answer()) as server:
        connected(server, made).cancel("batches/b-1")
    assert [(call.method, call.path) for call in server.calls] == [("POST", "/gemini/v1/batches/b-1:cancel")]
