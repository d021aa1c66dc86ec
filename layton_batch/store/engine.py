"""Opening the state store: SQLite in the run folder by default, any database SQLAlchemy reaches by URL.

SQLite runs in WAL with ``synchronous=FULL``: a commit that says "we are about to pay" must survive a power cut, so the
write-ahead log is synced at every commit. Nothing else in the program sets a pragma.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from layton_batch.errors import StoreError

HEAD = "0001"
"""The schema revision this program writes; held equal to Alembic's head by a test."""


READING = "layton_batch_reading"
"""Execution option of a connection that will not write."""


def open_engine(url: str) -> Engine:
    """An engine whose schema is this program's. Raises StoreError (unreachable, newer schema)."""
    try:
        engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _sqlite_pragmas)
            event.listen(engine, "begin", _sqlite_begin)
        with engine.connect().execution_options(**{READING: True}) as connection:
            current = _revision(connection)
        if current != HEAD:
            _migrate(engine, current)
    except (SQLAlchemyError, ImportError) as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise StoreError(f"the state store {_public(url)} cannot be opened: {reason}") from error
    return engine


def sqlite_url(path: Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite:///{path}"


def _public(url: str) -> str:
    """A database URL without its password."""
    from sqlalchemy.engine import make_url

    return make_url(url).render_as_string(hide_password=True)


def _sqlite_pragmas(connection: Any, _record: object) -> None:
    # pysqlite would begin transactions late and commit them early by itself; `_sqlite_begin` does it instead
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    # IMMEDIATE: a writer waits for its turn at the start, instead of failing when it upgrades a read lock;
    # who only reads must not wait for writers at all
    reading = connection.get_execution_options().get(READING, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine, current: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"the state store has schema {current}, which this version of layton-batch does not know: "
            "a newer version wrote it; upgrade layton-batch"
        )
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
