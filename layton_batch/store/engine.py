"""Opening the state store: SQLite in the run folder by default, any database SQLAlchemy reaches by URL.

SQLite runs in WAL with ``synchronous=FULL``: a commit that says "we are about to pay" must survive a power cut, so the
write-ahead log is synced at every commit. Nothing else in the program sets a pragma. Other databases run at their own
default isolation (read committed): every change is one UPDATE that names what it found, which that is enough for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from layton_batch.errors import StoreError

HEAD = "0002"
"""The schema revision this program writes; held equal to Alembic's head by a test."""

READING = "layton_batch_reading"
"""Execution option of a connection that will not write."""

CHECKED_BYTES = 64 * 1024 * 1024
"""SQLite files up to this size are checked whole when opened; that takes about a millisecond a megabyte."""

_MIGRATING = 0x6C6179746F6E
"""PostgreSQL's advisory lock while the schema is changed."""


def open_engine(url: str) -> Engine:
    """An engine whose schema is this program's. Raises StoreError (unreachable, damaged, newer schema)."""
    address = _address(url)
    try:
        engine = create_engine(address, pool_pre_ping=not _is_sqlite(address), hide_parameters=True)
    except (SQLAlchemyError, ImportError) as error:
        raise StoreError(complaint(address, error, "opened")) from error
    try:
        if _is_sqlite(address):
            event.listen(engine, "connect", _sqlite_pragmas)
            event.listen(engine, "begin", _sqlite_begin)
        with engine.connect().execution_options(**{READING: True}) as connection:
            _check(connection, address)
            current = _revision(connection)
        if current != HEAD:
            _migrate(engine, current)
    except (SQLAlchemyError, ImportError) as error:
        engine.dispose()
        raise StoreError(complaint(address, error, "opened")) from error
    except BaseException:
        engine.dispose()
        raise
    return engine


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file."""
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def complaint(url: URL, error: Exception, done: str) -> str:
    """What went wrong with the store in one line, without its password."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__]
    advice = next((advice for sign, advice in _ADVICE if sign in lines[0]), "")
    return f"the state store {url.render_as_string(hide_password=True)} cannot be {done}: {lines[0]}{advice}"


_ADVICE = (
    ("malformed", "; the file is damaged: put back a copy of the run folder, or its -wal file if that is missing"),
    ("not a database", "; the file is damaged or is no state store: put back a copy of the run folder"),
    ("disk is full", "; nothing of this step was kept, and everything before it is: make room and run again"),
    ("disk I/O error", "; nothing of this step was kept, and everything before it is: check the disk and run again"),
    ("database is locked", "; another process has been writing to it for half a minute: let it finish"),
    ("No module named 'psycopg", "; install layton-batch[postgres]"),
)


def _address(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            "LAYTON_BATCH_STATE is no database URL; it looks like postgresql+psycopg://user:password@host/database"
        ) from error


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _sqlite_pragmas(connection: Any, _record: object) -> None:
    # pysqlite would begin transactions late and commit them early by itself; `_sqlite_begin` does it instead
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    # IMMEDIATE: a writer waits for its turn at the start, instead of failing when it upgrades a read lock;
    # who only reads must not wait for writers at all
    reading = connection.get_execution_options().get(READING, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _check(connection: Connection, url: URL) -> None:
    """Find damage now, rather than in the middle of the run."""
    if not _is_sqlite(url) or not url.database or url.database == ":memory:":
        return
    if Path(url.database).stat().st_size > CHECKED_BYTES:
        return
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if found != "ok":
        raise StoreError(
            f"the state store {url.database} is damaged ({str(found).splitlines()[-1]}): put back a copy of the run "
            "folder; batches already submitted go on at the provider"
        )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine, current: str | None) -> None:
    """Bring an older schema up in one transaction: all of it, or none. Two processes that meet here take turns."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"the state store has schema {current}, which this version of layton-batch does not know: "
            "a newer version wrote it; upgrade layton-batch"
        )
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
