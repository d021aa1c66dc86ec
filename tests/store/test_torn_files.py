"""A state file that a power cut or a bad copy left incomplete: opened as committed, or refused in a sentence."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from layton_batch.errors import StoreError
from layton_batch.store import engine as opening
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.run_store import RunStore
from tests.support.paths import ROOT
from tests.support.store_rows import NOW, RUN, batch, noted, opened
from tests.support.tiers import tiered


def make(folder: Path, page: int = 4096) -> Path:
    path = folder / "state.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA page_size={page}; VACUUM")
    with opened(sqlite_url(path), 3) as store:
        for number in range(3):
            store.apply(batch(number), noted(batch(number), "seen", detail="x" * 200), NOW)
    return path


def read(path: Path) -> list[str] | None:
    """The batches' ids, or None where the file was refused in one line that names it."""
    try:
        return ids(path)
    except StoreError as error:
        complaint = str(error)
    assert str(path) in complaint
    assert "\n" not in complaint
    return None


def ids(path: Path) -> list[str]:
    engine = open_engine(sqlite_url(path))
    try:
        store = RunStore(engine, RUN)
        store.events(), store.money(), store.jobs()
        return [one.id for one in store.batches()]
    finally:
        engine.dispose()


def test_commits_are_synced_and_readers_do_not_wait_for_writers(tmp_path: Path) -> None:
    engine = open_engine(sqlite_url(tmp_path / "state.sqlite3"))
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2  # FULL
    engine.dispose()


def test_a_database_that_another_program_writes_to_for_a_minute_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.sqlite3"
    with opened(sqlite_url(path)), closing(sqlite3.connect(path, isolation_level=None)) as other:
        tries, released = [0], 60 / opening.BUSY_SECONDS

        def wait() -> None:
            tries[0] += 1
            if tries[0] == released:
                other.execute("COMMIT")

        monkeypatch.setattr(opening, "BUSY_SECONDS", 0.0)  # of each try, in SQLite
        engine = open_engine(sqlite_url(path), wait)
        other.execute("BEGIN IMMEDIATE")
        RunStore(engine, RUN).add_event(NOW, None, "paid", "")
        assert tries[0] == released
        assert [event.kind for event in RunStore(engine, RUN).events()][-1] == "paid"
        engine.dispose()


@pytest.mark.parametrize("stride", tiered((1, 13), ci=(13,)))
def test_a_file_cut_at_any_byte_of_its_last_page_is_whole_or_refused(tmp_path: Path, stride: int) -> None:
    page = 512
    path = make(tmp_path, page)
    content = path.read_bytes()
    assert int.from_bytes(content[16:18], "big") == page
    assert read(path) == [batch(number).id for number in range(3)]
    results = set()
    for kept in range(len(content) - page, len(content), stride):
        torn = tmp_path / "torn.sqlite3"
        for leftover in tmp_path.glob("torn.sqlite3*"):
            leftover.unlink()
        torn.write_bytes(content[:kept])
        found = read(torn)
        assert found in (None, [batch(number).id for number in range(3)])
        results.add(found is None)
    assert True in results  # a page less is noticed


FULL = """
import resource, sys
from layton_batch.errors import StoreError
from layton_batch.store.engine import open_engine
from layton_batch.store.run_store import RunStore
engine = open_engine(sys.argv[1])
store = RunStore(engine, sys.argv[2])
limit = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    for number in range(10_000):
        store.add_event(float(number), None, "filling", "x" * 1000)
except StoreError as error:
    print(error)
"""


def test_a_full_disk_is_said_and_everything_before_it_is_kept(tmp_path: Path) -> None:
    path = make(tmp_path)
    limit = path.stat().st_size + 60_000
    command = [sys.executable, "-c", FULL, sqlite_url(path), RUN, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert "cannot be written" in done.stdout, done.stderr
    assert "everything before it is" in done.stdout
    assert done.stderr == ""
    engine = open_engine(sqlite_url(path))
    events = RunStore(engine, RUN).events()
    filled = [event.at for event in events if event.kind == "filling"]
    assert filled == [float(number) for number in range(len(filled))]
    assert len(filled) > 5
    assert len(RunStore(engine, RUN).batches()) == 3
    engine.dispose()


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to look at " * 40])
def test_a_file_that_is_no_state_store_is_refused_or_made_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.sqlite3"
    path.write_bytes(content)
    found = read(path)
    assert found == ([] if not content else None)
