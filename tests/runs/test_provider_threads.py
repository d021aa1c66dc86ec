"""Provider threads: providers side by side, none waiting for another; the creates of one take turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from layton_batch.errors import MissingKeyError, StoppedError
from layton_batch.providers import BUILT_IN, connect
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch
from layton_batch.runs.provider_threads import ProviderThread, ProviderThreads
from layton_batch.states import AT_PROVIDER, Lifecycle
from tests.support.store_rows import batch

SOON = 0.02
FAST, SLOW = ProviderThread("openai"), ProviderThread("mistral")


def dialect(name: str) -> Provider:
    return connect(name, None)


@pytest.fixture
def threads() -> Iterator[ProviderThreads]:
    with ThreadPoolExecutor(4) as executor:
        yield ProviderThreads(executor, dialect)


def of_ten(threads: ProviderThreads, provider: str, state: Lifecycle) -> list[ProviderThread]:
    """The threads of ten batches."""
    return [threads.of(batch(number, provider=provider, state=state)) for number in range(10)]


# ---- which thread --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", BUILT_IN)
def test_batches_are_polled_and_collected_by_as_many_threads_as_a_provider_is_called_at_once(
    threads: ProviderThreads, provider: str
) -> None:
    for state in (*AT_PROVIDER, Lifecycle.ENDED):
        found = of_ten(threads, provider, state)
        assert {thread.provider for thread in found} == {provider}
        assert {thread.number for thread in found} == {*range(dialect(provider).limits.calls_at_once)}
        assert max(found.count(thread) for thread in found) <= 3


def test_a_batch_keeps_its_thread(threads: ProviderThreads) -> None:
    sent = of_ten(threads, "openai", Lifecycle.PLANNED)
    for state in (Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT, Lifecycle.ENDED):
        assert of_ten(threads, "openai", state) == sent
    other = replace(batch(3, provider="mistral", state=Lifecycle.ENDED), id="another")
    assert threads.of(other) == ProviderThread("mistral", 0)


# ---- turns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", BUILT_IN)
def test_batches_of_a_provider_are_created_one_after_another(threads: ProviderThreads, provider: str) -> None:
    entered = threading.Event()

    def another() -> None:
        with threads.turn(provider):
            entered.set()

    with ThreadPoolExecutor(1) as executor:
        with threads.turn(provider):
            second = executor.submit(another)
            assert not entered.wait(SOON)
        second.result()
    assert entered.is_set()


def test_providers_do_not_wait_for_each_others_turns(threads: ProviderThreads) -> None:
    with threads.turn("anthropic"), threads.turn("xai"):
        pass


# ---- work ----------------------------------------------------------------------------------------------------------


def test_a_busy_thread_is_left_alone_and_a_later_tick_says_what_it_moved(threads: ProviderThreads) -> None:
    let_go, begun = threading.Event(), list[ProviderThread]()
    in_hand = batch(1)

    def step(thread: ProviderThread, _batches: Sequence[Batch]) -> bool:
        begun.append(thread)
        return thread == SLOW and let_go.wait(30.0)

    assert not threads.work(step, {FAST: (), SLOW: (in_hand,)}, SOON)
    assert threads.are_busy
    assert threads.sending == {in_hand.id: in_hand}
    assert not threads.work(step, {FAST: (), SLOW: ()}, SOON)
    assert sorted(begun) == [SLOW, FAST, FAST]
    assert threads.sending == {in_hand.id: in_hand}
    let_go.set()
    assert threads.work(step, {}, None)
    assert not threads.are_busy
    assert threads.sending == {}


def test_an_error_of_one_thread_is_raised_when_the_others_have_ended(threads: ProviderThreads) -> None:
    tried, ended = threading.Event(), list[str]()

    def step(thread: ProviderThread, _batches: Sequence[Batch]) -> bool:
        if thread.provider == "no key":
            tried.set()
            raise MissingKeyError("no key")
        tried.wait(30.0)
        ended.append(thread.provider)
        return True

    with pytest.raises(MissingKeyError):
        threads.work(step, {ProviderThread(name): () for name in ("a", "no key", "z")}, 30.0)
    assert sorted(ended) == ["a", "z"]
    assert not threads.are_busy


def test_a_call_that_a_stop_cut_short_is_no_error(threads: ProviderThreads) -> None:
    def step(_thread: ProviderThread, _batches: Sequence[Batch]) -> bool:
        raise StoppedError("told to stop")

    assert not threads.work(step, {FAST: ()}, None)
