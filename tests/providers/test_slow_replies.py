"""Every reply has an end: one that dribbles is given up, one that is merely large or slow is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderError, TransientProviderError
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, Provider
from layton_batch.records import Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle

from .paced import Paced, slow_network

NAMES = ("openai", "groq", "doubleword", "together")
ENDED = Snapshot("b", "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, results_ref="file-out")


@pytest.fixture
def paced() -> Iterator[Paced]:
    with slow_network() as serve:
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
    assert read == [5, 5, 5, 5]


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
