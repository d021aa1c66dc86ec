"""On PostgreSQL several transactions are under way at once: none locks another out, and none is waited for for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text

from layton_batch.errors import StoreError
from layton_batch.store import engine as opening
from layton_batch.store.engine import open_engine
from tests.store.rows import NOW, batch, opened, store_on

PATIENCE_SECONDS = 10.0
WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


def until_one_waits(url: str) -> None:
    watching = create_engine(url, isolation_level="AUTOCOMMIT")
    with watching.connect() as connection:
        until = time.monotonic() + PATIENCE_SECONDS
        while not connection.execute(WAITING).scalar():
            assert time.monotonic() < until, "nobody waits"
    watching.dispose()


def after_the_first_update(engine: Any, then: Callable[[], None]) -> None:
    """Call ``then`` once, in this thread's transaction, when it has changed its first batch."""
    mine, left = threading.get_ident(), [then]

    def look(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement.startswith("UPDATE batches") and threading.get_ident() == mine and left:
            left.pop()()

    event.listen(engine, "after_cursor_execute", look)


def test_letting_go_of_several_batches_and_renewing_them_meanwhile_take_turns(postgres_url: str) -> None:
    with opened(postgres_url, 2) as store:
        names = [one.id for one in reversed(store.claim(NOW))]
        failed: list[StoreError] = []

        def renew() -> None:
            try:
                store.renew(NOW + 1)
            except StoreError as error:
                failed.append(error)

        keeper = threading.Thread(target=renew)

        def begin() -> None:
            keeper.start()
            until_one_waits(postgres_url)

        after_the_first_update(store.engine, begin)
        store.release(names)
        keeper.join()
        assert not failed
        assert [one.id for one in store_on(store.engine).claim(NOW + 2)] == [batch(0).id, batch(1).id]


def test_a_host_that_vanishes_within_a_transaction_holds_the_others_up_only_for_some_seconds(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "IDLE_SECONDS", 0.5)
    with opened(postgres_url) as vanished:
        other = store_on(vanished.engine)

        def begin_and_vanish() -> None:
            with vanished.writing() as writing:
                writing.alone()
                writing.event(NOW, None, "never", "")
                assert [one.id for one in other.claim(NOW)] == [batch(0).id]
                writing.event(NOW, None, "never", "")

        with pytest.raises(StoreError, match="idle-in-transaction"):
            begin_and_vanish()
        assert "never" not in {event.kind for event in other.events()}


def test_a_transaction_in_the_way_for_half_a_minute_is_told_of(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "WAIT_SECONDS", 0.05)
    with opened(postgres_url) as slow, slow.writing() as writing:
        writing.alone()
        with pytest.raises(StoreError, match="lock timeout; another process has been writing to it for half a minute"):
            store_on(slow.engine).claim(NOW)


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
