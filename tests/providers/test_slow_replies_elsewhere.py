"""Replies that dribble, where the client is not an OpenAI-shaped SDK's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderError, TransientProviderError
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, Provider
from layton_batch.records import Submission

from .paced import Paced
from .test_slow_replies import ENDED, paced

__all__ = ["paced"]

NAMES = ("anthropic", "gemini", "mistral", "xai", "sference")


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with closing(connect(request.param, Access("key", "http://127.0.0.1:1"))) as made:
        yield made


def test_a_reply_of_a_byte_now_and_then_is_given_up_within_minutes(
    provider: Provider, submission: Submission, paced: Paced
) -> None:
    read = paced(b" " * 100_000, 1, 59.0)
    calls: list[tuple[Callable[[], object], type[ProviderError]]] = [
        (lambda: provider.snapshot("batches/b"), TransientProviderError),
        (lambda: provider.cancel("batches/b"), TransientProviderError),
    ]
    if provider.capabilities.certain_find:  # the others find nothing, and create over a client of their own
        calls += [
            (lambda: provider.find(submission), TransientProviderError),
            (lambda: provider.create(submission), AmbiguousCallError),
        ]
    for call, expected in calls:
        with pytest.raises(expected, match="too slow"):
            call()
    assert read == [5] * len(calls)


@pytest.mark.parametrize("name", ["gemini", "mistral"])
def test_a_download_that_dribbles_breaks_off_with_what_has_come(name: str, paced: Paced) -> None:
    paced(b"x" * 1000, 10, 100.0)
    with closing(connect(name, Access("key", "http://127.0.0.1:1"))) as provider:
        part = next(iter(provider.results(ENDED)))
        came: list[bytes] = []
        with pytest.raises(TransientProviderError, match="too slow"):
            came.extend(part.chunks)
    assert b"".join(came) == b"x" * 30
