"""Mistral's dialect on the wire: its tag in metadata, its two result files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    MissingKeyError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.files.digests import file_digest
from layton_batch.providers.mistral import Mistral
from layton_batch.providers.protocol import Access, CallLimits
from layton_batch.providers.request_line import request_line
from layton_batch.records import (
    JsonValue,
    Submission,
)
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .test_mistral_forms import OFFLINE, request

NOW = 1_000_000.0


@pytest.fixture
def made() -> Iterator[list[Mistral]]:
    opened: list[Mistral] = []
    yield opened
    for provider in opened:
        provider.close()


def connected(server: Loopback, made: list[Mistral]) -> Mistral:
    provider = Mistral(Access("secret-key", f"{server.url}/mistral", CallLimits(5.0)))
    made.append(provider)
    return provider


def submission(folder: Path, input_ref: str | None = None) -> Submission:
    path = folder / "shard-7.jsonl"
    path.write_bytes(request_line(OFFLINE, request()) + b"\n")
    return Submission(
        "b",
        "lb-tag",
        path,
        path.name,
        file_digest(path, "").sha256,
        1,
        "mistral-large-2512",
        input_ref,
        intended_at=NOW,
    )


def told(value: JsonValue, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


def job(status: str = "RUNNING", **fields: JsonValue) -> dict[str, JsonValue]:
    base: dict[str, JsonValue] = {
        "id": "job-1", "object": "batch", "input_files": ["file-in"], "endpoint": "/v1/chat/completions",
        "model": "mistral-large-2512", "agent_id": None, "metadata": {"layton_batch": "lb-tag"}, "status": status,
        "errors": [], "created_at": int(NOW) + 1, "started_at": None, "completed_at": None, "total_requests": 4,
        "completed_requests": 4, "succeeded_requests": 3, "failed_requests": 1, "output_file": None, "error_file": None,
    }  # fmt: skip
    return base | fields


def file(**fields: JsonValue) -> dict[str, JsonValue]:
    base: dict[str, JsonValue] = {
        "id": "file-in", "object": "file", "bytes": 5, "created_at": 1, "filename": "shard-7.jsonl", "purpose": "batch",
        "sample_type": "batch_request", "source": "upload", "num_lines": 1, "expires_at": None,
    }  # fmt: skip
    return base | fields


# ---- uploading


def test_upload_streams_the_file_under_its_name(tmp_path: Path, made: list[Mistral]) -> None:
    def answer(call: HandlerCall) -> Answer:
        return told(file()) if call.method == "POST" else told({"data": [], "object": "list", "total": 0})

    with Loopback(answer) as server:
        assert connected(server, made).upload(submission(tmp_path)) == "file-in"
    looked, sent = server.calls
    assert looked.path.startswith("/mistral/v1/files?")
    assert "search=shard-7.jsonl" in looked.path
    assert sent.headers["authorization"] == "Bearer secret-key"
    for piece in (b'filename="shard-7.jsonl"', b'name="purpose"', (tmp_path / "shard-7.jsonl").read_bytes()):
        assert piece in sent.body


def test_upload_takes_what_an_interrupted_one_left(tmp_path: Path, made: list[Mistral]) -> None:
    ours = submission(tmp_path)
    size = ours.path.stat().st_size
    listed = [file(id="short", bytes=size - 1), file(id="other", bytes=size, filename="shard-70.jsonl")]
    with Loopback(told({"data": [*listed, file(id="left", bytes=size)], "object": "list", "total": 3})) as server:
        assert connected(server, made).upload(ours) == "left"
    assert server.posts() == 0


def test_a_file_the_provider_does_not_like_is_refused(tmp_path: Path, made: list[Mistral]) -> None:
    def answer(call: HandlerCall) -> Answer:
        if call.method == "POST":
            return told({"detail": [{"loc": ["file"], "msg": "row 3: bad role", "type": "value_error"}]}, 422)
        return told({"data": [], "object": "list", "total": 0})

    with Loopback(answer) as server, pytest.raises(RequestRefusedError, match="bad role"):
        connected(server, made).upload(submission(tmp_path))


def test_a_missing_batch_file_is_no_call(tmp_path: Path, made: list[Mistral]) -> None:
    gone = Submission("b", "t", tmp_path / "gone", "gone", "0", 1, "m")
    with Loopback(Answer()) as server, pytest.raises(FileError, match="gone"):
        connected(server, made).upload(gone)
    assert server.calls == []


# ---- creating


def test_create_posts_once_with_our_tag(tmp_path: Path, made: list[Mistral]) -> None:
    with Loopback(told(job("QUEUED"))) as server:
        assert connected(server, made).create(submission(tmp_path, "file-in")) == "job-1"
    (call,) = server.calls
    assert call.path == "/mistral/v1/batch/jobs"
    asked = {key: value for key, value in json.loads(call.body).items() if value is not None}
    assert asked == {
        "input_files": ["file-in"],
        "endpoint": "/v1/chat/completions",
        "model": "mistral-large-2512",
        "metadata": {"layton_batch": "lb-tag"},
        "timeout_hours": 24,
    }


@pytest.mark.parametrize("answer", [{}, {"id": None}, {"id": 5}, {"object": "error", "message": "down"}, ["job-1"]])
def test_a_reply_that_is_no_job_may_hide_one(tmp_path: Path, made: list[Mistral], answer: JsonValue) -> None:
    with Loopback(told(answer)) as server, pytest.raises(AmbiguousCallError):
        connected(server, made).create(submission(tmp_path, "file-in"))


def test_create_wants_an_upload_first(tmp_path: Path, made: list[Mistral]) -> None:
    with Loopback(Answer()) as server, pytest.raises(ProviderError, match="not uploaded"):
        connected(server, made).create(submission(tmp_path))
    assert server.calls == []


def test_without_a_key_the_variable_is_named() -> None:
    with pytest.raises(MissingKeyError, match="MISTRAL_API_KEY"):
        OFFLINE.snapshot("job-1")


# ---- looking for a lost job


def found(tmp_path: Path, made: list[Mistral], *jobs: dict[str, JsonValue]) -> list[str]:
    with Loopback(told({"data": list(jobs), "object": "list", "total": len(jobs)})) as server:
        hits = connected(server, made).find(submission(tmp_path, "file-in"))
    assert all(hit.certain for hit in hits)
    assert "created_after=" not in server.calls[0].path  # our clock would say how far the list is read
    return [hit.provider_id for hit in hits]


def test_our_tag_decides(tmp_path: Path, made: list[Mistral]) -> None:
    other = job(id="other", metadata={"layton_batch": "another tag"})
    assert found(tmp_path, made, other, job()) == ["job-1"]


def test_where_metadata_is_not_shown_the_file_decides_whatever_the_time(tmp_path: Path, made: list[Mistral]) -> None:
    bare = job(id="bare", metadata=None)
    behind = job(id="clock-behind", metadata=None, created_at=int(NOW) - 7_200)
    another = job(id="another", metadata=None, input_files=["file-else"])
    assert found(tmp_path, made, bare, behind, another) == ["bare", "clock-behind"]


def test_find_turns_pages(tmp_path: Path, made: list[Mistral]) -> None:
    strangers = [job(id=f"s-{number}", metadata={"layton_batch": "x"}) for number in range(100)]

    def answer(call: HandlerCall) -> Answer:
        last = "page=1&" in f"{call.path}&"
        return told({"data": [job()] if last else strangers, "object": "list", "total": 101})

    with Loopback(answer) as server:
        (hit,) = connected(server, made).find(submission(tmp_path))
    assert (hit.provider_id, hit.created_at) == ("job-1", NOW + 1)
    assert [call.path.partition("?")[2][:7] for call in server.calls] == ["page=0&", "page=1&", "page=2&"]


# ---- reading


def snapshot_of(made: list[Mistral], reading: JsonValue) -> Any:
    with Loopback(told(reading)) as server:
        return connected(server, made).snapshot("job-1")


@pytest.mark.parametrize(
    ("word", "state", "outcome"),
    [
        ("QUEUED", Lifecycle.IN_FLIGHT, None),
        ("CANCELLATION_REQUESTED", Lifecycle.CANCELLING, None),
        ("SUCCESS", Lifecycle.ENDED, BatchOutcome.COMPLETED),
        ("TIMEOUT_EXCEEDED", Lifecycle.ENDED, BatchOutcome.EXPIRED),
        ("CANCELLED", Lifecycle.ENDED, BatchOutcome.CANCELLED),
    ],
)
def test_states_and_files(made: list[Mistral], word: str, state: Lifecycle, outcome: BatchOutcome | None) -> None:
    reading = snapshot_of(made, job(word, output_file="out", error_file="err"))
    assert (reading.state, reading.outcome) == (state, outcome)
    assert (reading.total, reading.succeeded, reading.failed) == (4, 3, 1)
    ended = state is Lifecycle.ENDED
    assert (reading.results_ref, reading.errors_ref) == (("out", "err") if ended else (None, None))


def test_a_failed_job_says_why(made: list[Mistral]) -> None:
    reading = snapshot_of(made, job("FAILED", errors=[{"message": "no such model", "count": 4}]))
    assert (reading.outcome, reading.message) == (BatchOutcome.FAILED, "no such model")
    assert (reading.error_class, reading.results_ref) == (ErrorClass.PROVIDER_FAULT, None)


ODD: dict[str, JsonValue] = {
    "no errors": {"errors": None},
    "errors as texts": {"errors": ["boom", None, 5]},
    "errors without words": {"errors": [{"count": 4}, {"message": None}]},
    "an inline job": {"input_files": None, "requests": [{"custom_id": "a"}]},
    "a time with a fraction": {"created_at": NOW + 1.5},
    "a time in words": {"created_at": "1970-01-12T13:46:41Z"},
    "no time": {"created_at": None},
    "no counts": dict.fromkeys(("total_requests", "succeeded_requests", "failed_requests", "completed_requests")),
    "another kind": {"object": "batch.job", "endpoint": None, "model": None},
    "nested metadata": {"metadata": {"layton_batch": "lb-tag", "a": {"b": [1]}}},
    "more than is documented": {"priority": {"of": ["a", 1]}, "outputs": [7]},
}
"""What jobs of this workspace, ours or others', may look like that is no reason to know nothing of them."""


@pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
def test_a_field_that_is_not_needed_hides_no_job(
    tmp_path: Path, made: list[Mistral], odd: dict[str, JsonValue]
) -> None:
    another = job(id="another", metadata={"layton_batch": "x"}) | {**odd, "metadata": {"layton_batch": "x"}}
    assert found(tmp_path, made, another, job()) == ["job-1"]
    assert found(tmp_path, made, another, job() | odd) == ["job-1"]
    reading = snapshot_of(made, job("SUCCESS", output_file="out") | odd)
    assert (reading.state, reading.outcome, reading.results_ref) == (Lifecycle.ENDED, BatchOutcome.COMPLETED, "out")
    with Loopback(told(job("QUEUED") | odd)) as server:
        provider = connected(server, made)
        assert provider.create(submission(tmp_path, "file-in")) == "job-1"
        provider.cancel("job-1")


def test_fields_left_out_hide_no_job_either(tmp_path: Path, made: list[Mistral]) -> None:
    bare: dict[str, JsonValue] = {"id": "job-1", "status": "RUNNING", "metadata": {"layton_batch": "lb-tag"}}
    assert found(tmp_path, made, {"id": "another"}, bare) == ["job-1"]
    reading = snapshot_of(made, bare)
    assert (reading.state, reading.total, reading.succeeded) == (Lifecycle.IN_FLIGHT, None, None)


def test_an_uploaded_file_with_odd_fields_is_taken(tmp_path: Path, made: list[Mistral]) -> None:
    ours = submission(tmp_path)
    odd = {"sample_type": "another", "source": None, "num_lines": "1", "created_at": "now"}
    left = file(id="left", bytes=ours.path.stat().st_size) | odd
    with Loopback(told({"data": [{"id": "other"}, left]})) as server:
        assert connected(server, made).upload(ours) == "left"
    with Loopback(lambda call: told(file() | odd if call.method == "POST" else {"data": []})) as server:
        assert connected(server, made).upload(ours) == "file-in"


@pytest.mark.parametrize("page", [{}, {"error": "down"}, {"data": None}])
def test_files_that_are_not_listed_are_not_sent_again(tmp_path: Path, made: list[Mistral], page: JsonValue) -> None:
    with Loopback(told(page)) as server, pytest.raises(ProviderReplyError):
        connected(server, made).upload(submission(tmp_path))
    assert server.posts() == 0


@pytest.mark.parametrize("reading", [{}, {"id": "job-1"}, {"id": "job-1", "status": None}, []])
def test_a_job_of_another_form_is_refused(made: list[Mistral], reading: JsonValue) -> None:
    with pytest.raises(ProviderReplyError):
        snapshot_of(made, reading)


@pytest.mark.parametrize("ref", [{"id": "out"}, ["out"], 7, False])
def test_a_file_named_in_another_form_is_not_taken_for_no_file(made: list[Mistral], ref: JsonValue) -> None:
    with pytest.raises(ProviderReplyError, match="output_file"):
        snapshot_of(made, job("SUCCESS", output_file=ref))
    assert snapshot_of(made, job("RUNNING", output_file=ref)).results_ref is None


def test_both_files_are_streamed(made: list[Mistral]) -> None:
    def answer(call: HandlerCall) -> Answer:
        if call.path.endswith("/content"):
            return Answer(body=call.path.encode() * 50_000, headers={"content-type": "application/octet-stream"})
        return told(job("SUCCESS", output_file="out", error_file="err"))

    with Loopback(answer) as server:
        provider = connected(server, made)
        parts = [(part.kind, list(part.chunks)) for part in provider.results(provider.snapshot("job-1"))]
    assert [kind for kind, _ in parts] == ["output", "errors"]
    for (_, chunks), ref in zip(parts, ("out", "err"), strict=True):
        assert b"".join(chunks) == f"/mistral/v1/files/{ref}/content".encode() * 50_000
        assert max(len(chunk) for chunk in chunks) <= 1 << 16


def test_a_download_that_fails_can_be_repeated(made: list[Mistral]) -> None:
    def answer(call: HandlerCall) -> Answer:
        return (
            Answer(502, b"bad gateway") if call.path.endswith("/content") else told(job("SUCCESS", output_file="out"))
        )

    with Loopback(answer) as server:
        provider = connected(server, made)
        (part,) = provider.results(provider.snapshot("job-1"))
        with pytest.raises(TransientProviderError):
            list(part.chunks)


@pytest.mark.parametrize(("status", "refused"), [("SUCCESS", False), ("RUNNING", True)])
def test_cancelling_what_has_ended_is_no_error_but_a_refusal_is(
    made: list[Mistral], status: str, refused: bool
) -> None:
    def answer(call: HandlerCall) -> Answer:
        return told({"detail": "cannot cancel"}, 400) if call.method == "POST" else told(job(status))

    with Loopback(answer) as server:
        provider = connected(server, made)
        if refused:
            with pytest.raises(RequestRefusedError, match="cannot cancel"):
                provider.cancel("job-1")
        else:
            provider.cancel("job-1")


def test_attempts_do_not_share_a_file_name(tmp_path: Path, made: list[Mistral]) -> None:
    ours = submission(tmp_path)
    size = ours.path.stat().st_size

    def answer(call: HandlerCall) -> Answer:
        if call.method == "POST":
            return told(file(id="new"))
        return told({"data": [file(id="first", bytes=size)], "object": "list", "total": 1})

    with Loopback(answer) as server:
        provider = connected(server, made)
        assert provider.upload(dataclasses.replace(ours, file_name="shard-7-2.jsonl")) == "new"
