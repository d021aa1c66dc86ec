"""Other hosts that a reply names: no call goes there, but an upload without the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderError, ProviderReplyError
from layton_batch.providers import BUILT_IN, closing, connect
from layton_batch.providers.protocol import Access
from layton_batch.records import Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .conftest import KEY, Play, Serve, Wire, reply
from .documents import anthropic_batch, gemini_batch, mistral_job

BATCHES = {"anthropic": anthropic_batch(), "gemini": gemini_batch(), "mistral": mistral_job()}
CONTENT = ("/results", ":download", "/content")
RESULTS = b"".join(b'{"custom_id": "c-%d"}\n' % number for number in range(3000))
ENDED = Snapshot("b-1", "ended", Lifecycle.ENDED, BatchOutcome.COMPLETED, results_ref="files/out")


def moved(status: int, url: str) -> Answer:
    return Answer(status, b"moved", {"location": url})


@pytest.fixture
def other() -> Iterator[Loopback]:
    """Another host: it has every file's content, and says it has every batch."""

    def answer(call: HandlerCall) -> Answer:
        if not call.path.partition("?")[0].endswith(CONTENT):
            return reply(next((batch for name, batch in BATCHES.items() if f"/{name}/" in call.path), {"id": "x"}))
        start = int(call.headers.get("range", "bytes=0-")[6:-1])
        given = {"content-range": f"bytes {start}-{len(RESULTS) - 1}/{len(RESULTS)}"}
        return Answer(206 if start else 200, RESULTS[start:], given)

    with Loopback(answer) as server:
        server.url = server.url.replace("127.0.0.1", "localhost")
        yield server


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "vertex"])
def test_no_call_takes_the_key_to_another_host(
    serve: Serve, submission: Submission, other: Loopback, name: str
) -> None:
    provider, server = serve(name, lambda call: moved(307, f"{other.url}/{name}{call.path}"))
    calls: list[Callable[[], object]] = [
        lambda: provider.upload(replace(submission, input_ref=None)),
        lambda: provider.find(submission),
        lambda: provider.snapshot("batches/b-1" if name == "gemini" else "b-1"),
        lambda: [list(part.chunks) for part in provider.results(ENDED)],
    ]
    for call in calls:
        with suppress(ProviderError):
            call()
    before = len(server.calls)
    with pytest.raises(AmbiguousCallError):  # it may have been carried out
        provider.create(submission)
    assert len(server.calls) == before + 1
    assert any(KEY in str(call.headers) for call in server.calls)
    assert not any(KEY in str(call.headers) for call in other.calls)


def test_anthropics_results_are_read_below_the_configured_address(play: Play, other: Loopback) -> None:
    """A batch names the address of its results: behind a proxy that is the provider's own."""
    named = anthropic_batch("ended", results_url=f"{other.url}/v1/messages/batches/b-1/results")
    provider, server = play("anthropic", {"/results": Answer(200, RESULTS), "": named})
    (part,) = provider.results(provider.snapshot("b-1"))
    assert b"".join(part.chunks) == RESULTS
    assert (len(server.calls), other.calls) == (2, [])


DOWNLOADS = (*BATCHES, "openai", "groq", "doubleword", "together", "openrouter", "xai")


@pytest.mark.parametrize("name", DOWNLOADS)
def test_results_that_lead_to_another_host_are_refused_by_its_name(play: Play, other: Loopback, name: str) -> None:
    elsewhere = moved(302, f"{other.url}/{name}/content")
    file = {"files/out&": {"bytes": 11}} if name == "together" else {}  # it looks at a file before it reads it
    (part,) = play(name, {**file, "": elsewhere})[0].results(ENDED)
    for read in (lambda: part.chunks, *([lambda: part.resume(40_000)] if part.resume else [])):
        with pytest.raises(ProviderReplyError, match="leads to the host localhost"):
            list(read())
    assert other.calls == []


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "mistral"])
def test_results_that_have_moved_on_the_same_host_are_read_there(play: Play, name: str) -> None:
    provider, server = play(name, {"/moved&": Answer(200, RESULTS), "": moved(302, "/moved")})
    (part,) = provider.results(ENDED)
    assert b"".join(part.chunks) == RESULTS
    assert KEY in str(server.calls[-1].headers)


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "[::1]", "0.0.0.0"])
def test_no_reply_from_elsewhere_leads_a_call_to_this_machine(wire: Wire, submission: Submission, host: str) -> None:
    address, there = "https://198.51.100.1", {"location": f"http://{host}/latest", "x-together-file-id": "file-1"}
    calls = wire(lambda _call: Answer(302, b"", there))
    for name, base, read in (
        ("openai", f"{address}/v1", lambda provider: list(next(iter(provider.results(ENDED))).chunks)),
        ("together", address, lambda provider: provider.upload(submission)),  # to the address that a reply names
    ):
        with (
            closing(connect(name, Access(KEY, base))) as provider,
            pytest.raises(ProviderReplyError, match="leads"),
        ):
            read(provider)
    assert {call.headers["host"] for call in calls} == {"198.51.100.1"}
