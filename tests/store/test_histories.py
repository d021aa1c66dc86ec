"""Random histories of several holders on one store: no double holder, no illegal move, books that add up."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import Engine

from layton_batch.errors import StaleStateError
from layton_batch.records import Batch, Entry
from layton_batch.states import MOVES, OPEN, Lifecycle
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.rows import Money
from layton_batch.store.run_store import RunStore
from tests.store.rows import JOB, NOW, batch, moved, store_on

BATCHES, HOLDERS, SECONDS = 3, 3, 100.0
holders = st.integers(0, HOLDERS - 1)
numbers = st.integers(0, BATCHES - 1)


class Histories(RuleBasedStateMachine):
    """The model beside the store: who may write (the last to take each batch), each batch's state, and its money."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.engine: Engine = open_engine(sqlite_url(Path(self.folder.name) / "state.sqlite3"))
        self.stores = [store_on(self.engine, SECONDS) for _ in range(HOLDERS)]
        self.now = NOW
        self.seen: dict[tuple[int, int], Batch] = {}  # what each holder believes of a batch it took
        self.owner: dict[int, int] = {}
        self.until: dict[int, float] = {}
        self.state = dict.fromkeys(range(BATCHES), Lifecycle.PLANNED)
        self.reserved = dict.fromkeys(range(BATCHES), Decimal(0))
        self.told: list[tuple[str, str]] = []

    @initialize()
    def planned(self) -> None:
        store = self.stores[0]
        store.create("0" * 64, "{}", "0", self.now, prices=str)
        store.add_jobs([JOB], self.now)
        store.plan_job(JOB, [batch(number) for number in range(BATCHES)], self.now)

    @rule(seconds=st.sampled_from([1.0, 60.0, 101.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(who=holders, number=numbers)
    def claim(self, who: int, number: int) -> None:
        taken = self.stores[who].claim(self.now, ids=[batch(number).id])
        free = number not in self.owner or self.until[number] <= self.now
        assert bool(taken) == (free and self.state[number] in OPEN)
        if taken:
            assert taken[0].state is self.state[number]
            self.owner[number], self.until[number] = who, self.now + SECONDS
            self.seen[who, number] = taken[0]

    @rule(who=holders, number=numbers)
    def let_go(self, who: int, number: int) -> None:
        if (who, number) in self.seen:
            self.stores[who].release([batch(number).id])
            del self.seen[who, number]
            if self.owner.get(number) == who:
                del self.owner[number]

    @rule(who=holders)
    def renew(self, who: int) -> None:
        self.stores[who].renew(self.now)
        for number, owner in self.owner.items():
            if owner == who:
                self.until[number] = self.now + SECONDS

    @rule(who=holders)
    def die(self, who: int) -> None:
        """The process ends and another takes its place: what it had in hand is free."""
        self.stores[who].close()
        self.stores[who] = store_on(self.engine, SECONDS)
        self.owner = {number: owner for number, owner in self.owner.items() if owner != who}
        self.seen = {key: one for key, one in self.seen.items() if key[0] != who}

    @rule(who=holders, number=numbers, wish=st.sampled_from(list(Lifecycle)))
    def move(self, who: int, number: int, wish: Lifecycle) -> None:
        believed = self.seen.get((who, number))
        if believed is None or wish not in MOVES[believed.state]:
            return
        paying = wish is Lifecycle.SUBMITTING
        allowed = self.owner.get(number) == who and not (paying and self.until[number] <= self.now)
        money = self._money(number, wish)
        try:
            self.stores[who].apply(believed, moved(believed, wish, f"to {wish}", entries=money), self.now)
        except StaleStateError:
            assert not allowed
            return
        assert allowed
        self.state[number], self.until[number] = wish, self.now + SECONDS
        self.reserved[number] += sum((one.usd if one.kind == "reserved" else -one.usd for one in money), Decimal(0))
        self.told.append((batch(number).id, f"to {wish}"))
        self.seen[who, number] = self.stores[who].batch(believed.id)

    def _money(self, number: int, wish: Lifecycle) -> list[Entry]:
        if wish is Lifecycle.SUBMITTING:
            return [Entry(batch(number).id, "reserved", Decimal("0.50"))]
        if wish in {Lifecycle.PLANNED, Lifecycle.COLLECTED} and self.reserved[number]:
            return [Entry(batch(number).id, "released", self.reserved[number])]
        return []

    @invariant()
    def the_store_is_the_model(self) -> None:
        store: RunStore = self.stores[0]
        if store.row() is None:
            return
        assert [one.state for one in store.batches()] == list(self.state.values())
        moves = [(str(event.batch_id), event.kind) for event in store.events() if event.kind.startswith("to ")]
        assert moves == self.told
        assert store.money() == Money(Decimal(0), sum(self.reserved.values(), Decimal(0)))

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.engine.dispose()
        self.folder.cleanup()


Histories.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestHistories = Histories.TestCase
