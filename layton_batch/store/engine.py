"""Opening the state store: SQLite in the workspace by default, any database SQLAlchemy reaches by URL.

SQLite runs in WAL with ``synchronous=FULL``: a commit that says "we are about to pay" must survive a power cut, so the
write-ahead log is synced at every commit. Nothing else in the program sets a pragma.

PostgreSQL runs at read committed, which is enough: every change is one UPDATE that names what it found. Its commits
wait for the disk as well. A host that vanishes within a transaction, or a process that is frozen there, holds its locks
for some seconds; nobody waits for a lock, or for a server that vanished itself, longer than is said here.

A server that is reached may say nothing all the same: its commits wait for a replica that was lost, or it is frozen.
The client ends each such call at its deadline. What the server made of the call is then not known, as after a kill.
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError

from layton_batch.clock import Deadlines
from layton_batch.errors import StorageError, StoreError
from layton_batch.settings import STATE_FORM

if TYPE_CHECKING:
    from psycopg import Connection as PostgreSQLConnection

HEAD = "0001"
"""The schema revision that this program writes; a test holds it equal to Alembic's head."""

CHECKED_BYTES = 64 * 1024 * 1024
"""SQLite files up to this size are checked whole when opened; that takes about a millisecond a megabyte."""

READING = "layton_batch_reading"
"""Execution option of a connection that will not write."""

IDLE_SECONDS = 20.0
"""How long PostgreSQL keeps a transaction open of which it hears nothing; ours take milliseconds. Shorter than anybody
waits for it."""

WAIT_SECONDS = 30.0
"""How long a transaction waits for one that is in its way."""

_LINE = {"connect_timeout": 30, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
         "tcp_user_timeout": 60_000}  # fmt: skip
"""For libpq: when a server that does not answer has vanished. The URL's own values go before these."""

_CREATING = 0x6C6179746F6E
"""PostgreSQL's advisory lock while the schema is made."""


def open_engine(url: str, deadline: float = Deadlines().state) -> Engine:
    """An engine whose schema is this program's. ``deadline``: seconds for which a PostgreSQL server may say nothing.

    Raises StoreError (unreachable, damaged, another schema).
    """
    address = _address(url)
    try:
        options = _line(address, deadline)
        engine = create_engine(address, pool_pre_ping=not _is_sqlite(address), hide_parameters=True, **options)
    except (SQLAlchemyError, ImportError) as error:
        raise complaint(address, error, "opened") from error
    try:
        if _is_sqlite(address):
            event.listen(engine, "connect", _sqlite_pragmas)
            event.listen(engine, "begin", _sqlite_begin)
        elif _is_postgresql(address):
            if engine.dialect.driver == "psycopg":
                event.listen(engine, "do_connect", _connecting_within(deadline))
            event.listen(engine, "connect", _postgresql_session)
        with engine.connect().execution_options(**{READING: True}) as connection:
            _check(connection, address)
            current = _revision(connection)
        if current != HEAD:
            _create_schema(engine, current)
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
    ("database is locked", "; another process has been writing to it for half a minute: let it finish"),
    ("lock timeout", "; another process has been writing to it for half a minute: let it finish"),
    (
        "no answer in ",
        ": it is frozen, or waits for a lost replica (synchronous_standby_names); nothing is lost: mend it, run again",
    ),
    (_READ_ONLY, ": it is a standby, or was made read-only; run again when it, or the server that took over, writes"),
    (
        "readonly database",
        "; this command writes to the run: make its folder and files writable (status, events, cost … read)",
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


def _line(url: URL, deadline: float) -> dict[str, dict[str, int]]:
    """Options of ``create_engine`` for the connection itself."""
    if not _is_postgresql(url) or not url.get_driver_name().startswith("psycopg"):
        return {}
    line = {**_LINE, "connect_timeout": min(_LINE["connect_timeout"], math.ceil(deadline))}
    return {"connect_args": {name: value for name, value in line.items() if name not in url.query}}


_Returned = TypeVar("_Returned")


def _within(
    steps: Generator[Any, Any, _Returned], deadline: float, connection: PostgreSQLConnection[Any]
) -> Generator[Any, Any, _Returned]:
    """Take the steps of a call of psycopg, unless the server says nothing for ``deadline`` seconds. The connection is
    then closed. Raises psycopg's OperationalError."""
    from psycopg import OperationalError

    until = monotonic() + deadline
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted  # nothing: psycopg looks up from its waiting a few times a second
            if ready:
                until = monotonic() + deadline
            elif monotonic() >= until:
                connection.pgconn.finish()
                raise OperationalError(f"no answer in {deadline:g} seconds")
            wanted = steps.send(ready)
    except StopIteration as end:
        returned: _Returned = end.value
        return returned


def _connecting_within(deadline: float) -> Callable[..., PostgreSQLConnection[Any]]:
    """Return how SQLAlchemy is to connect, so that no call on the connection waits longer than the deadline."""
    from psycopg import Connection as PostgreSQLConnection

    class _Connection(PostgreSQLConnection[Any]):
        def wait(self, gen: Generator[Any, Any, _Returned], *arguments: Any, **named: Any) -> _Returned:
            return super().wait(_within(gen, deadline, self), *arguments, **named)

    def connect(_dialect: object, _record: object, arguments: Sequence[Any], named: Any) -> PostgreSQLConnection[Any]:
        return _Connection.connect(*arguments, **named)

    return connect


def _postgresql_session(connection: Any, _record: object) -> None:
    settings = {
        "default_transaction_isolation": "'read committed'",
        # a server that may lose its last commits in a crash must not lose ours; one that waits for a replica too may
        "synchronous_commit": "coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on')",
        "lock_timeout": f"'{WAIT_SECONDS * 1000:.0f}ms'",
        "idle_in_transaction_session_timeout": f"'{IDLE_SECONDS * 1000:.0f}ms'",
    }
    cursor = connection.cursor()
    cursor.execute("SELECT " + ", ".join(f"set_config('{name}', {value}, false)" for name, value in settings.items()))
    cursor.close()
    connection.commit()


def _sqlite_pragmas(connection: Any, _record: object) -> None:
    # pysqlite would begin transactions late and commit them early by itself; `_sqlite_begin` does it instead
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={WAIT_SECONDS * 1000:.0f}")
    _journal_ahead(cursor)
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _journal_ahead(cursor: Any) -> None:
    """Two processes that set the journal mode of a new file at once: SQLite waits for neither, and tells one of them
    at once that the database is locked."""
    until = monotonic() + WAIT_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() >= until:
                raise
            Event().wait(0.02)
        else:
            return


def _sqlite_begin(connection: Connection) -> None:
    # IMMEDIATE: a writer waits for its turn at the start, instead of failing when it upgrades a read lock;
    # who only reads must not wait for writers at all
    reading = connection.get_execution_options().get(READING, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _check(connection: Connection, url: URL) -> None:
    """Find damage now, rather than in the middle of the run."""
    if not _is_sqlite(url) or not url.database or url.database == ":memory:":
        return
    if Path(_file(url)).stat().st_size > CHECKED_BYTES:
        return
    result = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if result != "ok":
        raise StoreError(f"the state store {_file(url)} is damaged ({str(result).splitlines()[-1]}): {_RESTORE}")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _create_schema(engine: Engine, current: str | None) -> None:
    """Make the tables in one transaction: all of them, or none. Two processes that meet here take turns.

    Raises StoreError where there is another schema (``current``).
    """
    from alembic import command
    from alembic.config import Config

    if current is not None:
        raise StoreError(
            f"the state store has schema {current}, and this version of layton-batch knows {HEAD} alone: use the "
            "version that wrote it, or begin the run again in another folder (--runs) or database"
        )
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATING})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
