"""Uploads, which may be repeated, and cancels, which what has ended does not mind."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from layton_batch.errors import (
    ManifestError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access
from layton_batch.records import JsonValue, Submission
from layton_batch.testing.providers import Answer, HandlerCall

from .conftest import KEY, Play, Serve, Wire, reply, routes
from .documents import anthropic_batch, gemini_batch, mistral_job

LISTS = {"openai": "/v1/files", "groq": "/openai/v1/files", "doubleword": "/v1/files", "mistral": "/v1/files"}
"""Providers whose files are listed before one is uploaded, and where."""

# ---- uploads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
def test_a_file_is_sent_under_its_own_name_unless_an_interrupted_upload_left_it(
    serve: Serve, submission: Submission, name: str
) -> None:
    content = submission.path.read_bytes()
    ours = {"id": "ours", "filename": submission.file_name, "bytes": len(content), "purpose": "batch"}
    changes: list[dict[str, Any]] = [{"bytes": len(content) + 1}, {"filename": "tag-b2.jsonl"}]
    if name != "mistral":
        changes += [{"purpose": "batch_output"}, {"status": "error"}]
    others = [{"id": "bare"}, *(ours | change for change in changes)]
    provider, server = serve(name, routes({"GET /files": {"data": others}, "POST /files": {"id": "new", "odd": [1]}}))
    assert provider.upload(submission) == "new"
    listed, sent = server.calls
    assert listed.path.partition("?")[0] == sent.path == LISTS[name]
    assert all(piece in sent.body for piece in (b'filename="tag-b1.jsonl"', content, b"\r\n\r\nbatch\r\n"))
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    told = ours | {"sample_type": "another", "num_lines": "1", "created_at": "now", "status": "processed"}
    provider, server = serve(name, reply({"data": [*others, told]}))
    assert (provider.upload(submission), server.posts()) == ("ours", 0)


def test_togethers_bytes_are_uploaded_once_found_again_and_sent_to_the_storage_without_the_key(
    serve: Serve, submission: Submission
) -> None:
    stored: dict[str, bytes] = {}
    page = {"id": "file-1", "object": "file", "filename": "shard-1.jsonl", "bytes": 18, "created_at": 1,
            "purpose": "batch-api", "FileType": "jsonl", "processing_status": "COMPLETED"}  # fmt: skip

    def answer(call: HandlerCall) -> Answer:
        """Announce, PUT to the address given, finish; bytes already there give 409 with their id."""
        if call.method == "POST" and call.path == "/v1/files":
            if stored:
                return reply({"file_id": "file-1"}, 409)
            location = f"http://{call.headers['host']}/bucket/1"
            return Answer(302, b"", {"Location": location, "X-Together-File-Id": "file-1"})
        if call.method == "PUT":
            assert KEY not in str(call.headers)
            stored[call.path] = call.body
        return reply(page)

    provider, server = serve("together", answer)
    assert provider.upload(submission) == "file-1"
    assert stored == {"/bucket/1": submission.path.read_bytes()}
    assert hashlib.sha256(submission.path.read_bytes()).hexdigest().encode() in server.calls[0].body
    before = len(server.calls)
    assert provider.upload(submission) == "file-1"
    assert [call.method for call in server.calls[before:]] == ["POST", "GET"]


def resumable(start: Answer | None = None, existing: JsonValue = None) -> Callable[[HandlerCall], Answer]:
    """Gemini's upload; ``start`` instead of the first reply; ``existing`` is the file that a GET finds."""

    def answer(call: HandlerCall) -> Answer:
        if call.method == "GET":
            return reply(existing) if existing is not None else reply({"error": {"code": 403, "message": "no"}}, 403)
        if call.headers.get("x-goog-upload-command") == "start":
            # the host of the reply is not ours: the data must come here all the same
            return start or Answer(headers={"x-goog-upload-url": "http://192.0.2.1:9/upload/session"})
        return Answer(body=b'{"file": {"name": "files/x"}}', headers={"x-goog-upload-status": "final"})

    return answer


def test_an_upload_to_gemini_is_named_by_us_and_a_second_one_finds_the_first(
    serve: Serve, submission: Submission
) -> None:
    provider, server = serve("gemini", resumable())
    name = provider.upload(submission)
    start, data = server.calls
    assert re.fullmatch(r"files/[a-z0-9-]{1,40}", str(name))
    assert start.path == "/upload/v1/files"
    described = json.loads(start.body)["file"]
    assert (described["name"], "tag-b1" in described.values()) == (name, True)
    assert start.headers["x-goog-upload-header-content-type"] == "application/jsonl"
    assert (data.path, data.body) == ("/upload/session", submission.path.read_bytes())
    assert provider.upload(submission) == name != provider.upload(replace(submission, tag="another"))
    there: JsonValue = {"name": name, "sizeBytes": str(submission.path.stat().st_size), "state": "ACTIVE"}
    for status in (400, 409):
        refused = reply({"error": {"code": status, "message": "already exists"}}, status)
        assert serve("gemini", resumable(refused, there))[0].upload(submission) == name
        for other in (None, {"sizeBytes": "1", "state": "ACTIVE"}):
            with pytest.raises(RequestRefusedError if status == 400 else TransientProviderError):
                serve("gemini", resumable(refused, other))[0].upload(submission)


def test_an_upload_to_vertex_replaces_its_first(wire: Wire, submission: Submission) -> None:
    calls = wire(lambda _call: reply({"name": "x"}))
    address = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west4?gcs=gs://bucket/r/"
    with closing(connect("vertex", Access("token", address))) as provider:
        for _ in range(2):
            assert provider.upload(submission) == "gs://bucket/r/inputs/the-model/tag-b1.jsonl"
    first, again = calls
    assert first.headers["host"] == "storage.googleapis.com"
    assert first.path.startswith("/upload/storage/v1/b/bucket/o?")
    assert all(part in first.path for part in ("uploadType=media", "r%2Finputs%2Fthe-model%2Ftag-b1.jsonl"))
    assert (first.path, first.body, first.headers["authorization"]) == (
        again.path, submission.path.read_bytes(), "Bearer token",
    )  # fmt: skip
    for unfit in (None, "https://x", address.partition("?")[0], address.replace("gs://", "s3://")):
        with pytest.raises(ManifestError, match="GOOGLE_VERTEX_BASE_URL"):
            connect("vertex", Access("token", unfit)).upload(submission)


# ---- cancels ---------------------------------------------------------------------------------------------------------


def status(word: str) -> dict[str, Any]:
    return {"id": "batch_1", "status": word}


OPENAI = ("/batches/batch_1/cancel", status, ("in_progress", "completed", "cancelling", "failed"))
CANCELS: dict[str, tuple[str, Callable[[str], Any], tuple[str, ...]]] = {
    **dict.fromkeys(("openai", "groq", "doubleword"), OPENAI),
    "together": (OPENAI[0], status, ("IN_PROGRESS", "COMPLETED", "CANCELLING")),
    "anthropic": (OPENAI[0], anthropic_batch, ("in_progress", "ended", "canceling")),
    "gemini": ("/batch_1:cancel", gemini_batch, ("BATCH_STATE_RUNNING", "BATCH_STATE_CANCELLED")),
    "mistral": ("/jobs/batch_1/cancel", mistral_job, ("RUNNING", "SUCCESS", "CANCELLATION_REQUESTED")),
}
"""By provider: where a cancel goes, its batch, and the words for one that runs and for others."""


@pytest.mark.parametrize("name", CANCELS)
def test_cancelling_what_has_ended_is_no_error_but_a_refusal_and_a_failure_are(play: Play, name: str) -> None:
    path, batch, (runs, *others) = CANCELS[name]

    def cancel(refusal: int, word: str) -> None:
        provider, server = play(name, {"cancel": reply({}, refusal), "": batch(word)})
        try:
            provider.cancel("batches/batch_1" if name == "gemini" else "batch_1")
        finally:
            assert (server.calls[0].path.endswith(path), server.posts()) == (True, 1)

    for word in others:
        for refusal in (400, 409):
            cancel(refusal, word)
    for refusal, word, error in ((400, runs, RequestRefusedError), (500, others[0], TransientProviderError)):
        with pytest.raises(error):
            cancel(refusal, word)


def test_what_cannot_be_cancelled_says_so_unless_it_has_ended(play: Play) -> None:
    for name in ("openrouter", "vertex"):
        provider, server = play(name, {"": status("in_progress")})
        with pytest.raises(RequestRefusedError):
            provider.cancel("batch_1")
        assert server.posts() == 0
    play("openrouter", {"": status("completed")})[0].cancel("batch_1")
    declared = connect("vertex", None).capabilities
    assert (declared.shows_ours, declared.certain_find, declared.cancel) == (False, False, False)


NONE: JsonValue = {"data": []}
BAD_ROW: JsonValue = {"detail": [{"loc": ["file"], "msg": "row 3: bad role", "type": "value_error"}]}


@pytest.mark.parametrize(("name", "answer", "expected"), [
    ("openai", routes({"GET /files": NONE, "POST /files": reply({}, 500)}), TransientProviderError),
    ("mistral", routes({"GET /files": NONE, "POST /files": reply(BAD_ROW, 422)}), RequestRefusedError),
    *(("mistral", reply(page), ProviderReplyError) for page in ({}, {"error": "down"}, {"data": None})),
    *(("together", answer, TransientProviderError) for answer in (reply({}, 500), Answer(drop=True))),
    *(("together", answer, ProviderReplyError) for answer in (reply({"odd": 1}, 409), reply({"no": "location"}))),
])  # fmt: skip
def test_an_upload_that_fails_is_told_from_one_that_cannot_be_read(
    serve: Serve, submission: Submission, name: str, answer: Any, expected: type[ProviderError]
) -> None:
    with pytest.raises(expected) as caught:
        serve(name, answer)[0].upload(submission)
    assert type(caught.value) is expected
