"""Every reply has an end: one that dribbles is given up, one that is merely large or slow is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any
from unittest import mock

import httpx
import httpx2
import pytest

from layton_batch.errors import AmbiguousCallError, ProviderError, TransientProviderError
from layton_batch.providers import closing, connect, http_rules
from layton_batch.providers.protocol import Access, Provider
from layton_batch.records import Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle

NAMES = ("openai", "groq", "doubleword", "together")
ENDED = Snapshot("b", "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, results_ref="file-out")
Paced = Callable[[bytes, int, float], list[int]]


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Paced]:
    """``paced(body, size, seconds)``: every reply is this body, ``size`` bytes each so many seconds, and the list tells
    how many of each reply were read."""
    now = 0.0
    monkeypatch.setattr(http_rules, "monotonic", lambda: now)

    def handler(library: ModuleType, body: bytes, size: int, seconds: float, read: list[int]) -> Callable[..., Any]:
        class Dribble(library.SyncByteStream):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Iterator[bytes]:
                nonlocal now
                read.append(0)
                for start in range(0, len(body), size):
                    now += seconds
                    read[-1] += size
                    yield body[start : start + size]

        return lambda *_: library.Response(200, stream=Dribble())

    with ExitStack() as stack:

        def serve(body: bytes, size: int, seconds: float) -> list[int]:
            read: list[int] = []
            for library in (httpx, httpx2):
                answer = handler(library, body, size, seconds, read)
                stack.enter_context(mock.patch.object(library.HTTPTransport, "handle_request", answer))
            return read

        yield serve


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with closing(connect(request.param, Access("key", "http://127.0.0.1:1/v1"))) as made:
        yield made


def test_a_reply_of_a_byte_now_and_then_is_given_up_within_minutes(
    provider: Provider, submission: Submission, paced: Paced
) -> None:
    read = paced(b" " * 100_000, 1, 59.0)
    calls: dict[Callable[[], object], type[ProviderError]] = {
        lambda: provider.snapshot("b"): TransientProviderError,
        lambda: provider.find(submission): TransientProviderError,
        lambda: provider.cancel("b"): TransientProviderError,
        lambda: provider.create(submission): AmbiguousCallError,
    }
    for call, expected in calls.items():
        with pytest.raises(expected, match="too slow"):
            call()
    assert read == [6, 6, 6, 6]


def test_a_download_that_keeps_coming_may_take_for_hours(provider: Provider, paced: Paced) -> None:
    body = b"x" * 20_000_000
    paced(body, 100_000, 90.0)  # five hours
    assert [b"".join(part.chunks) == body for part in provider.results(ENDED)] == [True]


def test_a_download_that_dribbles_breaks_off_with_what_has_come(provider: Provider, paced: Paced) -> None:
    paced(b"x" * 1000, 10, 100.0)
    part = next(iter(provider.results(ENDED)))
    came: list[bytes] = []
    with pytest.raises(TransientProviderError, match="too slow"):
        came.extend(part.chunks)
    assert b"".join(came) == b"x" * 30
