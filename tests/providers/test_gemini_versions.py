"""Gemini's API has two versions: a call that the newer one refuses for what it lacks goes to the older one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from layton_batch.errors import AmbiguousCallError, NotFoundError, ProviderError, RequestRefusedError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .conftest import Serve, reply
from .documents import gemini_batch

CREATED = reply(gemini_batch("BATCH_STATE_PENDING"))
PAGE = Answer(404, b"<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>", {"content-type": "text/html"})
ENDED = Snapshot("batches/b-1", "BATCH_STATE_SUCCEEDED", Lifecycle.ENDED, BatchOutcome.COMPLETED, "files/batch-r")


def refused(status: int, message: str, word: str = "INVALID_ARGUMENT") -> Answer:
    return reply({"error": {"code": status, "message": message, "status": word}}, status)


UNKNOWN_NAME = refused(400, 'Invalid JSON payload received. Unknown name "batch": Cannot find field.')
NO_SUCH_MODEL = refused(404, "models/x is not found for API version v1, or is not supported", "NOT_FOUND")
NOT_THERE = refused(404, "Requested entity was not found.", "NOT_FOUND")


def by_version(newer: Answer, older: Answer | Callable[[HandlerCall], Answer]) -> Callable[[HandlerCall], Answer]:
    """What the newer version answers to every call, and the older one."""
    return lambda call: newer if "/v1/" in call.path else older if isinstance(older, Answer) else older(call)


def versions(server: Loopback) -> list[str]:
    return [next(part for part in call.path.split("/") if part.startswith("v1")) for call in server.calls]


@pytest.mark.parametrize("newer", [PAGE, UNKNOWN_NAME, NO_SUCH_MODEL, Answer(404)])
def test_a_create_refused_for_what_the_version_lacks_goes_to_the_older_one_which_is_kept(
    serve: Serve, submission: Submission, newer: Answer
) -> None:
    provider, server = serve("gemini", by_version(newer, CREATED))
    assert provider.create(submission) == provider.create(submission) == "batches/b-1"
    provider.snapshot("batches/b-1")
    provider.cancel("batches/b-1")
    assert versions(server) == ["v1", "v1beta", "v1beta", "v1beta", "v1beta"]
    assert server.calls[0].body == server.calls[1].body


@pytest.mark.parametrize(("newer", "error"), [
    (Answer(503), AmbiguousCallError),
    (Answer(409), AmbiguousCallError),
    (Answer(200, b"<html>Unknown name</html>"), AmbiguousCallError),
    (Answer(429), ProviderError),
    (refused(400, "Line 3 of files/in-1 is not valid JSON"), RequestRefusedError),
    (refused(403, "Unknown name"), RequestRefusedError),
    (refused(404, "File files/in-1 not found.", "NOT_FOUND"), NotFoundError),
])  # fmt: skip
def test_a_create_is_one_post_where_the_reply_may_mean_anything_else(
    serve: Serve, submission: Submission, newer: Answer, error: type[ProviderError]
) -> None:
    provider, server = serve("gemini", by_version(newer, CREATED))
    with pytest.raises(error):
        provider.create(submission)
    assert server.posts() == 1


@pytest.mark.parametrize(("newer", "older", "error", "asked"), [
    # what the older version leaves open stays open, and is looked for where it may have been created
    (PAGE, Answer(500), AmbiguousCallError, ["v1", "v1beta", "v1beta"]),
    # a model that neither version has leaves the newer one in use
    (NO_SUCH_MODEL, NO_SUCH_MODEL, NotFoundError, ["v1", "v1beta", "v1"]),
])  # fmt: skip
def test_a_create_that_neither_version_carried_out_is_looked_for_where_it_may_be(
    serve: Serve, submission: Submission, newer: Answer, older: Answer, error: type[ProviderError], asked: list[str]
) -> None:
    create = by_version(newer, older)
    provider, server = serve("gemini", lambda call: create(call) if call.method == "POST" else reply({}))
    with pytest.raises(error):
        provider.create(submission)
    assert provider.find(submission) == []
    assert versions(server)[:3] == asked


def test_an_upload_goes_to_the_version_that_takes_it(serve: Serve, submission: Submission) -> None:
    def older(call: HandlerCall) -> Answer:
        if call.headers.get("x-goog-upload-command") == "start":
            return Answer(headers={"x-goog-upload-url": f"http://{call.headers['host']}/upload/v1beta/session"})
        return Answer(body=b'{"file": {"name": "files/x"}}', headers={"x-goog-upload-status": "final"})

    for newer in (PAGE, UNKNOWN_NAME, NOT_THERE):
        provider, server = serve("gemini", by_version(newer, older))
        assert provider.upload(submission) is not None
        paths = ["/upload/v1/files", "/upload/v1beta/files", "/upload/v1beta/session"]
        assert [call.path for call in server.calls] == paths


def test_batches_and_results_of_the_older_version_are_read_by_a_later_process(
    serve: Serve, submission: Submission
) -> None:
    """It begins with the newer one: no batch may be given up for a version that cannot show it."""

    def older(call: HandlerCall) -> Answer:
        if "download" in call.path:
            return Answer(body=b'{"key": "k"}\n')
        return reply({"operations": [gemini_batch()]} if "pageSize" in call.path else gemini_batch())

    looks: list[Callable[[Provider], object]] = [
        lambda provider: provider.snapshot("batches/b-1").provider_id,
        lambda provider: [match.provider_id for match in provider.find(submission)],
        lambda provider: provider.cancel("batches/b-1"),
        lambda provider: b"".join(next(iter(provider.results(ENDED))).chunks),
    ]
    for look, expected in zip(looks, ("batches/b-1", ["batches/b-1"], None, b'{"key": "k"}\n'), strict=True):
        provider, server = serve("gemini", by_version(NOT_THERE, older))
        assert look(provider) == expected
        assert versions(server) == ["v1", "v1beta"]
