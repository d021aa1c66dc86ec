"""Batches that are over are read once, and shown as they are by now all the same."""

from __future__ import annotations

from layton_batch.records import Batch
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.store.run_store import RunStore
from tests.store.rows import NOW, moved, opened, store_on


def collect(store: RunStore, batch: Batch) -> Batch:
    for state in (Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT, Lifecycle.ENDED):
        batch = store.apply(batch, moved(batch, state), NOW)
    return store.apply(batch, moved(batch, Lifecycle.COLLECTED, outcome=BatchOutcome.COMPLETED), NOW)


def states(store: RunStore) -> list[str]:
    return [str(batch.state) for batch in store.batches()]


def test_what_another_process_collected_since_is_shown_in_the_order_of_entry(url: str) -> None:
    with opened(url, 4) as store:
        other = store_on(store.engine)
        assert states(store) == ["planned"] * 4
        collect(other, other.batches()[1])
        assert states(store) == ["planned", "collected", "planned", "planned"]
        collect(store, store.batches()[3])
        assert states(store) == states(other) == ["planned", "collected", "planned", "collected"]
        assert store.batches() == other.batches() == store.batches([*Lifecycle])


def test_a_batch_that_is_over_is_not_read_again(url: str) -> None:
    with opened(url, 2) as store:
        collect(store, store.batches()[0])
        first, again = store.batches(), store.batches()
        assert first[0] is again[0]
        assert first[1] is not again[1]


def test_a_changed_row_of_a_batch_that_is_over_is_read_again(url: str) -> None:
    with opened(url, 2) as store:
        over = collect(store, store.batches()[0])
        other = store_on(store.engine)
        assert store.batches()[0].reason is None
        other.apply(over, moved(over, Lifecycle.COLLECTED, reason="a person said so"), NOW)
        assert store.batches()[0].reason == "a person said so"
