"""Histories whose state is in a real PostgreSQL: one database a process, emptied for each of them."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine.default import DefaultDialect

from layton_batch.store import schema
from layton_batch.store.engine import READING, open_engine
from tests.simulation.interruptions import Course, Hand
from tests.support.postgres import new_database

GONE_SECONDS = 10.0
"""A server notices within milliseconds that a process is dead; what it has not noticed by then it never will."""
LOOK_SECONDS = 0.001
_really_sleep = time.sleep  # histories have another


class Database:
    """A database of a running server, for one history at a time."""

    def __init__(self, server: str) -> None:
        self.url = new_database(server)
        self._engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        self._desk = self._engine.connect()
        self._desk.execute(text(f"SET lock_timeout = '{GONE_SECONDS:.0f}s'"))
        self._has_tables = False

    def close(self) -> None:
        self._desk.close()
        self._engine.dispose()

    def empty(self, *, migrating: bool) -> None:
        """As it is when its schema has just been made; ``migrating``: as a server makes a database."""
        self.wait_until_left(self._connected())
        if self._has_tables and not migrating:
            names = ", ".join(table.name for table in schema.metadata.sorted_tables)
            self._desk.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
            return
        self._desk.execute(text("DROP SCHEMA public CASCADE"))
        self._desk.execute(text("CREATE SCHEMA public"))
        if not migrating:
            open_engine(self.url).dispose()
        self._has_tables = not migrating

    def wait_until_left(self, backends: Collection[int]) -> None:
        """Until the server has ended these of its processes, each of which serves a connection."""
        until = time.monotonic() + GONE_SECONDS
        while left := self._connected().intersection(backends):
            assert time.monotonic() < until, f"{len(left)} connections of a program that is no more are still open"
            _really_sleep(LOOK_SECONDS)

    def _connected(self) -> set[int]:
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return set(self._desk.execute(text(f"{query} AND backend_type = 'client backend'")).scalars())

    @contextmanager
    def in_use(self, course: Course, *, statements: bool = False) -> Iterator[None]:
        """While the block runs a program that is killed leaves its connections as a killed process does: they break
        off, the server rolls back what was begun on them, and the next life starts when they are gone.

        ``statements``: the course has a point after each statement within a transaction too, so that other numbers
        stand for its points.
        """
        mortal = _Connections(self, course)
        course.dies, course.is_buried, course.is_cut_off = mortal.die, mortal.bury, mortal.cut_off
        with ExitStack() as stack:
            replaced: list[tuple[str, Callable[..., object]]] = [
                ("connect", mortal.connecting(DefaultDialect.connect)),
                ("do_rollback", mortal.rolling_back(DefaultDialect.do_rollback)),
            ]
            stack.enter_context(mock.patch.object(PGDialect_psycopg, "do_ping", mortal.pinging()))
            # An engine connects by its own listener, or where histories share a dialect by the dialect.
            connect = classmethod(mortal.connecting(psycopg.Connection.connect.__func__))  # type: ignore[attr-defined]
            stack.enter_context(mock.patch.object(psycopg.Connection, "connect", connect))
            if statements:
                executing = ("do_execute", "do_executemany")
                replaced += [(name, mortal.executing(getattr(DefaultDialect, name))) for name in executing]
            for name, replacement in replaced:
                stack.enter_context(mock.patch.object(DefaultDialect, name, replacement))
            yield


@functools.cache
def database(server: str) -> Database:
    """This process's database on a server, for as long as the process lives."""
    return Database(server)


class _Connections:
    """The connections of each program's present life, and what becomes of them at its end."""

    def __init__(self, place: Database, course: Course) -> None:
        self._place = place
        self._course = course
        self._of: dict[int, list[tuple[psycopg.Connection[Any], int]]] = {}  # with the process at the server's side
        self._severed: dict[int, psycopg.Connection[Any]] = {}  # kept, so that no other gets its number
        self._silent: set[int] = set()

    def connecting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def connect(*arguments: Any, **options: Any) -> Any:
            made = original(*arguments, **options)
            hand = self._course.mine()
            if hand is not None:
                self._of.setdefault(hand.pid, []).append((made, made.info.backend_pid))
            return made

        return connect

    def rolling_back(self, original: Callable[..., None]) -> Callable[..., None]:
        """A dead program asks for nothing: the server rolls back by itself."""

        def do_rollback(dialect: DefaultDialect, connection: Any) -> None:
            number = id(getattr(connection, "dbapi_connection", connection))
            if number in self._silent:
                self._severed[number].close()
            else:
                original(dialect, connection)

        return do_rollback

    def pinging(self) -> Callable[..., bool]:
        """Nothing else here breaks a connection off, so that the server need not be asked each time."""
        return lambda _dialect, connection: id(connection) not in self._severed

    def executing(self, original: Callable[..., None]) -> Callable[..., None]:
        def execute(dialect: DefaultDialect, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
            original(dialect, cursor, statement, parameters, context)
            if context is not None and not context.execution_options.get(READING) and not self._course.dead:
                self._course.reach("statement")

        return execute

    def die(self, hand: Hand) -> None:
        """The program is killed: nothing more comes from it, not even a farewell."""
        self._silent |= self._cut(hand)

    def cut_off(self, hand: Hand, what: str) -> None:
        """The program lives and finds its connections broken: in a commit the server has not seen, or carried out."""
        self._cut(hand)
        if what == "committed":
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    def _cut(self, hand: Hand) -> set[int]:
        cut = {}
        for connection, _ in self._of.get(hand.pid, ()):
            if not connection.closed:
                with socket.socket(fileno=os.dup(connection.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)
                cut[id(connection)] = connection
        self._severed |= cut
        return set(cut)

    def bury(self, hand: Hand) -> None:
        """Returns when nothing of it is left at the server, what it did on its way out included."""
        connections = self._of.pop(hand.pid, [])
        for connection, _ in connections:
            connection.close()
        self._place.wait_until_left([backend for _, backend in connections])
