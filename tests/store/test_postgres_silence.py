"""A server that says nothing is given up after some seconds: its call is an error, and what it did is not known."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, text

from layton_batch.errors import StorageError
from layton_batch.store.engine import open_engine
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import NOW, opened

DEADLINE = 0.4


@contextmanager
def a_lost_replica(url: str) -> Iterator[None]:
    """Have the server's commits wait for a synchronous replica that is not there."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text("SET synchronous_commit = local"))
            connection.execute(text("ALTER SYSTEM SET synchronous_standby_names = 'lost'"))
            connection.execute(text("SELECT pg_reload_conf()"))
            yield
            connection.execute(text("ALTER SYSTEM RESET synchronous_standby_names"))
            connection.execute(text("SELECT pg_reload_conf()"))
    finally:
        engine.dispose()


def test_a_commit_that_waits_for_a_lost_replica_ends_with_74(postgres_url: str) -> None:
    def write_until_the_server_knows(store: RunStore) -> None:
        for _ in range(1000):
            store.add_event(NOW, None, "unclear", "")

    with (
        opened(postgres_url, deadline=DEADLINE) as store,
        a_lost_replica(postgres_url),
        pytest.raises(StorageError, match=r"no answer in 0\.4 seconds.*run again") as told,
    ):
        write_until_the_server_knows(store)
    assert told.value.exit_code == 74


def test_a_connection_that_freezes_in_a_transaction_ends_with_74_and_the_next_has_another(postgres_url: str) -> None:
    def freeze_within(store: RunStore) -> None:
        with store.writing() as writing:
            process = writing.connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            frozen.append(process)
            os.kill(process, signal.SIGSTOP)
            writing.event(NOW, None, "never", "")

    frozen: list[int] = []
    with opened(postgres_url, deadline=DEADLINE) as store:
        try:
            with pytest.raises(StorageError, match="no answer"):
                freeze_within(store)
            assert "never" not in {event.kind for event in store.events()}
        finally:
            for process in frozen:
                os.kill(process, signal.SIGCONT)


def test_a_port_that_accepts_and_never_answers_ends_with_74() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql+psycopg://me:secret@127.0.0.1:{silent.getsockname()[1]}/runs"
        with pytest.raises(StorageError, match="cannot be opened"):
            open_engine(url, deadline=DEADLINE)
