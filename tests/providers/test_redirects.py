"""Other hosts that a reply names: the paid call is never repeated there, and no call takes the key there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderError
from layton_batch.providers import BUILT_IN
from layton_batch.records import JsonValue, Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback
from tests.support.tiers import tiered

from .conftest import KEY, Serve, reply
from .test_anthropic import batch
from .test_gemini import operation
from .test_mistral import job

NAMES = ("anthropic", "gemini", "mistral")
STATUSES = (301, 302, 303, 307, 308)
BATCHES: dict[str, dict[str, JsonValue]] = {
    "anthropic": batch(),
    "gemini": operation("BATCH_STATE_RUNNING"),
    "mistral": job(),
}
CONTENT = {"anthropic": "/results", "gemini": ":download", "mistral": "/content"}
RESULTS = b"".join(b'{"custom_id": "c-%d"}\n' % number for number in range(3000))


def moved(status: int, url: str) -> Answer:
    return Answer(status, b"moved", {"location": url})


@pytest.fixture
def other() -> Iterator[Loopback]:
    """Another host: it has every batch, and every file's content."""

    def answer(call: HandlerCall) -> Answer:
        name = next((name for name in NAMES if f"/{name}/" in call.path), "")
        if any(call.path.partition("?")[0].endswith(end) for end in CONTENT.values()):
            start = int(call.headers.get("range", "bytes=0-")[6:-1])
            given = {"content-range": f"bytes {start}-{len(RESULTS) - 1}/{len(RESULTS)}"}
            return Answer(206 if start else 200, RESULTS[start:], given)
        return reply(BATCHES[name])

    with Loopback(answer) as server:
        server.url = server.url.replace("127.0.0.1", "localhost")
        yield server


def keyless(server: Loopback) -> bool:
    return not any(KEY in value for call in server.calls for value in call.headers.values())


@pytest.mark.parametrize(("name", "status"), tiered(NAMES, STATUSES, ci=[(name, 307) for name in NAMES]))
def test_a_create_that_is_answered_with_a_redirect_may_have_been_carried_out(
    serve: Serve, submission: Submission, other: Loopback, name: str, status: int
) -> None:
    for url in (f"{other.url}/{name}/made", "http://127.0.0.1:9/closed", "/v1/its-own-resource", ""):
        provider, server = serve(name, moved(status, url))
        with pytest.raises(AmbiguousCallError):
            provider.create(submission)
        assert len(server.calls) == 1
    assert other.calls == []


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "vertex"])
def test_no_call_takes_the_key_to_another_host(
    serve: Serve, submission: Submission, other: Loopback, name: str
) -> None:
    provider, server = serve(name, lambda call: moved(307, f"{other.url}/{name}{call.path}"))
    ended = Snapshot("b-1", "ended", Lifecycle.ENDED, BatchOutcome.COMPLETED, results_ref="files/out")
    calls: list[Callable[[], object]] = [
        lambda: provider.upload(dataclasses.replace(submission, input_ref=None)),
        lambda: provider.find(submission),
        lambda: provider.snapshot("batches/b-1" if name == "gemini" else "b-1"),
        lambda: [list(part.chunks) for part in provider.results(ended)],
    ]
    for call in calls:
        with suppress(ProviderError):
            call()
    assert any(KEY in str(call.headers) for call in server.calls)
    assert keyless(other)


def test_anthropics_results_are_read_below_the_configured_address(serve: Serve, other: Loopback) -> None:
    """A batch names the address of its results: behind a proxy that is the provider's own."""
    named = batch("ended", results_url=f"{other.url}/v1/messages/batches/b-1/results")

    def answer(call: HandlerCall) -> Answer:
        return Answer(200, RESULTS) if call.path.endswith("/v1/messages/batches/b-1/results") else reply(named)

    provider, server = serve("anthropic", answer)
    (part,) = provider.results(provider.snapshot("b-1"))
    assert b"".join(part.chunks) == RESULTS
    assert len(server.calls) == 2
    assert other.calls == []


@pytest.mark.parametrize("name", NAMES)
def test_a_redirect_within_the_host_keeps_the_key(serve: Serve, name: str) -> None:
    def answer(call: HandlerCall) -> Answer:
        return reply(BATCHES[name]) if "moved" in call.path else moved(302, f"{call.path}-moved")

    provider, server = serve(name, answer)
    provider.snapshot("batches/b-1" if name == "gemini" else "b-1")
    assert [KEY in str(call.headers) for call in server.calls] == [True, True]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("start", [0, 40_000])
def test_results_kept_on_another_host_are_downloaded_from_there_without_the_key(
    serve: Serve, other: Loopback, name: str, start: int
) -> None:
    def answer(call: HandlerCall) -> Answer:
        if call.path.partition("?")[0].endswith(CONTENT[name]):
            return moved(302, f"{other.url}/{name}{call.path}")
        url = f"http://{call.headers['host']}{call.path}/results"
        return reply(BATCHES[name] | {"processing_status": "ended", "results_url": url})

    provider, _ = serve(name, answer)
    ended = Snapshot("b-1", "ended", Lifecycle.ENDED, BatchOutcome.COMPLETED, results_ref="files/out")
    (part,) = provider.results(ended)
    assert part.resume is not None
    chunks = part.resume(start) if start else part.chunks
    assert b"".join(chunks) == RESULTS[start:]
    assert keyless(other)


def test_an_upload_to_gemini_that_is_redirected_takes_no_key_along(
    serve: Serve, submission: Submission, other: Loopback
) -> None:
    provider, _ = serve("gemini", lambda call: moved(307, f"{other.url}/gemini{call.path}"))
    with pytest.raises(Exception, match="HTTP 307"):
        provider.upload(dataclasses.replace(submission, input_ref=None))
    assert other.calls == []
