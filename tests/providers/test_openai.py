"""The OpenAI dialect over a server, and with it what all OpenAI-shaped dialects share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.providers import connect
from layton_batch.providers.protocol import Access, CallLimits
from layton_batch.records import Snapshot, Submission, Usage
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall

from .conftest import KEY, Serve, reply, routes

OPENAI = connect("openai", None)

# ---- snapshot ------------------------------------------------------------------------------------------------------


def polled(serve: Serve, batch: dict[str, object]) -> Snapshot:
    provider, _ = serve("openai", routes({"GET /v1/batches/batch_1": {"id": "batch_1", **batch}}))
    return provider.snapshot("batch_1")


@pytest.mark.parametrize("status", list(OPENAI.status_map))
def test_every_documented_status_is_read(serve: Serve, status: str) -> None:
    snapshot = polled(serve, {"status": status, "output_file_id": "file-out", "error_file_id": ""})
    assert snapshot.provider_status == status
    assert snapshot.results_ref == ("file-out" if snapshot.state is Lifecycle.ENDED else None)
    assert snapshot.errors_ref is None


def test_the_batchs_own_count_of_tokens_is_read(serve: Serve) -> None:
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    assert polled(serve, {"status": "completed", "usage": usage}).stated_usage == Usage(7, 0, 5)
    assert polled(serve, {"status": "completed", "usage": None}).stated_usage is None


def test_a_batch_whose_rows_all_failed_has_only_an_error_file(serve: Serve) -> None:
    counts = {"total": 3, "completed": 0, "failed": 3}
    files = {"output_file_id": None, "error_file_id": "file-err"}
    snapshot = polled(serve, {"status": "completed", **files, "request_counts": counts, "errors": None})
    assert (snapshot.outcome, snapshot.results_ref, snapshot.errors_ref) == (BatchOutcome.COMPLETED, None, "file-err")
    assert (snapshot.total, snapshot.succeeded, snapshot.failed) == (3, 0, 3)
    assert snapshot.error_class is ErrorClass.NONE


ENTRIES = [
    {"code": "invalid_json_line", "line": 3, "message": "This line is\x1b[2J not JSON."},
    *({"code": "x", "message": f"m{number}"} for number in range(9)),
]


@pytest.mark.parametrize("errors", [{"object": "list", "data": ENTRIES}, ENTRIES])
def test_a_failed_batch_says_its_first_errors(serve: Serve, errors: object) -> None:
    snapshot = polled(serve, {"status": "failed", "errors": errors})
    assert snapshot.message == "line 3: invalid_json_line: This line is [2J not JSON.; x: m0; x: m1"
    assert snapshot.error_class is ErrorClass.INVALID_REQUEST


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        ("token_limit_exceeded", ErrorClass.RATE_LIMITED),
        ("model_not_found", ErrorClass.INVALID_REQUEST),
        ("mismatched_model", ErrorClass.INVALID_REQUEST),
        ("model_mismatch", ErrorClass.INVALID_REQUEST),
        ("invalid_url", ErrorClass.INVALID_REQUEST),
        ("url_mismatch", ErrorClass.INVALID_REQUEST),
        ("too_many_tasks", ErrorClass.TOO_LARGE),
        ("invalid_request", ErrorClass.INVALID_REQUEST),
        ("server_error", ErrorClass.PROVIDER_FAULT),
    ],
)
def test_why_a_batch_failed_decides_what_is_done_about_it(serve: Serve, code: str, error_class: ErrorClass) -> None:
    assert polled(serve, {"status": "failed", "errors": {"data": [{"code": code}]}}).error_class is error_class


def test_a_failed_batch_without_a_reason_is_the_providers_fault(serve: Serve) -> None:
    snapshot = polled(serve, {"status": "failed", "errors": None})
    assert (snapshot.message, snapshot.error_class) == ("the provider gave no reason", ErrorClass.PROVIDER_FAULT)


def test_a_reply_without_a_status_or_not_json_is_a_reply_error(serve: Serve) -> None:
    with pytest.raises(ProviderReplyError, match="shows no status"):
        polled(serve, {})
    provider, _ = serve("openai", Answer(200, b"<html>", {"content-type": "text/html"}))
    with pytest.raises(ProviderReplyError, match="not JSON"):
        provider.snapshot("batch_1")


def test_an_unknown_batch_is_not_found(serve: Serve) -> None:
    provider, _ = serve("openai", routes({}))
    with pytest.raises(NotFoundError, match="poll batch batch_9: HTTP 404: no route"):
        provider.snapshot("batch_9")


# ---- upload, create ------------------------------------------------------------------------------------------------


def test_upload_sends_the_file_under_its_own_name(serve: Serve, submission: Submission) -> None:
    provider, server = serve("openai", routes({"GET /v1/files": {"data": []}, "POST /v1/files": {"id": "file-9"}}))
    assert provider.upload(submission) == "file-9"
    sent = server.calls[-1]
    assert b'filename="tag-b1.jsonl"' in sent.body
    assert submission.path.read_bytes() in sent.body
    assert b"\r\n\r\nbatch\r\n" in sent.body
    assert sent.headers["authorization"] == f"Bearer {KEY}"


def test_an_interrupted_upload_is_taken_up_again(serve: Serve, submission: Submission) -> None:
    size = submission.path.stat().st_size
    files = [
        {"id": "other-size", "filename": "tag-b1.jsonl", "bytes": size + 1, "purpose": "batch"},
        {"id": "other-name", "filename": "tag-b2.jsonl", "bytes": size, "purpose": "batch"},
        {"id": "other-purpose", "filename": "tag-b1.jsonl", "bytes": size, "purpose": "batch_output"},
        {"id": "broken", "filename": "tag-b1.jsonl", "bytes": size, "purpose": "batch", "status": "error"},
        {"id": "ours", "filename": "tag-b1.jsonl", "bytes": size, "purpose": "batch", "status": "processed"},
    ]
    provider, server = serve("openai", routes({"GET /v1/files": {"data": files}}))
    assert provider.upload(submission) == "ours"
    assert server.posts() == 0


def test_a_batch_file_that_is_gone_is_a_file_error(serve: Serve, submission: Submission, tmp_path: Path) -> None:
    provider, server = serve("openai", routes({}))
    with pytest.raises(FileError, match="absent"):
        provider.upload(replace(submission, path=tmp_path / "absent.jsonl"))
    assert server.calls == []


def test_a_failed_upload_is_transient(serve: Serve, submission: Submission) -> None:
    provider, _ = serve("openai", routes({"GET /v1/files": {"data": []}, "POST /v1/files": reply({}, 500)}))
    with pytest.raises(TransientProviderError):
        provider.upload(submission)


def test_create_sends_the_tag_and_the_window(serve: Serve, submission: Submission) -> None:
    provider, server = serve("openai", routes({"POST /v1/batches": {"id": "batch_1"}}))
    assert provider.create(submission) == "batch_1"
    assert json.loads(server.calls[0].body) == {
        "completion_window": "24h",
        "endpoint": "/v1/chat/completions",
        "input_file_id": "file-in",
        "metadata": {"layton_batch": "tag-b1"},
    }


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (reply({"error": {"message": "boom"}}, 500), AmbiguousCallError),
        (reply({}, 503, **{"x-should-retry": "true", "retry-after": "0"}), AmbiguousCallError),
        (reply({}, 408), AmbiguousCallError),
        (reply({}, 409), AmbiguousCallError),
        (reply({}, 423), AmbiguousCallError),
        (reply({"error": {"code": 499, "status": "CANCELLED"}}, 499), AmbiguousCallError),
        (reply({}, 429), TransientProviderError),
        (reply({}, 400), RequestRefusedError),
        (reply({}, 404), NotFoundError),
        (reply({"no": "id"}), AmbiguousCallError),
        (reply(["a list"]), AmbiguousCallError),
        (Answer(drop=True), AmbiguousCallError),
        (Answer(hold=True), AmbiguousCallError),
    ],
)
def test_create_is_one_post_and_says_whether_it_may_have_happened(
    serve: Serve, submission: Submission, answer: Answer, expected: type[ProviderError]
) -> None:
    provider, server = serve("openai", answer, timeout=0.2 if answer.hold else 10.0)
    with pytest.raises(expected) as caught:
        provider.create(submission)
    assert type(caught.value) is expected
    assert server.called.wait(10.0)  # a call that the client gave up may come in later
    assert server.posts() == 1
    assert "batch b1" in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_refused_connection_did_nothing(submission: Submission) -> None:
    provider = connect("openai", Access(KEY, "http://127.0.0.1:1/v1", CallLimits(2.0)))
    with pytest.raises(TransientProviderError, match="nothing was sent"):
        provider.create(submission)
    provider.close()  # type: ignore[attr-defined]


def test_create_without_an_upload_is_refused_here(serve: Serve, submission: Submission) -> None:
    provider, server = serve("openai", routes({}))
    with pytest.raises(ProviderError, match="not uploaded"):
        provider.create(replace(submission, input_ref=None))
    assert server.calls == []


# ---- find, results, cancel -----------------------------------------------------------------------------------------

NOW = 1_800_000_000


def listed(name: str, created: int, tag: str | None = None, file: str = "file-x") -> dict[str, object]:
    return {"id": name, "created_at": created, "metadata": tag and {"layton_batch": tag}, "input_file_id": file}


def test_find_goes_by_tag_then_by_input_file_over_all_pages(serve: Serve, submission: Submission) -> None:
    first = [listed("newest", NOW + 9, "tag-b2"), listed("tagged", NOW + 5, "tag-b1"), listed("untagged", NOW + 4)]
    second = [
        listed("by-file", NOW + 3, None, "file-in"),
        listed("other attempt", NOW + 2, "tag-b0", "file-in"),
        {"id": None, "metadata": {"layton_batch": "tag-b1"}},
        listed("a year ago", NOW - 365 * 86_400),
        listed("made while our clock was ahead", NOW - 31 * 86_400, "tag-b1"),
    ]
    provider, server = serve(
        "openai",
        routes({
            "GET /v1/batches": {"data": first, "has_more": True, "last_id": "untagged"},
            "GET /v1/batches?after=untagged&limit=100": {"data": second, "has_more": False},
        }),
    )  # fmt: skip
    found = provider.find(submission)
    assert [(one.provider_id, one.certain, one.created_at) for one in found] == [
        ("tagged", True, NOW + 5.0),
        ("by-file", True, NOW + 3.0),
        ("", True, None),  # it is ours and has no name
        ("made while our clock was ahead", True, NOW - 31 * 86_400.0),
    ]
    assert len(server.calls) == 2


def test_batches_without_an_input_file_are_not_taken_for_one_that_was_never_uploaded(
    serve: Serve, submission: Submission
) -> None:
    nameless: dict[str, object] = {"id": "x", "created_at": NOW, "input_file_id": None}
    provider, _ = serve("openai", reply({"data": [nameless], "has_more": False}))
    assert provider.find(replace(submission, input_ref=None)) == []


@pytest.mark.parametrize("page", [{"last_id": "x"}, {"last_id": None}, {}])
def test_a_listing_that_goes_nowhere_is_an_error_not_an_absence(
    serve: Serve, submission: Submission, page: dict[str, object]
) -> None:
    provider, server = serve("openai", reply({"data": [listed("x", NOW)], "has_more": True, **page}))
    with pytest.raises(ProviderReplyError, match="next page"):
        provider.find(submission)
    assert len(server.calls) <= 2


def test_a_listing_without_data_is_an_error_not_an_absence(serve: Serve, submission: Submission) -> None:
    provider, _ = serve("openai", reply({"object": "list"}))
    with pytest.raises(ProviderReplyError, match="no list of objects"):
        provider.find(submission)


@pytest.mark.parametrize("row", [None, "batch_1", 7, ["batch_1"]])
def test_a_listing_with_what_is_no_batch_is_an_error_not_an_absence(
    serve: Serve, submission: Submission, row: object
) -> None:
    provider, _ = serve("openai", reply({"data": [row], "has_more": False}))
    with pytest.raises(ProviderReplyError, match="no list of objects"):
        provider.find(submission)


def snapshot(results: str | None, errors: str | None) -> Snapshot:
    return Snapshot("batch_1", "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, results, errors)


def test_both_files_are_streamed_and_absent_ones_left_out(serve: Serve) -> None:
    body = bytes(range(256)) * 2000
    provider, _ = serve(
        "openai", routes({"GET /file-out/content": Answer(200, body), "GET /file-err/content": Answer(200, b"e")})
    )
    parts = {part.kind: list(part.chunks) for part in provider.results(snapshot("file-out", "file-err"))}
    assert b"".join(parts["output"]) == body
    assert max(map(len, parts["output"])) <= 65_536
    assert parts["errors"] == [b"e"]
    assert list(provider.results(snapshot(None, ""))) == []


@pytest.mark.parametrize("answer", [reply({}, 502), Answer(drop=True), Answer(200, b"half", {"content-length": "99"})])
def test_a_broken_download_can_be_repeated(serve: Serve, answer: Answer) -> None:
    provider, _ = serve("openai", answer)
    part = next(iter(provider.results(snapshot("file-out", None))))
    with pytest.raises(TransientProviderError, match="download file-out"):
        list(part.chunks)


def test_a_download_that_is_given_up_lets_go_of_its_connection(serve: Serve) -> None:
    provider, _ = serve("openai", Answer(200, b"x" * 500_000))
    part = next(iter(provider.results(snapshot("file-out", None))))
    next(part.chunks)
    part.chunks.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("status", ["completed", "cancelling", "cancelled", "failed"])
@pytest.mark.parametrize("refusal", [400, 409])
def test_cancelling_what_has_ended_is_no_error(serve: Serve, status: str, refusal: int) -> None:
    provider, _ = serve(
        "openai",
        routes({"POST /batches/batch_1/cancel": reply({}, refusal), "GET /batches/batch_1": {"status": status}}),
    )
    provider.cancel("batch_1")


def test_a_cancel_refused_while_the_batch_runs_is_an_error(serve: Serve) -> None:
    provider, _ = serve(
        "openai",
        routes({"POST /batches/batch_1/cancel": reply({}, 400), "GET /batches/batch_1": {"status": "in_progress"}}),
    )
    with pytest.raises(RequestRefusedError, match="cancel batch batch_1"):
        provider.cancel("batch_1")


def test_a_cancel_that_fails_can_be_repeated(serve: Serve) -> None:
    def answer(call: HandlerCall) -> Answer:
        return reply({}, 500)

    provider, server = serve("openai", answer)
    with pytest.raises(TransientProviderError):
        provider.cancel("batch_1")
    assert len(server.calls) == 1
