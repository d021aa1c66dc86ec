"""A provider's batches are served in a few lanes; only what its list cannot confuse is created side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from layton_batch.providers import BUILT_IN, connect
from layton_batch.providers.protocol import Provider
from layton_batch.runs.context import Providers
from layton_batch.runs.lanes import Lane, Seats
from layton_batch.states import AT_PROVIDER, Lifecycle
from tests.store.rows import batch

APART = {"openai", "groq", "doubleword", "gemini", "mistral", "together"}


def dialect(name: str) -> Provider:
    return connect(name, None)


def lanes(provider: str, state: Lifecycle, seats: Seats | None = None) -> list[Lane]:
    seats = seats or Seats(dialect)
    return [seats.lane(batch(number, provider=provider, state=state)) for number in range(10)]


@pytest.mark.parametrize("provider", BUILT_IN)
def test_batches_are_polled_and_collected_in_as_many_lanes_as_a_provider_is_called_at_once(provider: str) -> None:
    for state in (*AT_PROVIDER, Lifecycle.ENDED):
        found = lanes(provider, state)
        assert {one.provider for one in found} == {provider}
        assert {one.number for one in found} == {*range(dialect(provider).limits.calls_at_once)}
        assert max(found.count(one) for one in found) <= 3


@pytest.mark.parametrize("provider", BUILT_IN)
def test_batches_are_created_and_looked_for_one_after_another_where_a_list_could_confuse_them(provider: str) -> None:
    seats, entered = Seats(dialect), Event()

    def another() -> None:
        with seats.turn(provider):
            entered.set()

    with ThreadPoolExecutor(1) as executor:
        with seats.turn(provider):
            second = executor.submit(another)
            assert entered.wait(1.0 if provider in APART else 0.02) == (provider in APART)
        second.result()
    assert entered.is_set()


def test_providers_do_not_wait_for_each_others_turns() -> None:
    seats = Seats(dialect)
    with seats.turn("anthropic"), seats.turn("xai"):
        pass


def test_a_batch_keeps_its_lane() -> None:
    seats = Seats(dialect)
    sent = lanes("openai", Lifecycle.PLANNED, seats)
    for state in (Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT, Lifecycle.ENDED):
        assert lanes("openai", state, seats) == sent
    other = replace(batch(3, provider="mistral", state=Lifecycle.ENDED), id="another")
    assert seats.lane(other) == Lane("mistral", 0)


def test_a_lane_has_a_connection_of_its_own() -> None:
    providers = Providers(dialect, dialect)
    first, second = providers.of(Lane("openai", 0)), providers.of(Lane("openai", 1))
    assert first is not second
    assert providers.get("openai") is first
    assert providers.of(Lane("openai", 1)) is second
