"""The paid call: one POST of the documented form, which says whether it may have been carried out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    MissingKeyError,
    ProviderError,
    TransientProviderError,
)
from layton_batch.providers import connect
from layton_batch.providers.protocol import Access, CallLimits
from layton_batch.records import JsonValue, Submission
from layton_batch.testing.providers import Answer, Loopback
from tests.support.tiers import tiered

from .conftest import KEY, Serve, reply
from .documents import Json, anthropic_batch, gemini_batch, mistral_job

CHAT = "/v1/chat/completions"
FILE_BATCH: Json = {
    "completion_window": "24h", "endpoint": CHAT, "input_file_id": "file-in", "metadata": {"layton_batch": "tag-b1"},
}  # fmt: skip
JOB: Json = {
    "displayName": "tag-b1", "model": "publishers/google/models/the-model",
    "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": ["file-in"]}},
    "outputConfig": {
        "predictionsFormat": "jsonl", "gcsDestination": {"outputUriPrefix": "gs://bucket/runs/outputs/tag-b1"},
    },
    "instanceConfig": {"instanceType": "object", "keyField": "key"},
}  # fmt: skip
MADE: dict[str, tuple[JsonValue, str, str, JsonValue]] = {
    "openai": ({"id": "b-1"}, "b-1", "/v1/batches", FILE_BATCH),
    "groq": ({"id": "b-1"}, "b-1", "/openai/v1/batches", FILE_BATCH),
    "doubleword": ({"id": "b-1"}, "b-1", "/v1/batches", FILE_BATCH),
    "together": ({"job": {"id": "b-1"}, "warning": "w"}, "b-1", "/v1/batches",
                 {"endpoint": CHAT, "input_file_id": "file-in", "completion_window": "24h"}),
    "openrouter": ({"id": "b-1", "status": "validating"}, "b-1", "/v1/batches",
                   {"endpoint": CHAT, "model": "the-model", "requests": [{"custom_id": "a"}]}),
    "xai": ({"batch_id": "b-1"}, "b-1", "/v1/batches", {"name": "tag-b1/1", "input_file_id": "file-in"}),
    "anthropic": (anthropic_batch(), "msgbatch_1", "/v1/messages/batches", {"requests": [{"custom_id": "a"}]}),
    "gemini": (gemini_batch(), "batches/b-1", "/v1/models/the-model:batchGenerateContent",
               {"batch": {"displayName": "tag-b1", "inputConfig": {"fileName": "file-in"}}}),
    "mistral": (mistral_job(), "job-1", "/v1/batch/jobs",
                {"input_files": ["file-in"], "endpoint": CHAT, "model": "the-model", "timeout_hours": 24,
                 "metadata": {"layton_batch": "tag-b1"}}),
    "vertex": ({"name": "projects/p-1/locations/l-1/batchPredictionJobs/7"},
               "v1/projects/p-1/locations/l-1/batchPredictionJobs/7",
               "/v1/projects/p-1/locations/l-1/batchPredictionJobs", JOB),
}  # fmt: skip
"""By provider: its reply to a create, our id of the batch, and path and body of the call."""


@pytest.mark.parametrize("name", MADE)
def test_a_create_is_one_post_of_the_documented_form(serve: Serve, submission: Submission, name: str) -> None:
    answer, made, path, body = MADE[name]
    provider, server = serve(name, reply(answer))
    assert provider.create(submission) == made
    (call,) = server.calls
    assert (call.method, call.path) == ("POST", path)
    assert KEY in (call.headers.get("authorization") or call.headers["x-goog-api-key"])
    sent = {key: value for key, value in json.loads(call.body).items() if value is not None}
    if name == "vertex":
        assert "tag-b1" in sent.pop("displayName")
        body = {key: value for key, value in JOB.items() if key != "displayName"}
    assert sent == body


# ---- what may have been carried out ----------------------------------------------------------------------------------

NAMES = tuple(MADE)
UNCLEAR = {
    "500": reply({"error": {"message": "boom"}}, 500), "409": reply({}, 409), "dropped": Answer(drop=True),
    "no id": reply({}), "an odd id": reply({"id": 5, "batch_id": 5, "name": 5}), "a list": reply(["b-1"]),
    "an error": reply({"object": "error", "message": "down"}), "html": Answer(200, b"<html>"),
    "held": Answer(hold=True), "gone": reply({"error": {"code": 499, "status": "CANCELLED"}}, 499),
    "asked again": reply({}, 503, **{"x-should-retry": "true", "retry-after": "0"}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "case"),
    tiered(NAMES, UNCLEAR, ci=[*(("openai", case) for case in UNCLEAR), *((name, "no id") for name in NAMES[1:])]),
)
def test_a_create_whose_reply_names_no_batch_may_have_made_one(
    serve: Serve, submission: Submission, name: str, case: str
) -> None:
    provider, server = serve(name, UNCLEAR[case], timeout=0.2 if case == "held" else 10.0)
    with pytest.raises(AmbiguousCallError) as caught:
        provider.create(submission)
    assert server.called.wait(10.0)  # a call that the client gave up may come in later
    assert server.posts() == 1
    assert KEY not in str(caught.value)


def test_a_refused_connection_did_nothing(submission: Submission) -> None:
    provider = connect("openai", Access(KEY, "http://127.0.0.1:1/v1", CallLimits(2.0)))
    with pytest.raises(TransientProviderError):
        provider.create(submission)
    provider.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", MADE)
def test_what_is_missing_here_is_no_call(serve: Serve, submission: Submission, name: str, tmp_path: Path) -> None:
    provider, server = serve(name, reply({}))
    gone = replace(submission, path=tmp_path / "absent.jsonl", input_ref=None)
    inline = name in ("anthropic", "openrouter")
    with pytest.raises(FileError if inline else ProviderError):
        provider.create(gone)
    if inline:
        assert provider.upload(gone) is None
    else:
        with pytest.raises(FileError, match="absent"):
            provider.upload(gone)
    assert server.calls == []
    with pytest.raises(MissingKeyError, match=r"_KEY|_TOKEN"):
        connect(name, None).create(submission)


def test_what_an_sdk_raises_before_it_sends_is_not_taken_for_an_earlier_reply(
    serve: Serve, submission: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_named: object) -> None:
        raise ValueError("no such argument")

    provider, server = serve("openai", reply({"id": "another", "status": "in_progress"}))
    assert provider.snapshot("another").provider_id == "another"
    monkeypatch.setattr(provider._open().batches, "create", refuse)  # type: ignore[attr-defined]
    with pytest.raises(AmbiguousCallError, match="no such argument"):
        provider.create(submission)
    assert server.posts() == 0


# ---- redirects -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vertex"])
def test_a_redirected_create_is_not_followed_and_may_have_been_carried_out(
    serve: Serve, submission: Submission, name: str
) -> None:
    with Loopback(reply({"id": "batch_elsewhere"})) as elsewhere:
        for status in (301, 307) if name == "openai" else (307,):
            moved = Answer(status, b"<html>moved</html>", {"location": f"{elsewhere.url}/v1/batches"})
            provider, server = serve(name, moved)
            with pytest.raises(AmbiguousCallError):
                provider.create(submission)
            assert (len(server.calls), elsewhere.calls) == (1, [])


# ---- Anthropic's body is the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_the_body_is_whole_across_chunk_borders(serve: Serve, submission: Submission, ending: bytes) -> None:
    lines = [json.dumps({"custom_id": f"c-{n}", "params": {"x": "y" * 99_000}}).encode() for n in range(40)]
    lines.insert(0, b'{"custom_id":"' + b"z" * ((1 << 20) - 17) + b'"}')  # its newline ends the first chunk
    submission.path.write_bytes(b"\n".join(lines) + ending)
    provider, server = serve("anthropic", reply(anthropic_batch()))
    provider.create(replace(submission, requests=41))
    assert json.loads(server.calls[0].body)["requests"] == [json.loads(line) for line in lines]


# ---- another provider's environment ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["doubleword", "openrouter", "xai"])
def test_what_the_environment_says_for_openai_is_not_taken_over(
    serve: Serve, submission: Submission, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    for variable in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY"):
        monkeypatch.setenv(f"OPENAI_{variable}", "a-secret-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: a-secret-of-openai\nauthorization: Bearer other")
    provider, server = serve(name, reply(MADE[name][0]))
    provider.create(submission)
    (call,) = server.calls
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert "secret-of-openai" not in str(call.headers)
    unset: Callable[..., object] = connect(name, Access(KEY))._open  # type: ignore[attr-defined]
    assert "127.0.0.1" not in str(unset().base_url)  # type: ignore[attr-defined]
