"""Vertex: its address, its jobs, its files in a bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import pytest

from layton_batch.errors import (
    AmbiguousCallError,
    ManifestError,
    MissingKeyError,
    ProviderError,
    RequestRefusedError,
)
from layton_batch.providers import closing, longtail_vertex
from layton_batch.providers.longtail_vertex import Vertex, vertex_snapshot
from layton_batch.providers.protocol import Access
from layton_batch.records import (
    JsonValue,
    Snapshot,
)
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .test_longtail import submission, told

PLACE = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west4?gcs=gs://bucket/runs/"


def test_a_vertex_address_that_says_too_little_is_explained(tmp_path: Path) -> None:
    for address in (None, "https://x", PLACE.partition("?")[0], PLACE.replace("gs://", "s3://")):
        with pytest.raises(ManifestError, match="GOOGLE_VERTEX_BASE_URL"):
            Vertex(Access("token", address)).upload(submission(tmp_path))


def test_vertex_names_its_variable() -> None:
    with pytest.raises(MissingKeyError, match="GOOGLE_VERTEX_ACCESS_TOKEN"):
        Vertex(None).snapshot("v1/projects/p/locations/l/batchPredictionJobs/1")


def test_vertex_declares_what_it_cannot_do(tmp_path: Path) -> None:
    provider = Vertex(Access("token", PLACE))
    assert (provider.capabilities.tag, provider.capabilities.certain_find, provider.capabilities.cancel) == (False,) * 3
    assert any("storage.googleapis.com" in caveat for caveat in provider.capabilities.caveats)
    assert list(provider.find(submission(tmp_path))) == []
    with pytest.raises(RequestRefusedError, match="console"):
        provider.cancel("b")
    with pytest.raises(ProviderError, match="not uploaded"):
        provider.create(submission(tmp_path))


def test_a_vertex_job_is_created_once_in_its_place(tmp_path: Path) -> None:
    with Loopback(told({"name": "projects/p-1/locations/l-1/batchPredictionJobs/7"})) as server:
        provider = Vertex(Access("token", f"{server.url}/v1/projects/p-1/locations/l-1?gcs=gs://bucket/runs"))
        with closing(provider):
            made = provider.create(submission(tmp_path, input_ref="gs://bucket/runs/inputs/m-1/lb-tag.jsonl"))
    (call,) = server.calls
    asked = json.loads(call.body)
    assert made == "v1/projects/p-1/locations/l-1/batchPredictionJobs/7"
    assert (call.path, call.headers["authorization"]) == (
        "/v1/projects/p-1/locations/l-1/batchPredictionJobs",
        "Bearer token",
    )
    assert "lb-tag" in asked["displayName"]
    assert asked["model"] == "publishers/google/models/m-1"
    assert asked["inputConfig"]["gcsSource"]["uris"] == ["gs://bucket/runs/inputs/m-1/lb-tag.jsonl"]
    assert asked["outputConfig"]["gcsDestination"]["outputUriPrefix"] == "gs://bucket/runs/outputs/lb-tag"


def test_a_vertex_job_is_read() -> None:
    reading = {
        "state": "JOB_STATE_SUCCEEDED",
        "outputInfo": {"gcsOutputDirectory": "gs://bucket/runs/outputs/x"},
        "completionStats": {"successfulCount": "3", "failedCount": "1"},
    }
    with Loopback(told(reading)) as server:
        provider = Vertex(Access("token", f"{server.url}/v1/projects/p/locations/l?gcs=gs://b/x"))
        with closing(provider):
            found = provider.snapshot("v1/projects/p/locations/l/batchPredictionJobs/7")
    assert server.calls[0].path == "/v1/projects/p/locations/l/batchPredictionJobs/7"
    assert (found.outcome, found.results_ref) == (BatchOutcome.COMPLETED, "gs://bucket/runs/outputs/x")
    assert (found.total, found.succeeded, found.failed) == (4, 3, 1)


@pytest.mark.parametrize(
    ("reading", "outcome", "error_class"),
    [
        ({"state": "JOB_STATE_QUEUED"}, None, ErrorClass.NONE),
        ({"state": "JOB_STATE_EXPIRED"}, BatchOutcome.EXPIRED, ErrorClass.NONE),
        (
            {"state": "JOB_STATE_FAILED", "error": {"code": 3, "message": "m"}},
            BatchOutcome.FAILED,
            ErrorClass.INVALID_REQUEST,
        ),
        ({"state": "JOB_STATE_FAILED"}, BatchOutcome.FAILED, ErrorClass.PROVIDER_FAULT),
    ],
)
def test_vertex_states(reading: dict[str, JsonValue], outcome: BatchOutcome | None, error_class: ErrorClass) -> None:
    found = vertex_snapshot(reading, "job")
    assert (found.outcome, found.error_class) == (outcome, error_class)


def test_vertex_rows() -> None:
    answer = {"candidates": [{"content": {"parts": [{"text": "4"}]}, "finishReason": "STOP"}]}
    good = json.dumps({"key": "c-1", "status": "", "response": answer}).encode()
    bad = json.dumps({"key": "c-2", "status": "Bad Request: too long", "response": {}}).encode()
    assert Vertex(None).decode(good).text == "4"
    assert Vertex(None).decode(bad).error_message == "Bad Request: too long"


class Storage:
    """The storage host, with its ``objects`` by name; a page of a list shows two."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def __call__(self, call: HandlerCall) -> Answer:
        assert call.headers["authorization"] == "Bearer token"
        path, _, query = call.path.partition("?")
        asked = dict(parse_qsl(query))
        if call.method == "POST":
            assert (path, asked["uploadType"]) == ("/upload/storage/v1/b/bucket/o", "media")
            self.objects[asked["name"]] = call.body
            return told({"name": asked["name"]})
        if asked.get("alt") == "media":
            start = int(call.headers.get("range", "bytes=0-")[6:-1])
            body = self.objects[unquote(path.removeprefix("/storage/v1/b/bucket/o/"))]
            return Answer(206 if start else 200, body[start:], {"content-range": f"bytes {start}-/{len(body)}"})
        names, start = (
            [name for name in self.objects if name.startswith(asked["prefix"])],
            int(asked.get("pageToken", 0)),
        )
        page: dict[str, JsonValue] = {"items": [{"name": name} for name in names[start : start + 2]]}
        return told(page | ({"nextPageToken": str(start + 2)} if start + 2 < len(names) else {}))


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    made = Storage()
    with Loopback(made) as server:
        monkeypatch.setattr(longtail_vertex, "STORAGE", server.url)
        yield made


def test_a_vertex_upload_replaces_its_first(tmp_path: Path, storage: Storage) -> None:
    ours = submission(tmp_path)
    with closing(Vertex(Access("token", PLACE))) as provider:
        assert provider.upload(ours) == provider.upload(ours) == "gs://bucket/runs/inputs/m-1/lb-tag.jsonl"
    assert storage.objects == {"runs/inputs/m-1/lb-tag.jsonl": ours.path.read_bytes()}


def test_vertex_results_are_told_from_errors_and_taken_up_where_they_broke_off(storage: Storage) -> None:
    storage.objects = {
        "o/errors_0.jsonl": b'{"key": "c-2"}',
        "o/notes.txt": b"",
        "o/predictions_0.jsonl": '{"key": "c-1\u2028"}\n'.encode(),
        "o2/predictions_0.jsonl": b"another job's",
    }
    reading = Snapshot("job", "JOB_STATE_SUCCEEDED", Lifecycle.ENDED, results_ref="gs://bucket/o")
    with closing(Vertex(Access("token", PLACE))) as provider:
        parts = list(provider.results(reading))
        assert [(part.kind, b"".join(part.chunks)) for part in parts] == [
            ("errors", b'{"key": "c-2"}'),
            ("output", '{"key": "c-1\u2028"}\n'.encode()),
        ]
        assert [b"".join(part.resume(8)) for part in parts if part.resume] == [b'"c-2"}', '"c-1\u2028"}\n'.encode()]


def test_a_vertex_create_whose_reply_names_no_job_may_have_been_carried_out(tmp_path: Path) -> None:
    with Loopback(told({})) as server:
        address = f"{server.url}/v1/projects/p-1/locations/l-1?gcs=gs://bucket/runs"
        with closing(Vertex(Access("token", address))) as provider, pytest.raises(AmbiguousCallError):
            provider.create(submission(tmp_path, input_ref="gs://bucket/runs/inputs/m-1/lb-tag.jsonl"))
