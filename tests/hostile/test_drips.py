"""A provider that drips: each call has an end, other providers do not wait for it, and a stop is heard."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from socket import socket

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderError, StoppedError, TransientProviderError
from layton_batch.pipeline import advance
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, Patience, Provider
from layton_batch.records import Submission
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState
from layton_batch.states import Lifecycle
from tests.hostile.raw_server import DRIPS, raw_server
from tests.hostile.tampering import Answer, hostile
from tests.pipeline.lab import manifest_text
from tests.simulation.world import SEVEN

SHORT = Patience(connect=0.3, head=0.3, head_of_reading=0.3, grace=0.3, slowest=1e6, stop=0.1)
LATEST = 5.0
"""Seconds; much more than these calls need, and far less than they took with timeouts of single reads: for ever."""


def calls(provider: Provider, submission: Submission) -> Iterator[tuple[Callable[[], object], type[ProviderError]]]:
    yield lambda: provider.snapshot("batches/b"), TransientProviderError
    yield lambda: provider.find(submission), TransientProviderError
    yield lambda: provider.create(submission), AmbiguousCallError


@pytest.mark.parametrize("drip", DRIPS)
@pytest.mark.parametrize("name", SEVEN)
def test_a_call_whose_reply_drips_ends_and_a_create_may_have_been_carried_out(
    name: str, drip: str, submission: Submission
) -> None:
    with raw_server(DRIPS[drip]) as url, closing(connect(name, Access("key", url, SHORT))) as provider:
        for call, expected in calls(provider, submission):
            begun = time.monotonic()
            with pytest.raises(expected, match="too slow"):
                call()
            assert time.monotonic() - begun < LATEST


@pytest.mark.parametrize("drip", DRIPS)
@pytest.mark.parametrize("name", ["xai", "sference"])
def test_a_call_through_an_adapter_ends_as_well_and_hears_a_stop(name: str, drip: str, submission: Submission) -> None:
    stopping = threading.Event()
    access = Access("key", "", replace(SHORT, slowest=1e9), stopping)
    with raw_server(DRIPS[drip]) as url, closing(connect(name, replace(access, base_url=url))) as provider:
        begun = time.monotonic()
        with pytest.raises(TransientProviderError, match=r"too slow|Timeout"):
            provider.snapshot("b")
        with pytest.raises(AmbiguousCallError, match=r"too slow|Timeout"):
            provider.create(submission)
        stopping.set()
        with pytest.raises(StoppedError):
            provider.create(submission)
        assert time.monotonic() - begun < 2 * LATEST


def _wait_for(over: threading.Event) -> None:
    over.wait()


@pytest.mark.parametrize("name", SEVEN)
def test_an_upload_that_nobody_reads_ends(name: str, submission: Submission) -> None:
    submission.path.write_bytes(b"x" * 30_000_000)
    with (
        raw_server(lambda _connection, over: _wait_for(over)) as url,
        closing(connect(name, Access("key", url, SHORT))) as provider,
    ):
        begun = time.monotonic()
        send = provider.create if name == "anthropic" else provider.upload  # it has no uploads: the create is one
        with pytest.raises((TransientProviderError, AmbiguousCallError), match="too slow"):
            send(submission)
        assert time.monotonic() - begun < LATEST


def test_a_slow_upload_that_goes_on_is_not_ended(submission: Submission) -> None:
    submission.path.write_bytes(b"x" * 8_000_000)
    took: list[float] = []

    def play(connection: socket, over: threading.Event) -> None:
        begun, came = time.monotonic(), 0
        while came < 7_900_000 and not over.is_set():
            time.sleep(0.005)
            came += len(connection.recv(32_768))
        took.append(time.monotonic() - begun)
        connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{"id": "batch-one"}')

    slow = Patience(grace=0.3, slowest=1e5)
    with raw_server(play) as url, closing(connect("anthropic", Access("key", url, slow))) as provider:
        assert provider.create(submission) == "batch-one"
    assert took[0] > slow.grace


@pytest.mark.parametrize("drip", DRIPS)
@pytest.mark.parametrize("name", SEVEN)
def test_a_stop_is_heard_during_a_call(name: str, drip: str, submission: Submission) -> None:
    stopping = threading.Event()
    with raw_server(DRIPS[drip]) as url:
        access = Access("key", url, Patience(stop=0.1), stopping)
        with closing(connect(name, access)) as provider:
            threading.Timer(0.2, stopping.set).start()
            begun = time.monotonic()
            with pytest.raises(StoppedError):
                provider.create(submission)
            with pytest.raises(StoppedError, match="before this call"):
                provider.snapshot("batches/b")
            assert time.monotonic() - begun < 2.0 + LATEST


@pytest.mark.parametrize("dripping", SEVEN)
def test_a_provider_that_does_not_answer_holds_up_no_other(tmp_path: Path, dripping: str) -> None:
    other = "groq" if dripping != "groq" else "openai"
    text = manifest_text((dripping, other), limit=2)
    let_go, held = threading.Event(), threading.Event()

    def tamper(provider: str, kind: str, _path: str, answer: Answer) -> Answer:
        if provider == dripping and kind == "poll" and not let_go.is_set():
            held.set()
            let_go.wait(30.0)
        return answer

    with hostile(tmp_path) as (bench, between):
        between.tamper = tamper
        with bench.open(text) as run:
            try:
                for _ in range(40):
                    advance(run, patience=0.1)
                    if _states(run, other) == {Lifecycle.COLLECTED} and held.is_set():
                        break
                    bench.clock.sleep(10.0)
                assert held.is_set()
                assert _states(run, other) == {Lifecycle.COLLECTED}
                assert _states(run, dripping) == {Lifecycle.IN_FLIGHT}
            finally:
                let_go.set()
        status = bench.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(bench.billed().values()) == {1}


def _states(run: Run, provider: str) -> set[Lifecycle]:
    """Of the batches that answer the questions."""
    predict = {job.id for job in run.store.jobs() if job.role == "predict"}
    return {batch.state for batch in run.store.batches() if batch.provider == provider and batch.job_id in predict}
