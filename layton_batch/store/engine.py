"""Opening the state store: SQLite in the workspace by default, any database SQLAlchemy reaches by URL.

SQLite runs in WAL with ``synchronous=FULL``: a commit that says "we are about to pay" must survive a power cut, so the
write-ahead log is synced at every commit. Nothing else in the program sets a pragma.

PostgreSQL runs at read committed, which is enough: every change is one UPDATE that names what it found. Its commits
wait for the disk as well. A host that vanishes within a transaction, or a process that is frozen there, holds its locks
for some seconds; a host that vanishes between two keeps its run for about a minute. Nobody waits for a lock, or for a
server that vanished itself, longer than is said here. If the connection breaks in a commit, whether the commit
succeeded is not known, as after a kill.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from layton_batch.errors import StorageError, StoreError
from layton_batch.settings import STATE_FORM
from layton_batch.store import schema

CHECKED_BYTES = 64 * 1024 * 1024
"""SQLite files up to this size are checked whole when opened; that takes about a millisecond a megabyte."""

READING = "layton_batch_reading"
"""Execution option of a connection that will not write."""

IDLE_SECONDS = 20.0
"""Time that PostgreSQL keeps a transaction open of which it hears nothing; ours take milliseconds. Shorter than anybody
waits for it."""

WAIT_SECONDS = 30.0
"""Longest time that a transaction on PostgreSQL waits for one in its way."""

BUSY_TRIES, BUSY_SECONDS = 120, 1.0
"""Tries, and seconds of each, to get SQLite's write lock. An id that was paid for is to be committed, so
another program's long transaction ends no run."""

_LINE = {"connect_timeout": 30, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
         "tcp_user_timeout": 60_000}  # fmt: skip
"""For libpq: when a server that does not answer has vanished. The URL's own values go before these."""

_PAUSE = partial(Event().wait, 0.02)
"""A pause in which no lock of Python is held."""

_CREATING = 0x6C6179746F6E
"""PostgreSQL's advisory lock while the schema is made."""


def open_engine(url: str, wait: Callable[[], object] = _PAUSE) -> Engine:
    """Return an engine whose schema is this program's. Raises StoreError (unreachable, damaged, another version).

    ``wait``: called each time that another program is still writing to a SQLite file.
    """
    address = _address(url)
    try:
        options = _line(address)
        engine = create_engine(address, pool_pre_ping=not _is_sqlite(address), hide_parameters=True, **options)
    except (SQLAlchemyError, ImportError) as error:
        raise complaint(address, error, "opened") from error
    try:
        if _is_sqlite(address):
            event.listen(engine, "connect", partial(_sqlite_pragmas, wait))
            event.listen(engine, "begin", partial(_sqlite_begin, wait))
        elif _is_postgresql(address):
            event.listen(engine, "connect", _postgresql_session)
        with engine.connect().execution_options(**{READING: True}) as connection:
            _check(connection, address)
            version = _version(connection)
        if version is None:
            _create_schema(engine)
        else:
            _require_version(version, address)
    except (SQLAlchemyError, ImportError) as error:
        engine.dispose()
        raise complaint(address, error, "opened") from error
    except BaseException:
        engine.dispose()
        raise
    return engine


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file."""
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def url_to_read(database: Path) -> str:
    """The URL of a SQLite file to look at. Raises StoreError where there is none.

    SQLite has to be told where nothing can be written (a backup, a share that is mounted read-only, another user's
    run): it reads a database in WAL there beside the program that writes it, or as a file that does not change.
    """
    if not database.exists():
        raise StoreError(
            f"the state store {database} is not there: put it back with its -wal file, or the whole folder of runs"
        )
    if os.access(database.parent, os.W_OK) and os.access(database, os.W_OK):
        return sqlite_url(database)
    is_open = database.with_name(f"{database.name}-wal").exists()
    how = {"mode": "ro"} if is_open else {"immutable": "1"}
    url = URL.create("sqlite", database=f"file:{quote(str(database.absolute()))}", query={**how, "uri": "true"})
    return url.render_as_string(hide_password=False)


def complaint(url: URL, error: Exception, done: str) -> StoreError:
    """Describe a fault of the store in one line, without its password; StorageError where the fault may pass."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__]
    advice = next((advice for sign, advice in _ADVICE if sign in lines[0]), "")
    message = f"the state store {shown(url)} cannot be {done}: {lines[0]}{advice}"
    return StorageError(message) if _may_pass(error, lines[0]) else StoreError(message)


def shown(url: URL) -> str:
    """Return how messages name a database: the path of its file, or its URL without the password."""
    return _file(url) if _is_sqlite(url) else url.render_as_string(hide_password=True)


def _may_pass(error: Exception, reason: str) -> bool:
    """Drivers call it an operational error when the server, the disk or another program is in the way, not the call.

    They are wrong twice: a server that became a standby is an internal error, and an option of the URL that does not
    exist an operational one.
    """
    if _READ_ONLY in reason:
        return True
    return isinstance(error, OperationalError | sqlite3.OperationalError) and not _LASTING.search(reason)


_READ_ONLY = "in a read-only transaction"
_LASTING = re.compile(
    "no such table|no such column|authentication failed|does not exist"
    r"|(invalid|bad value for) (\w+ value|port number|connection option|\w+:)"
)


_RESTORE = (
    "put back a copy of it with its -wal file, or of the whole folder of runs; the files in each run's intents/ name "
    "the batches that were paid for, which go on at their providers"
)

_CHECK_STATE = "; correct the address in LAYTON_BATCH_STATE, or start the database"
_ADVICE = (
    ("malformed", f"; the file is damaged: {_RESTORE}"),
    ("not a database", f"; the file is damaged or is no state store: {_RESTORE}"),
    ("unable to open database file", "; make its folder writable, or --runs names another place"),
    ("connection failed", _CHECK_STATE),
    ("connection is bad", _CHECK_STATE),
    ("failed to resolve host", _CHECK_STATE),
    ("disk is full", "; nothing of this step was kept, and everything before it is: make room and run again"),
    ("disk I/O error", "; nothing of this step was kept, and everything before it is: check the disk and run again"),
    ("database is locked", "; another process has been writing to it for two minutes: let it finish"),
    ("lock timeout", "; another process has been writing to it for half a minute: let it finish"),
    (_READ_ONLY, ": it is a standby, or was made read-only; run again when it, or the server that took over, writes"),
    (
        "readonly database",
        "; this command writes to the run: make its folder and files writable (status, leaderboard, cost … read)",
    ),
    ("No module named 'psycopg2", "; write postgresql+psycopg:// in LAYTON_BATCH_STATE"),
    ("No module named 'psycopg", "; run pip install '.[postgres]' in the checkout"),
    ("No module named '", "; install this database's driver for Python, or use PostgreSQL or SQLite"),
    ("Can't load plugin", f"; for PostgreSQL write LAYTON_BATCH_STATE as {STATE_FORM}"),
)


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"LAYTON_BATCH_STATE is no database URL; write {STATE_FORM}") from error
    if "@" in (address.host or ""):  # a part of the password: it is not shown
        raise StoreError("LAYTON_BATCH_STATE: its host has an '@'; write an '@' of the password as %40")
    return address


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _file(url: URL) -> str:
    """The path of a SQLite file, by either form of its URL."""
    name = url.database or ""
    return unquote(name.removeprefix("file:")) if "uri" in url.query else name


def _is_postgresql(url: URL) -> bool:
    return url.get_backend_name() == "postgresql"


def _line(url: URL) -> dict[str, dict[str, int]]:
    """Options of ``create_engine`` for the connection itself."""
    if not _is_postgresql(url) or not url.get_driver_name().startswith("psycopg"):
        return {}
    return {"connect_args": {name: value for name, value in _LINE.items() if name not in url.query}}


def _postgresql_session(connection: Any, _record: object) -> None:
    settings = {
        "default_transaction_isolation": "'read committed'",
        # a server that may lose its last commits in a crash must not lose ours; one that waits for a replica too may
        "synchronous_commit": "coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on')",
        "lock_timeout": f"'{WAIT_SECONDS * 1000:.0f}ms'",
        "idle_in_transaction_session_timeout": f"'{IDLE_SECONDS * 1000:.0f}ms'",
        # by default a server keeps the session of a host that vanished, and its lock of a run, for two hours
        "tcp_keepalives_idle": "'30'", "tcp_keepalives_interval": "'10'", "tcp_keepalives_count": "'3'",
    }  # fmt: skip
    cursor = connection.cursor()
    cursor.execute("SELECT " + ", ".join(f"set_config('{name}', {value}, false)" for name, value in settings.items()))
    cursor.close()
    connection.commit()


def _sqlite_pragmas(wait: Callable[[], object], connection: Any, _record: object) -> None:
    # pysqlite would begin transactions late and commit them early by itself; `_sqlite_begin` does it instead
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")
    _when_free(partial(cursor.execute, "PRAGMA journal_mode=WAL"), wait)
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _sqlite_begin(wait: Callable[[], object], connection: Connection) -> None:
    # IMMEDIATE: a writer waits for its turn at the start, instead of failing when it upgrades a read lock;
    # who only reads must not wait for writers at all
    reading = connection.get_execution_options().get(READING, False)
    _when_free(partial(connection.exec_driver_sql, "BEGIN" if reading else "BEGIN IMMEDIATE"), wait)


def _when_free(execute: Callable[[], object], wait: Callable[[], object]) -> None:
    """Execute a statement as soon as no other program writes. Raises OperationalError after two minutes. SQLite itself
    does not wait where two processes set the journal mode of a new file at once."""
    for number in count(1):
        try:
            execute()
        except (OperationalError, sqlite3.OperationalError) as error:
            if "locked" not in str(error) or number > BUSY_TRIES:
                raise
            wait()
        else:
            return


def _check(connection: Connection, url: URL) -> None:
    """Find damage now, rather than in the middle of the run."""
    if not _is_sqlite(url) or not url.database or url.database == ":memory:":
        return
    if Path(_file(url)).stat().st_size > CHECKED_BYTES:
        return
    result = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if result != "ok":
        raise StoreError(f"the state store {_file(url)} is damaged ({str(result).splitlines()[-1]}): {_RESTORE}")


def _version(connection: Connection) -> int | None:
    """Return the version of the database's schema; 0: its tables name none. None: there is no table yet."""
    tables = set(inspect(connection).get_table_names())
    if schema.schema_version.name in tables:
        return int(connection.execute(select(schema.schema_version.c.version)).scalar_one())
    return None if tables.isdisjoint(schema.metadata.tables) else 0


def _require_version(version: int, url: URL) -> None:
    if version != schema.VERSION:
        raise StoreError(
            f"the state store {shown(url)} has schema version {version}, and this version of layton-batch knows "
            f"version {schema.VERSION} only: use the layton-batch that wrote it, or begin the run again in another "
            "folder (--runs) or database"
        )


def _create_schema(engine: Engine) -> None:
    """Create the tables in one transaction: all of them, or none. Two processes that meet here take turns."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_CREATING)))
        version = _version(connection)
        if version is None:
            schema.metadata.create_all(connection, checkfirst=False)
            connection.execute(schema.schema_version.insert(), {"version": schema.VERSION})
        else:
            _require_version(version, engine.url)
