"""One process drives a run: who may take its lock, how the lock is freed, and who writes nothing any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import func, select

from layton_batch.errors import AnotherDriverError, FileError, RunCancelledError, StaleStateError, StorageError
from layton_batch.states import Lifecycle
from layton_batch.store.engine import open_engine
from layton_batch.store.run_lock import driving
from layton_batch.store.run_store import RunStore
from tests.support.paths import ROOT
from tests.support.store_rows import NOW, RUN, batch, moved, opened, store_on

DRIVE = """
import subprocess, sys
from pathlib import Path
from layton_batch.store.engine import open_engine
from layton_batch.store.run_lock import driving
from layton_batch.store.run_store import RunStore
with driving(RunStore(open_engine(sys.argv[1]), sys.argv[2]), Path(sys.argv[3]), 0.0):
    child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(url: str, lock: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that drives the run, and the id of a child of that process, which outlives it."""
    command = [sys.executable, "-c", DRIVE, url, RUN, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)


def is_free(store: RunStore, lock: Path) -> bool:
    try:
        with driving(store, lock, NOW):
            return True
    except AnotherDriverError:
        return False


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / ".lock"


# ---- who drives ----------------------------------------------------------------------------------------------------


def test_a_second_driver_is_refused_and_told_who_drives(store: RunStore, lock: Path) -> None:
    other = store_on(store.engine)
    with driving(store, lock, NOW), pytest.raises(AnotherDriverError) as told, driving(other, lock, NOW):
        pass
    assert f"run {RUN} is driven by process {os.getpid()} on " in str(told.value)
    assert " since 2027-01-15T08:00:00Z; " in str(told.value)
    assert told.value.driver.startswith(f"process {os.getpid()} on ")
    assert told.value.exit_code == 75
    assert is_free(other, lock)


def test_of_many_that_begin_a_run_at_once_one_drives_it(url: str, lock: Path) -> None:
    together = Barrier(6)

    def begin(store: RunStore) -> bool:
        together.wait()
        try:
            with driving(store, lock, NOW):
                store.enter("f" * 64, "{}", "0", NOW)
                together.wait()
        except AnotherDriverError:
            together.wait()
            return False
        return True

    with opened(url) as store, ThreadPoolExecutor(6) as pool:
        stores = [RunStore(store.engine, "fresh") for _ in range(6)]
        assert sum(pool.map(begin, stores)) == 1
        assert [event.kind for event in stores[0].events()] == ["run_created"]


def test_the_lock_is_free_when_its_holder_is_killed_whatever_its_children_do(url: str, lock: Path) -> None:
    with opened(url) as store, another_process(url, lock) as (process, child):
        with pytest.raises(AnotherDriverError, match=f"process {process.pid} on"), driving(store, lock, NOW):
            pass
        process.kill()
        process.wait()
        while not is_free(store, lock):  # PostgreSQL's server notices it in a moment
            assert store.engine.dialect.name == "postgresql"
        os.kill(child, 0)  # it lives


def test_a_holder_that_is_suspended_keeps_the_lock(url: str, lock: Path) -> None:
    with opened(url) as store, another_process(url, lock) as (process, _):
        process.send_signal(signal.SIGSTOP)
        assert not is_free(store, lock)
        process.send_signal(signal.SIGCONT)
        assert not is_free(store, lock)


def test_a_lock_that_cannot_be_written_is_the_disks_trouble(url: str, tmp_path: Path) -> None:
    with opened(url) as store, pytest.raises(FileError, match="cannot write"), driving(store, tmp_path, NOW):
        pass


# ---- what a process may not do beside another ------------------------------------------------------------------------


def test_of_two_decisions_about_one_batch_the_second_is_dropped(store: RunStore) -> None:
    person = store_on(store.engine)
    person.apply(batch(0), moved(batch(0), Lifecycle.ENDED, "withdrawn"), NOW)
    with pytest.raises(StaleStateError):
        store.apply(batch(0), moved(batch(0), Lifecycle.SUBMITTING, "submitting"), NOW)
    assert [event.kind for event in store.events()][-1] == "withdrawn"


def test_nothing_is_sent_once_a_person_has_cancelled_the_run(store: RunStore) -> None:
    for _ in range(2):
        store_on(store.engine).set_cancelled(NOW)
    with pytest.raises(RunCancelledError):
        store.apply(batch(0), moved(batch(0), Lifecycle.SUBMITTING, "submitting"), NOW)
    store.apply(batch(0), moved(batch(0), Lifecycle.ENDED, "withdrawn"), NOW)
    assert [event.kind for event in store.events()][-2:] == ["run_cancelled", "withdrawn"]


WRITES: dict[str, Callable[[RunStore], object]] = {
    "pay": lambda store: store.apply(batch(0), moved(batch(0), Lifecycle.SUBMITTING, "submitting"), NOW),
    "event": lambda store: store.add_event(NOW, None, "odd", ""),
    "plan": lambda store: store.add_jobs([], NOW),
    "wake": lambda store: store.wake(NOW),
    "files": lambda store: store.note_files([]),
    "look": lambda store: store.require_session(),
}


@pytest.mark.parametrize("first", ["pay", "event", "look"])
def test_who_lost_its_session_writes_nothing_more_not_even_when_the_next_driver_has_ended(
    postgres_url: str, lock: Path, first: str
) -> None:
    with opened(postgres_url) as slow:
        before = slow.events()
        engine = open_engine(postgres_url)
        quick = store_on(engine)
        with driving(slow, lock, NOW):
            assert slow.session is not None
            process = slow.session.scalar(select(func.pg_backend_pid()))
            slow.session.commit()
            with quick.writing() as writing:
                writing.connection.execute(select(func.pg_terminate_backend(process)))
            while not is_free(quick, lock):
                pass
            with driving(quick, lock, NOW):
                for name in (first, *WRITES):
                    with pytest.raises(StorageError) as told:
                        WRITES[name](slow)
                    assert told.value.exit_code == 74
            for write in WRITES.values():
                with pytest.raises(StorageError, match=f"broke, and with it the lock of run {RUN}: call again"):
                    write(slow)
        assert (slow.events(), slow.batches()) == (before, [batch(0)])
        engine.dispose()
