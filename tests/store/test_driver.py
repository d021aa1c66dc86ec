"""One process drives a run: who may take the lease, who still holds it, and who writes nothing any more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from layton_batch.batches.machine import held_back
from layton_batch.clock import LONGEST_PAUSE, SystemClock
from layton_batch.errors import AnotherDriverError, RunCancelledError, StoreError
from layton_batch.processes import machine, started
from layton_batch.states import Lifecycle
from layton_batch.store import schema
from layton_batch.store.driver import is_dead, lease_clock, new_owner, retire
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.orders import OrderKind, give_order, pending_orders, settle_order
from layton_batch.store.reopening import go_on
from layton_batch.store.run_store import RunStore
from tests.support.paths import ROOT
from tests.support.store_rows import NOW, RUN, batch, driving, moved, noted, opened, store_on

DAY = 86_400.0
DRIVE = """
import os, sys
from layton_batch.store.engine import open_engine
from layton_batch.store.run_store import RunStore
store = RunStore(open_engine(sys.argv[1]), sys.argv[2])
store.lease.clock = lambda: float(sys.argv[3])
store.drive()
print(store.lease.owner, flush=True)
sys.stdin.read()
os._exit(9)
"""


# ---- whether a process is dead -------------------------------------------------------------------------------------


def test_a_driver_of_this_process_is_alive_until_it_retires() -> None:
    owner = new_owner()
    assert new_owner() != owner
    assert not is_dead(owner)
    retire(owner)
    assert is_dead(owner)


def test_what_cannot_be_known_is_not_called_dead() -> None:
    pid, begun = 2**22 + 1, "1"
    assert is_dead(f"{machine()}/{pid}/{begun}/1")
    for owner in (f"elsewhere.boot.1/{pid}/{begun}/1", f"-/{pid}/{begun}/1", "odd", "", "a/b/c/d"):
        assert not is_dead(owner)


def test_a_process_id_used_again_by_another_process_is_not_the_driver() -> None:
    assert started(1) is not None
    assert is_dead(f"{machine()}/1/0/1")


# ---- who drives ----------------------------------------------------------------------------------------------------


def test_a_second_driver_is_refused_and_told_who_drives(url: str) -> None:
    with opened(url) as store:
        other = store_on(store.engine, NOW + 119)
        with pytest.raises(
            AnotherDriverError, match=r"is driven by process \d+ on .+ since 2027-01-15T08:00:00Z"
        ) as told:
            other.drive()
        assert told.value.exit_code == 75
        with pytest.raises(AnotherDriverError):
            other.require_undriven()
        store.stop_driving()
        other.require_undriven()
        other.drive()
        other.require_driver()


def test_a_run_that_is_not_entered_cannot_be_driven(url: str) -> None:
    engine = open_engine(url)
    with pytest.raises(StoreError, match="is not in its state store"):
        store_on(engine).drive()
    engine.dispose()


def test_of_many_processes_that_begin_a_run_at_once_one_drives_it(url: str) -> None:
    def begin(store: RunStore) -> bool:
        store.enter("f" * 64, "{}", "0", NOW)
        try:
            store.drive()
        except AnotherDriverError:
            return False
        return True

    with opened(url) as store:
        stores = [RunStore(store.engine, "fresh") for _ in range(6)]
        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(begin, stores)) == 1
        assert [event.kind for event in stores[0].events()] == ["run_created"]


def test_a_driver_that_is_killed_is_followed_at_once_and_one_that_lives_is_not(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "state.sqlite3")
    with opened(url) as store:
        store.stop_driving()
        other = store_on(store.engine, NOW + 1)
        command = [sys.executable, "-c", DRIVE, url, RUN, str(NOW)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
            assert child.stdout is not None
            owner = child.stdout.readline().strip()
            assert owner
            assert not is_dead(owner)
            with pytest.raises(AnotherDriverError, match=f"process {child.pid} on"):
                other.drive()
            child.kill()
        assert is_dead(owner)
        other.drive()
        other.apply(batch(0), noted(batch(0), "seen"), NOW + 1)


@pytest.mark.parametrize(
    ("later", "free"), [(0.0, False), (119.0, False), (120.0, True), (DAY, True), (-600.0, False), (-DAY, True)]
)
def test_a_lease_can_be_taken_when_it_has_run_out_or_is_from_before_the_clock_was_put_back(
    url: str, later: float, free: bool
) -> None:
    assert LONGEST_PAUSE < DAY
    with opened(url) as store:
        other = store_on(store.engine, NOW + later)
        if free:
            other.drive()
        else:
            with pytest.raises(AnotherDriverError):
                other.drive()


def test_a_lease_that_is_renewed_is_not_taken(url: str) -> None:
    with opened(url) as store:
        for passed in (100.0, 200.0, 300.0):
            store.lease.clock = partial(float, NOW + passed)
            store.renew()
            with pytest.raises(AnotherDriverError):
                store_on(store.engine, NOW + passed + 50).drive()


def test_the_token_grows_with_every_driver_and_files_of_the_one_before_are_waited_for(url: str) -> None:
    with opened(url) as store:
        heard: list[tuple[object, object]] = []
        store.stop_driving()
        other = store_on(store.engine)
        other.arrive = lambda keys, own: heard.append((list(keys), list(own)))
        other.drive()
        assert heard == [([(RUN, "driver", 1)], [(RUN, "driver", 2)])]


# ---- what a driver that lost its lease may not do ------------------------------------------------------------------


WRITES: dict[str, Callable[[RunStore], object]] = {
    "pay": lambda store: store.apply(batch(0), moved(batch(0), Lifecycle.SUBMITTING, "submitting"), NOW),
    "move": lambda store: store.apply(batch(0), moved(batch(0), Lifecycle.ENDED, "withdrawn"), NOW),
    "note": lambda store: store.apply(batch(0), noted(batch(0), "seen"), NOW),
    "event": lambda store: store.add_event(NOW, None, "odd", ""),
    "plan": lambda store: store.add_jobs([], NOW),
    "hold": lambda store: store.apply(batch(0), held_back(batch(0), "why"), NOW),
    "wake": lambda store: store.wake(),
    "renew": lambda store: store.renew(),
    "look": lambda store: store.require_driver(),
}


@pytest.mark.parametrize("write", WRITES)
def test_who_lost_the_lease_writes_nothing_more_not_even_when_the_next_driver_has_ended(url: str, write: str) -> None:
    with opened(url) as slow:
        before = slow.events()
        quick = driving(slow.engine, NOW + 121)
        with pytest.raises(AnotherDriverError, match="is driven by process"):
            WRITES[write](slow)
        quick.stop_driving()
        with pytest.raises(AnotherDriverError, match="was driven by another process meanwhile"):
            WRITES[write](slow)
        slow.stop_driving()
        assert (slow.events(), slow.batches()) == (before, [batch(0)])


def test_giving_back_a_lease_that_was_lost_leaves_the_next_driver_its_own(url: str) -> None:
    with opened(url) as slow:
        quick = driving(slow.engine, NOW + 121)
        slow.stop_driving()
        quick.require_driver()
        quick.add_event(NOW, None, "still", "")


def test_a_lease_that_ran_out_and_nobody_took_keeps_the_id_of_a_paid_batch(url: str) -> None:
    with opened(url) as store:
        sent = store.apply(batch(0), moved(batch(0), Lifecycle.SUBMITTING, "submitting"), NOW)
        store.lease.clock = lambda: NOW + 900
        store.apply(sent, moved(sent, Lifecycle.IN_FLIGHT, "submitted", provider_id="b-1"), NOW + 900)
        assert store.batch(batch(0).id).provider_id == "b-1"


def test_the_intent_to_pay_has_a_lease_with_time_left(url: str) -> None:
    with opened(url) as store:
        store.lease.clock = lambda: NOW + 500
        store.apply(batch(0), moved(batch(0), Lifecycle.SUBMITTING, "submitting"), NOW + 500)
        with pytest.raises(AnotherDriverError):
            store_on(store.engine, NOW + 500 + 119).drive()
        with store.reading() as connection:
            assert connection.execute(select(schema.runs.c.driver_until)).scalar() == NOW + 500 + 120


def test_nothing_is_sent_once_a_person_has_cancelled_the_run(url: str) -> None:
    with opened(url) as store:
        for _ in range(2):
            store_on(store.engine).set_cancelled(NOW)
        with pytest.raises(RunCancelledError):
            store.apply(batch(0), moved(batch(0), Lifecycle.SUBMITTING, "submitting"), NOW)
        store.apply(batch(0), moved(batch(0), Lifecycle.ENDED, "withdrawn"), NOW)
        assert [event.kind for event in store.events()][-2:] == ["run_cancelled", "withdrawn"]


def test_postgresql_counts_leases_by_its_own_clock_and_sqlite_by_this_machine_s(postgres_url: str) -> None:
    with opened(postgres_url) as store:
        ahead = SystemClock()
        assert lease_clock(store.engine, ahead)() != pytest.approx(ahead.now(), abs=5)  # it is an expression
        first, second = RunStore(store.engine, "fresh"), RunStore(store.engine, "fresh")
        first.enter("f" * 64, "{}", "0", NOW)
        for one in (first, second):
            one.lease.clock = lease_clock(store.engine, ahead)
        first.drive()
        first.renew()
        with pytest.raises(AnotherDriverError):
            second.drive()
        with store.reading() as connection:
            until = select(schema.runs.c.driver_until).where(schema.runs.c.run_id == "fresh")
            assert connection.execute(until).scalar() == pytest.approx(ahead.now() + 120, abs=60)
    engine = open_engine("sqlite://")
    assert lease_clock(engine, ahead)() == pytest.approx(ahead.now(), abs=60)
    engine.dispose()


# ---- orders --------------------------------------------------------------------------------------------------------


def test_an_order_of_a_person_stays_until_the_driver_has_carried_it_out(url: str) -> None:
    with opened(url) as store:
        person = store_on(store.engine)
        give_order(person, OrderKind.RETRY, NOW)
        give_order(person, OrderKind.ADOPT, NOW + 1, batch_id=batch(0).id, argument="b-1")
        first, second = pending_orders(store)
        assert (first.kind, first.batch_id, first.argument) == (OrderKind.RETRY, None, None)
        assert (second.kind, second.batch_id, second.argument) == (OrderKind.ADOPT, batch(0).id, "b-1")
        with pytest.raises(AnotherDriverError):
            settle_order(person, first, "order_carried_out", "", NOW)
        settle_order(store, first, "order_carried_out", "retry: 3 requests", NOW + 2)
        assert pending_orders(store) == [second]
        assert store.events()[-1].kind == "order_carried_out"


def is_cancelled(store: RunStore) -> bool:
    row = store.row()
    return row is not None and row.cancelled


def test_a_cancel_takes_back_earlier_orders_to_retry_and_only_those(url: str) -> None:
    with opened(url) as store:
        person = store_on(store.engine)
        give_order(person, OrderKind.RETRY, NOW)
        give_order(person, OrderKind.ADOPT, NOW + 1, batch_id=batch(0).id, argument="b-1")
        earlier, adopt = pending_orders(store)
        for _ in range(2):
            person.set_cancelled(NOW + 2)
        assert pending_orders(store) == [adopt]
        before = len(store.events())
        assert [event.kind for event in store.events()][-2:] == ["run_cancelled", "order_taken_back"]
        go_on(store, NOW + 3, earlier)  # of a driver that had read it before
        settle_order(store, earlier, "order_carried_out", "", NOW + 3)
        assert (len(store.events()), is_cancelled(store)) == (before, True)
        give_order(person, OrderKind.RETRY, NOW + 4)
        go_on(store, NOW + 5, pending_orders(store)[1])
        assert not is_cancelled(store)
