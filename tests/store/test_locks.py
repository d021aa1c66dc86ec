"""State in SQLite is refused where a lock keeps nobody out."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import NoReturn

import pytest
from sqlalchemy import create_engine, event

from layton_batch.errors import StoreError
from layton_batch.runs.open import open_run
from layton_batch.store import locks
from layton_batch.store.engine import _sqlite_pragmas, sqlite_url
from tests.pipeline.lab import Lab, lab, manifest_text


@pytest.fixture(autouse=True)
def nothing_tried() -> Iterator[None]:
    """As in a process that has just begun."""
    before = locks._sound.copy()
    locks._sound.clear()
    yield
    locks._sound.clear()
    locks._sound.update(before)


def no_lock(*_: object) -> None:
    """The lock is granted, and keeps nobody out: the other process really gets it."""


def no_service(*_: object) -> NoReturn:
    raise OSError(errno.ENOLCK, "No locks available")


def test_a_local_folder_is_tried_once_and_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks.require_locks(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(locks.subprocess, "run", no_service)
    locks.require_locks(tmp_path)


@pytest.mark.parametrize("lockf", [no_lock, no_service])
def test_a_file_system_without_locks_is_refused_with_its_kind_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lockf: object
) -> None:
    monkeypatch.setattr(locks.fcntl, "lockf", lockf)
    with pytest.raises(StoreError, match=r"locks do not work in .* \([a-z0-9.]+ file system\).*PostgreSQL") as refused:
        locks.require_locks(tmp_path)
    assert refused.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_where_no_second_process_can_be_started_nothing_speaks_against_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks.sys, "executable", str(tmp_path / "nowhere"))
    locks.require_locks(tmp_path)


def begun(bench: Lab) -> bool:
    with open_run(bench.manifest(manifest_text()), bench.runs, bench.settings, clock=bench.clock):
        return True


def test_a_run_with_its_state_in_sqlite_is_not_begun_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab(tmp_path) as bench:
        with monkeypatch.context() as patch:
            patch.setattr(locks.fcntl, "lockf", no_lock)
            with pytest.raises(StoreError, match="locks do not work"):
                begun(bench)
            assert not bench.run_folder(manifest_text()).database.exists()
        assert begun(bench)


def test_programs_that_make_one_store_at_the_same_moment_wait_for_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(60):
            url = sqlite_url(tmp_path / f"{number}.sqlite3")
            together = Barrier(4)

            def connect(url: str = url, together: Barrier = together) -> None:
                engine = create_engine(url)
                event.listen(engine, "connect", _sqlite_pragmas)
                together.wait()
                with engine.connect():
                    engine.dispose()

            for done in [pool.submit(connect) for _ in range(4)]:
                done.result()
