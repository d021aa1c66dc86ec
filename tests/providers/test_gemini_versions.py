"""Gemini's API has two versions: a call that the newer one refuses for what it lacks goes to the older one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from layton_batch.errors import AmbiguousCallError, NotFoundError, ProviderError, RequestRefusedError
from layton_batch.providers.gemini import Gemini
from layton_batch.providers.protocol import Access, CallLimits
from layton_batch.providers.request_line import request_line
from layton_batch.records import JsonValue, Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .test_gemini_forms import OFFLINE, request

CREATED: JsonValue = {"name": "batches/b-1", "metadata": {"state": "BATCH_STATE_PENDING", "name": "batches/b-1"}}
PAGE = Answer(404, b"<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>", {"content-type": "text/html"})
ENDED = Snapshot("batches/b-1", "BATCH_STATE_SUCCEEDED", Lifecycle.ENDED, BatchOutcome.COMPLETED, "files/batch-r")


def told(value: JsonValue, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


def refused(status: int, message: str, word: str = "INVALID_ARGUMENT") -> Answer:
    return told({"error": {"code": status, "message": message, "status": word}}, status)


UNKNOWN_NAME = refused(400, 'Invalid JSON payload received. Unknown name "batch": Cannot find field.')
NO_SUCH_MODEL = refused(404, "models/x is not found for API version v1, or is not supported", "NOT_FOUND")


def by_version(newer: Answer, older: Answer | Callable[[HandlerCall], Answer]) -> Callable[[HandlerCall], Answer]:
    """What the newer version answers to every call, and the older one."""

    def answer(call: HandlerCall) -> Answer:
        if "/v1/" in call.path:
            return newer
        return older if isinstance(older, Answer) else older(call)

    return answer


def versions(server: Loopback) -> list[str]:
    return [next(part for part in call.path.split("/") if part.startswith("v1")) for call in server.calls]


@pytest.fixture
def connected() -> Iterator[Callable[..., Gemini]]:
    opened: list[Gemini] = []

    def connect(server: Loopback, version: str | None = None) -> Gemini:
        patience = CallLimits(5.0)
        opened.append(Gemini(Access("secret-key", f"{server.url}/gemini/", patience, api_version=version)))
        return opened[-1]

    yield connect
    for provider in opened:
        provider.close()


@pytest.fixture
def uploaded(tmp_path: Path) -> Submission:
    path = tmp_path / "shard.jsonl"
    path.write_bytes(request_line(OFFLINE, request()) + b"\n")
    return Submission("b", "lb-tag", path, path.name, "0" * 64, 1, "gemini-3-flash-preview", "files/in-1")


@pytest.mark.parametrize("newer", [PAGE, UNKNOWN_NAME, NO_SUCH_MODEL, Answer(404)])
def test_a_create_refused_for_what_the_version_lacks_goes_to_the_older_one_which_is_kept(
    connected: Callable[..., Gemini], uploaded: Submission, newer: Answer
) -> None:
    with Loopback(by_version(newer, told(CREATED))) as server:
        provider = connected(server)
        assert provider.create(uploaded) == "batches/b-1"
        assert provider.create(uploaded) == "batches/b-1"
        provider.snapshot("batches/b-1")
        provider.cancel("batches/b-1")
    assert versions(server) == ["v1", "v1beta", "v1beta", "v1beta", "v1beta"]
    assert server.calls[0].body == server.calls[1].body


@pytest.mark.parametrize(
    ("newer", "error"),
    [
        (Answer(500), AmbiguousCallError),
        (Answer(503), AmbiguousCallError),
        (Answer(409), AmbiguousCallError),
        (Answer(drop=True), AmbiguousCallError),
        (told({}), AmbiguousCallError),
        (Answer(200, b"<html>Unknown name</html>"), AmbiguousCallError),
        (Answer(429), ProviderError),
        (refused(400, "Line 3 of files/in-1 is not valid JSON"), RequestRefusedError),
        (refused(403, "Unknown name"), RequestRefusedError),
        (refused(404, "File files/in-1 not found.", "NOT_FOUND"), NotFoundError),
    ],
)
def test_a_create_is_one_post_where_the_reply_may_mean_anything_else(
    connected: Callable[..., Gemini], uploaded: Submission, newer: Answer, error: type[ProviderError]
) -> None:
    with Loopback(by_version(newer, told(CREATED))) as server, pytest.raises(error):
        connected(server).create(uploaded)
    assert server.posts() == 1


def test_what_the_older_version_leaves_open_stays_open(connected: Callable[..., Gemini], uploaded: Submission) -> None:
    """And it is looked for where it may have been created."""

    def older(call: HandlerCall) -> Answer:
        return Answer(500) if call.method == "POST" else told({})

    with Loopback(by_version(PAGE, older)) as server:
        provider = connected(server)
        with pytest.raises(AmbiguousCallError):
            provider.create(uploaded)
        assert provider.find(uploaded) == []
    assert versions(server) == ["v1", "v1beta", "v1beta"]


def test_a_model_that_neither_version_has_leaves_the_newer_one_in_use(
    connected: Callable[..., Gemini], uploaded: Submission
) -> None:
    def listed(call: HandlerCall) -> Answer:
        return NO_SUCH_MODEL if call.method == "POST" else told({})

    with Loopback(listed) as server:
        provider = connected(server)
        with pytest.raises(NotFoundError, match="models/x is not found"):
            provider.create(uploaded)
        assert provider.find(uploaded) == []
    assert versions(server) == ["v1", "v1beta", "v1"]


@pytest.mark.parametrize("older", [refused(403, "no such file"), refused(400, "no"), Answer(429), Answer(500), PAGE])
def test_only_what_the_older_version_carried_out_makes_it_the_one_in_use(
    connected: Callable[..., Gemini], older: Answer
) -> None:
    with Loopback(by_version(PAGE, older)) as server:
        provider = connected(server)
        for _ in range(2):
            with pytest.raises(ProviderError):
                provider.snapshot("batches/b-1")
    assert versions(server) == ["v1", "v1beta", "v1", "v1beta"]


@pytest.mark.parametrize("newer", [PAGE, UNKNOWN_NAME, refused(404, "Requested entity was not found.", "NOT_FOUND")])
def test_an_upload_goes_to_the_version_that_takes_it(
    connected: Callable[..., Gemini], uploaded: Submission, newer: Answer
) -> None:
    def older(call: HandlerCall) -> Answer:
        if call.headers.get("x-goog-upload-command") == "start":
            return Answer(headers={"x-goog-upload-url": f"{server.url}/gemini/upload/v1beta/session"})
        return Answer(body=b'{"file": {"name": "files/x"}}', headers={"x-goog-upload-status": "final"})

    with Loopback(by_version(newer, older)) as server:
        assert connected(server).upload(uploaded) is not None
    assert [call.path for call in server.calls] == [
        "/gemini/upload/v1/files", "/gemini/upload/v1beta/files", "/gemini/upload/v1beta/session"
    ]  # fmt: skip


def test_batches_and_results_of_the_older_version_are_read_by_a_later_process(
    connected: Callable[..., Gemini], uploaded: Submission
) -> None:
    """It begins with the newer one: no batch may be given up for a version that cannot show it."""

    def older(call: HandlerCall) -> Answer:
        if "download" in call.path:
            return Answer(body=b'{"key": "k"}\n')
        operation: JsonValue = {
            "name": "batches/b-1",
            "metadata": {"state": "BATCH_STATE_RUNNING", "displayName": "lb-tag"},
        }
        return told({"operations": [operation]} if "pageSize" in call.path else operation)

    not_there = refused(404, "Requested entity was not found.", "NOT_FOUND")
    for look in (
        lambda provider: provider.snapshot("batches/b-1").state is Lifecycle.IN_FLIGHT,
        lambda provider: [one.provider_id for one in provider.find(uploaded)] == ["batches/b-1"],
        lambda provider: b"".join(next(provider.results(ENDED)).chunks) == b'{"key": "k"}\n',
    ):
        with Loopback(by_version(not_there, older)) as server:
            assert look(connected(server))
        assert versions(server) == ["v1", "v1beta"]


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_a_version_that_is_asked_for_is_the_only_one(
    connected: Callable[..., Gemini], uploaded: Submission, version: str
) -> None:
    with Loopback(PAGE) as server:
        provider = connected(server, version)
        for call in (provider.create, provider.upload, provider.find):
            with pytest.raises(RequestRefusedError):
                call(uploaded)
    assert set(versions(server)) == {version}
