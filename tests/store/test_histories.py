"""Random histories of several processes on one store: one driver at a time, no illegal move, books that add up."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import Engine

from layton_batch.errors import AnotherDriverError, StaleStateError
from layton_batch.records import Batch
from layton_batch.states import MOVES, Lifecycle
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.rows import RunMoney
from layton_batch.store.run_lock import driving
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import JOB, NOTHING, NOW, batch, moved, store_on

BATCHES, PROCESSES = 3, 3
processes = st.integers(0, PROCESSES - 1)
numbers = st.integers(0, BATCHES - 1)


class Histories(RuleBasedStateMachine):
    """The model beside the store: who holds the lock, each batch's state, and its money."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.lock = Path(self.folder.name) / ".lock"
        self.engine: Engine = open_engine(sqlite_url(Path(self.folder.name) / "state.sqlite3"))
        self.stores = [store_on(self.engine) for _ in range(PROCESSES)]
        self.seen: dict[tuple[int, int], Batch] = {}  # what each process believes of a batch
        self.driver: int | None = None
        self.driving = ExitStack()
        self.state = dict.fromkeys(range(BATCHES), Lifecycle.PLANNED)
        self.told: list[tuple[str, str]] = []

    @initialize()
    def planned(self) -> None:
        store = self.stores[0]
        store.enter("0" * 64, "{}", "0", NOW)
        store.add_jobs([JOB], NOW)
        store.plan_job(JOB, [batch(number) for number in range(BATCHES)], NOW, NOTHING, ())

    @rule(who=processes)
    def drive(self, who: int) -> None:
        try:
            self.driving.enter_context(driving(self.stores[who], self.lock, NOW))
        except AnotherDriverError:
            assert self.driver is not None
            return
        assert self.driver is None
        self.driver = who

    @rule(who=processes)
    def end(self, who: int) -> None:
        """The process ends and another takes its place."""
        if self.driver == who:
            self.driving.close()
            self.driver = None
        self.stores[who] = store_on(self.engine)
        self.seen = {key: one for key, one in self.seen.items() if key[0] != who}

    @rule(who=processes, number=numbers)
    def look(self, who: int, number: int) -> None:
        self.seen[who, number] = self.stores[who].batch(batch(number).id)

    @rule(who=processes, number=numbers, wish=st.sampled_from(list(Lifecycle)))
    def move(self, who: int, number: int, wish: Lifecycle) -> None:
        believed = self.seen.get((who, number))
        if believed is None or wish not in MOVES[believed.state]:
            return
        try:
            self.stores[who].apply(believed, moved(believed, wish, f"to {wish}"), NOW)
        except StaleStateError:
            assert self.state[number] is not believed.state
            return
        assert self.state[number] is believed.state
        self.state[number] = wish
        self.told.append((batch(number).id, f"to {wish}"))
        self.seen[who, number] = self.stores[who].batch(believed.id)

    @invariant()
    def the_store_is_the_model(self) -> None:
        store: RunStore = self.stores[0]
        if store.row() is None:
            return
        assert [one.state for one in store.batches()] == list(self.state.values())
        moves = [(str(event.batch_id), event.kind) for event in store.events() if event.kind.startswith("to ")]
        assert moves == self.told
        open_batches = sum(state not in (Lifecycle.PLANNED, Lifecycle.COLLECTED) for state in self.state.values())
        assert store.money() == RunMoney(Decimal(0), open_batches * Decimal("0.50"))

    def teardown(self) -> None:
        self.driving.close()
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
