"""A batch that would break a provider's limits is held back, and says why."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.batches.send import provider_wait
from layton_batch.pipeline import advance
from layton_batch.providers.protocol import Limits
from layton_batch.runs.context import Run
from layton_batch.states import Lifecycle
from layton_batch.store.run_store import RunStore
from layton_batch.store.standing import ProviderLoad
from tests.support.lab import Lab, lab, manifest_text
from tests.support.store_rows import NOW, batch, moved, opened

TWO = manifest_text(("openai",)) + '[[models]]\nname = "other"\nprovider = "openai"\nmodel = "larch-2-nano"\n'


def ticks(bench: Lab, run: Run, until: Callable[[], bool]) -> None:
    for _ in range(20):
        if until():
            return
        advance(run)
        bench.clock.sleep(60.0)
    raise AssertionError(run.store.batches())


def test_a_batch_that_waits_for_a_person_leaves_its_room_to_others(tmp_path: Path) -> None:
    text = (
        manifest_text(("openai",))
        + "[limits.openai]\nmax_requests = 2\nmax_concurrent_batches = 1\n[budget]\nmax_usd = 0.015\n"
    )
    with lab(tmp_path) as bench:
        first, second = (one for one in bench.plan_only(text).batches if one.provider == "openai")
        with (bench.runs / first.path).open("ab") as file:
            file.write(b"\n")
        with bench.open(text) as run:
            ticks(bench, run, lambda: run.store.batch(second.id).state is Lifecycle.COLLECTED)
            assert run.store.batch(first.id).state is Lifecycle.PLANNED
        assert (first.max_cost or 0) < Decimal("0.015") < (first.max_cost or 0) + (second.max_cost or 0)


def test_the_manifests_own_limits_hold_and_the_documents_sizes_are_not_exceeded(tmp_path: Path) -> None:
    text = TWO + "[limits.openai]\nmax_requests = 3\nmax_bytes = 9_000_000_000\nmax_concurrent_batches = 1\n"
    with lab(tmp_path) as bench, bench.open(text) as run:
        documented = type(run.providers.dialect("openai")).limits
        limits = run.providers.dialect("openai").limits
        assert (limits.max_requests, limits.max_bytes) == (3, documented.max_bytes)
        assert limits.max_creates_per_hour == documented.max_creates_per_hour
        assert run.providers.get("openai").limits == limits
        advance(run)
        predicting = [one for one in run.store.batches() if one.provider == "openai"]
        assert sorted(one.requests for one in predicting) == [1, 1, 3, 3]
        assert [one.state for one in predicting].count(Lifecycle.IN_FLIGHT) == 1
        assert any("runs 1 batches at once" in str(one.reason) for one in predicting)
        ticks(bench, run, lambda: all(one.state is Lifecycle.COLLECTED for one in run.store.batches()))
        assert set(bench.billed().values()) == {1}
    assert bench.manifest(text).identity() != bench.manifest(TWO).identity()
    slower = "[limits.openai]\nmax_enqueued_tokens = 2_000_000\n"
    assert bench.manifest(TWO + slower).identity() == bench.manifest(TWO).identity()


@pytest.mark.parametrize(
    ("standing", "limits", "said"),
    [
        (ProviderLoad(), {}, None),
        (ProviderLoad(running=2), {"max_concurrent_batches": 3}, None),
        (ProviderLoad(running=3), {"max_concurrent_batches": 3}, "runs 3 batches at once"),
        (ProviderLoad(creates=4, oldest_create=NOW), {"max_creates_per_hour": 5}, None),
        (ProviderLoad(creates=5, oldest_create=NOW), {"max_creates_per_hour": 5}, "the next one from 09:00 UTC"),
    ],
)
def test_each_limit_says_what_it_is(standing: ProviderLoad, limits: dict[str, int], said: str | None) -> None:
    found = provider_wait(batch(0), standing, Limits(10, 10, 10, **limits))  # type: ignore[arg-type]
    assert (found is None) == (said is None)
    assert said is None or (found is not None and said in found.reason)


def test_the_queue_is_counted_by_model_and_never_blocks_a_batch_that_is_alone() -> None:
    limits = Limits(10, 10, 10, max_enqueued_tokens=150)
    assert provider_wait(batch(0, size_bytes=4000), ProviderLoad(), limits) is None
    assert provider_wait(batch(0), ProviderLoad(queued_bytes={"another": 4000}), limits) is None
    assert provider_wait(batch(0), ProviderLoad(queued_bytes={"m-1": 200}), limits) is None
    queued = ProviderLoad(queued_bytes={"m-1": 300})
    assert "75 of 150 tokens" in str(provider_wait(batch(0, size_bytes=500), queued, limits))


def test_the_load_of_a_provider_counts_what_every_run_of_the_database_has_there(url: str) -> None:
    with opened(url, 4) as store:
        submitting = moved(batch(0), Lifecycle.SUBMITTING, "submitting", submitting_at=NOW)
        store.apply(batch(0), submitting, NOW)
        load = store.load("openai", NOW + 1)
        assert load == ProviderLoad(1, {"m-1": 400}, 1, NOW, sending=1)
        assert RunStore(store.engine, "another").load("openai", NOW + 1) == load
        for away in (-4000, 4000):  # also where the clock was put back
            assert (store.load("openai", NOW + away).creates, store.load("openai", NOW + away).sending) == (0, 0)
        assert store.load("mistral", NOW + 1).running == 0
        assert load.plus(batch(2), NOW + 1) == ProviderLoad(2, {"m-1": 800}, 2, NOW, sending=2)
