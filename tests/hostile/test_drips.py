"""A provider that drips: each call has an end, other providers do not wait for it, and a stop is heard."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from socket import socket

import pytest

from layton_batch.errors import AmbiguousCallError, StoppedError, TransientProviderError
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, CallLimits
from layton_batch.records import Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle
from tests.hostile.conftest import calls
from tests.support.lab import MODELS
from tests.support.raw_server import DRIPS, raw_server
from tests.support.tiers import tiered

SHORT = CallLimits(0.3, bytes_per_second=1e9, stop=0.1)
ENDED = Snapshot("b", "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, results_ref="file-out")
GIVEN_UP = "given up|Timeout"  # at the deadline, or at the same moment by the HTTP library itself
LATEST = 5.0
"""Seconds; much more than these calls need, and far less than they took with timeouts of single reads: for ever."""


@pytest.mark.parametrize(
    ("name", "drip"),
    tiered(
        (*MODELS, "xai"),
        DRIPS,
        ci=[("openai", "header lines"), ("mistral", "100 Continue"), ("xai", "nothing")],
    ),
)
def test_a_call_whose_reply_drips_ends_and_a_create_may_have_been_carried_out(
    name: str, drip: str, submission: Submission
) -> None:
    with raw_server(DRIPS[drip]) as url, closing(connect(name, Access("key", url, SHORT))) as provider:
        for call, expected in calls(provider, submission, TransientProviderError):
            begun = time.monotonic()
            with pytest.raises(expected, match=GIVEN_UP):
                call()
            assert time.monotonic() - begun < LATEST


def test_a_create_that_was_given_up_is_not_carried_out_later(submission: Submission) -> None:
    """The server begins to read again after the deadline, and the request never comes whole."""
    submission.path.write_bytes(b"x" * 30_000_000)
    came: list[int] = []
    given_up, ended = threading.Event(), threading.Event()

    def play(connection: socket, _over: threading.Event) -> None:
        given_up.wait(LATEST)
        size = 0
        with suppress(OSError):
            while piece := connection.recv(1_000_000):
                size += len(piece)
        came.append(size)
        ended.set()

    with raw_server(play) as url, closing(connect("anthropic", Access("key", url, SHORT))) as provider:
        with pytest.raises(AmbiguousCallError, match=GIVEN_UP):
            provider.create(submission)
        given_up.set()
        assert ended.wait(LATEST)
    assert 0 < came[0] < 30_000_000


def test_a_download_that_drips_breaks_off_with_what_has_come() -> None:
    came: list[bytes] = []
    with raw_server(DRIPS["a slow body"]) as url, closing(connect("openai", Access("key", url, SHORT))) as provider:
        (part,) = provider.results(ENDED)
        with pytest.raises(TransientProviderError, match=GIVEN_UP):
            came.extend(part.chunks)
    assert set(b"".join(came)) == {ord(" ")}


def test_a_stop_is_heard_during_a_call(submission: Submission) -> None:
    stopping = threading.Event()
    with raw_server(DRIPS["a slow body"]) as url:
        access = Access("key", url, CallLimits(stop=0.1), stopping)
        with closing(connect("openai", access)) as provider:
            threading.Timer(0.2, stopping.set).start()
            begun = time.monotonic()
            with pytest.raises(StoppedError):
                provider.create(submission)
            with pytest.raises(StoppedError, match="before this call"):
                provider.snapshot("batches/b")
            assert time.monotonic() - begun < 2.0 + LATEST
