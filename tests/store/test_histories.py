"""Random histories of several processes on one store: one driver at a time, no illegal move, books that add up."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import Engine

from layton_batch.errors import AnotherDriverError, StaleStateError
from layton_batch.records import Batch, LedgerEntry
from layton_batch.states import MOVES, Lifecycle
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.rows import RunMoney
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import JOB, NOTHING, NOW, batch, moved, store_on

BATCHES, PROCESSES, SECONDS = 3, 3, 100.0
processes = st.integers(0, PROCESSES - 1)
numbers = st.integers(0, BATCHES - 1)


class Histories(RuleBasedStateMachine):
    """The model beside the store: who drives (the last to take the lease), each batch's state, and its money."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.engine: Engine = open_engine(sqlite_url(Path(self.folder.name) / "state.sqlite3"))
        self.now = NOW
        self.stores = [self._store() for _ in range(PROCESSES)]
        self.seen: dict[tuple[int, int], Batch] = {}  # what each process believes of a batch
        self.driver: int | None = None
        self.until = 0.0
        self.state = dict.fromkeys(range(BATCHES), Lifecycle.PLANNED)
        self.reserved = dict.fromkeys(range(BATCHES), Decimal(0))
        self.told: list[tuple[str, str]] = []

    def _store(self) -> RunStore:
        store = store_on(self.engine, seconds=SECONDS)
        store.lease.clock = lambda: self.now
        return store

    @initialize()
    def planned(self) -> None:
        store = self.stores[0]
        store.enter("0" * 64, "{}", "0", self.now)
        store.drive()
        store.add_jobs([JOB], self.now)
        store.plan_job(JOB, [batch(number) for number in range(BATCHES)], self.now, NOTHING, ())
        self.driver, self.until = 0, self.now + SECONDS

    @rule(seconds=st.sampled_from([1.0, 60.0, 101.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(who=processes)
    def drive(self, who: int) -> None:
        if who == self.driver:
            return
        free = self.driver is None or self.until <= self.now
        try:
            self.stores[who].drive()
        except AnotherDriverError:
            assert not free
            return
        assert free
        self.driver, self.until = who, self.now + SECONDS

    @rule(who=processes)
    def renew(self, who: int) -> None:
        try:
            self.stores[who].renew()
        except AnotherDriverError:
            assert self.driver != who
            return
        assert self.driver == who
        self.until = self.now + SECONDS

    @rule(who=processes)
    def end(self, who: int) -> None:
        """The process ends and another takes its place."""
        self.stores[who].stop_driving()
        self.stores[who] = self._store()
        self.driver = None if self.driver == who else self.driver
        self.seen = {key: one for key, one in self.seen.items() if key[0] != who}

    @rule(who=processes, number=numbers)
    def look(self, who: int, number: int) -> None:
        self.seen[who, number] = self.stores[who].batch(batch(number).id)

    @rule(who=processes, number=numbers, wish=st.sampled_from(list(Lifecycle)))
    def move(self, who: int, number: int, wish: Lifecycle) -> None:
        believed = self.seen.get((who, number))
        if believed is None or wish not in MOVES[believed.state]:
            return
        money = self._money(number, wish)
        try:
            self.stores[who].apply(believed, moved(believed, wish, f"to {wish}", entries=money), self.now)
        except AnotherDriverError:
            assert self.driver != who
            return
        except StaleStateError:
            assert self.state[number] is not believed.state
            return
        assert self.driver == who
        assert self.state[number] is believed.state
        self.state[number] = wish
        if wish is Lifecycle.SUBMITTING:
            self.until = self.now + SECONDS
        self.reserved[number] += sum((one.usd if one.kind == "reserved" else -one.usd for one in money), Decimal(0))
        self.told.append((batch(number).id, f"to {wish}"))
        self.seen[who, number] = self.stores[who].batch(believed.id)

    def _money(self, number: int, wish: Lifecycle) -> list[LedgerEntry]:
        if wish is Lifecycle.SUBMITTING:
            return [LedgerEntry(batch(number).id, "reserved", Decimal("0.50"))]
        if wish in {Lifecycle.PLANNED, Lifecycle.COLLECTED} and self.reserved[number]:
            return [LedgerEntry(batch(number).id, "released", self.reserved[number])]
        return []

    @invariant()
    def the_store_is_the_model(self) -> None:
        store: RunStore = self.stores[0]
        if store.row() is None:
            return
        assert [one.state for one in store.batches()] == list(self.state.values())
        moves = [(str(event.batch_id), event.kind) for event in store.events() if event.kind.startswith("to ")]
        assert moves == self.told
        assert store.money() == RunMoney(Decimal(0), sum(self.reserved.values(), Decimal(0)))

    def teardown(self) -> None:
        self.engine.dispose()
        self.folder.cleanup()


Histories.TestCase.settings = settings(
    max_examples=settings().max_examples // 4,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestHistories = Histories.TestCase
