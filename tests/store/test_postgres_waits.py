"""On PostgreSQL, as on SQLite, one write transaction is under way at a time, and none is waited for for ever."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import create_engine, text

from layton_batch.errors import StoreError
from layton_batch.store import engine as opening
from layton_batch.store.engine import open_engine
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import NOW, opened, store_on

PATIENCE_SECONDS = 10.0
WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


def until_one_waits(url: str) -> None:
    watching = create_engine(url, isolation_level="AUTOCOMMIT")
    with watching.connect() as connection:
        until = time.monotonic() + PATIENCE_SECONDS
        while not connection.execute(WAITING).scalar():
            assert time.monotonic() < until, "nobody waits"
    watching.dispose()


def test_who_would_write_in_the_middle_of_another_transaction_waits_for_its_end(postgres_url: str) -> None:
    with opened(postgres_url) as slow:
        quick = RunStore(slow.engine, "another")
        second = threading.Thread(target=lambda: quick.add_event(NOW, None, "second", ""))
        with slow.writing() as writing:
            second.start()
            until_one_waits(postgres_url)
            writing.event(NOW, None, "first", "")
            assert "second" not in {event.kind for event in quick.events()}
        second.join()
        assert quick.events()[-1].kind == "second"


def test_a_host_that_vanishes_within_a_transaction_holds_the_others_up_only_for_some_seconds(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "IDLE_SECONDS", 0.5)
    with opened(postgres_url) as vanished:
        other = store_on(vanished.engine)

        def begin_and_vanish() -> None:
            with vanished.writing() as writing:
                writing.event(NOW, None, "never", "")
                other.add_event(NOW, None, "written", "")
                writing.event(NOW, None, "never", "")

        with pytest.raises(StoreError, match="idle-in-transaction"):
            begin_and_vanish()
        assert {"never", "written"}.intersection(event.kind for event in other.events()) == {"written"}


def test_a_transaction_in_the_way_for_half_a_minute_is_told_of(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "WAIT_SECONDS", 0.05)
    with opened(postgres_url) as slow, slow.writing() as writing:
        writing.event(NOW, None, "slow", "")
        with pytest.raises(StoreError, match="lock timeout; another process has been writing to it for half a minute"):
            store_on(slow.engine).add_event(NOW, None, "never", "")


def test_a_server_set_otherwise_keeps_our_commits_and_our_isolation_all_the_same(postgres_url: str) -> None:
    settings = {"synchronous_commit": "on", "default_transaction_isolation": "read committed"}
    name = postgres_url.rpartition("/")[2]
    setting = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with setting.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"))
    setting.dispose()
    engine = open_engine(postgres_url)
    with engine.connect() as connection:
        assert {one: connection.execute(text(f"SHOW {one}")).scalar() for one in settings} == settings
    engine.dispose()
