"""A provider's batches in several lanes: what is asked once, what is read again, what never overlaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Lock

import pytest

from layton_batch.errors import AmbiguousCallError
from layton_batch.pipeline import advance
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.states import Lifecycle
from tests.support.lab import Lab, lab, manifest_text

Call = Callable[..., object]


def several(provider: str, count: int = 3) -> str:
    """So many models at one provider, a batch each."""
    head, _, rest = manifest_text((provider,), limit=2).partition("[[models]]")
    model, found, tail = f"[[models]]{rest}".partition("[jury]")
    models = (model.replace('name = "', f'name = "{number} ', 1) for number in range(count))
    return (
        head + "".join(one.replace("= 4000", f"= {4000 + number}") for number, one in enumerate(models)) + found + tail
    )


def wrap(run: Run, provider: str, name: str, around: Callable[[Call], Call]) -> None:
    """Every lane's calls of this name go through ``around``."""
    for number in range(run.providers.dialect(provider).limits.calls_at_once):
        client = run.providers.of(ProviderThread(provider, number))
        setattr(client, name, around(getattr(client, name)))


class Counted:
    """Calls of a kind: how many there were, and how many at once at most."""

    def __init__(self, count_of: int = 0) -> None:
        self.calls = self.now = self.most = 0
        self.enough, self._lock, self._count_of = Event(), Lock(), count_of

    def __call__(self, original: Call) -> Call:
        def call(*arguments: object) -> object:
            with self._lock:
                self.calls, self.now = self.calls + 1, self.now + 1
                self.most = max(self.most, self.now)
            try:
                return original(*arguments)
            finally:
                with self._lock:
                    self.now -= 1
                if self.calls >= self._count_of:
                    self.enough.set()

        return call


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path) as found:
        yield found


def test_a_create_without_an_answer_is_the_last_of_a_provider_that_is_asked_one_at_a_time(bench: Lab) -> None:
    created = Counted()

    def hanging(original: Call) -> Call:
        def call(*arguments: object) -> object:
            if created.calls == 1:
                return original(*arguments)
            raise AmbiguousCallError("anthropic: no answer within 600 seconds")

        return created(call)

    with bench.open(several("anthropic", 4)) as run:
        wrap(run, "anthropic", "create", hanging)
        advance(run)
        states = sorted(batch.state for batch in run.store.batches() if batch.provider == "anthropic")
        assert states == [Lifecycle.IN_FLIGHT, Lifecycle.PLANNED, Lifecycle.PLANNED, Lifecycle.SUBMITTING]
    assert created.calls == 2


def test_each_create_has_a_list_of_its_own_before_it(bench: Lab) -> None:
    lists, created = Counted(), Counted()
    with bench.open(several("anthropic", 5)) as run:
        wrap(run, "anthropic", "find", lists)
        wrap(run, "anthropic", "create", created)
        advance(run)
    assert (lists.calls, created.calls, created.most) == (5, 5, 1)


def test_a_batch_that_has_ended_is_read_once_in_a_tick(bench: Lab) -> None:
    readings = Counted()
    with bench.open(several("openai")) as run:
        advance(run)
        wrap(run, "openai", "snapshot", readings)
        bench.clock.sleep(3600)
        advance(run)
        assert {batch.state for batch in run.store.batches() if batch.provider == "openai"} == {Lifecycle.COLLECTED}
    assert readings.calls == 3
