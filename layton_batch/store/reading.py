"""What a run's store tells who only looks, and a reader of SQLite files that loads nothing but Python's own driver.

SQLAlchemy takes longer to load than ``status`` takes. The quick reader has no words for what is wrong with a store: a
file that is damaged, read-only, of another schema or in another journal mode is left to :func:`open_engine`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from layton_batch.errors import StoreError
from layton_batch.records import Batch, Event, Job, RowCount
from layton_batch.states import Lifecycle
from layton_batch.store.rows import (
    FLAGS,
    Ends,
    Money,
    Row,
    RunRow,
    batch_from,
    ends_from_json,
    event_from,
    job_from,
    money_from,
    row_count_from,
    run_from,
)

HEAD = "0001"
"""The schema revision this program writes; held equal to Alembic's head by a test."""

CHECKED_BYTES = 64 * 1024 * 1024
"""SQLite files up to this size are checked whole when opened; that takes about a millisecond a megabyte."""

WAIT_SECONDS = 30.0
"""How long a reading waits for one who changes the file as a whole."""


class Reader(Protocol):
    """One run in an open store, to look at: each call is a reading of its own."""

    @property
    def run_id(self) -> str: ...

    def row(self) -> RunRow | None:
        """The run, or None where the store has none of this id."""

    def jobs(self) -> list[Job]:
        """The jobs of the latest revision, in order."""

    def batches(self) -> list[Batch]:
        """Batches in order of entry, but for what is planned for a retired job."""

    def row_counts(self) -> list[RowCount]:
        """How the requests of every collected batch ended."""

    def money(self) -> Money:
        """The run's ledger, added up."""

    def retired_ends(self) -> dict[str, Ends]:
        """By job how the requests ended that the manifest does not ask for any more; without jobs that have none."""

    def events(self, after: int = 0) -> list[Event]:
        """What happened, in order, after event number ``after``."""


Complaint = Callable[[sqlite3.Error], StoreError]
"""Makes a sentence of what went wrong in a reading."""


@contextmanager
def quick_reader(database: Path, run_id: str, complaint: Complaint) -> Iterator[Reader | None]:
    """A reader of the run; None where the file is not there, or not as this version leaves it."""
    connection = _connected(database)
    try:
        yield None if connection is None else _QuickReader(connection, run_id, complaint)
    finally:
        if connection is not None:
            connection.close()


def _connected(database: Path) -> sqlite3.Connection | None:
    if not (database.exists() and os.access(database.parent, os.W_OK) and os.access(database, os.W_OK)):
        return None
    with suppress(sqlite3.Error, OSError):
        connection = sqlite3.connect(database, timeout=WAIT_SECONDS, isolation_level=None)
        with suppress(sqlite3.Error, OSError):
            if _is_in_order(connection, database):
                connection.row_factory = _by_name
                return connection
        connection.close()
    return None


def _is_in_order(connection: sqlite3.Connection, database: Path) -> bool:
    def answer(question: str) -> object:
        found = connection.execute(question).fetchone()
        return found and found[0]

    return (
        answer("PRAGMA journal_mode") == "wal"
        and answer("SELECT version_num FROM alembic_version") == HEAD
        and (database.stat().st_size > CHECKED_BYTES or answer("PRAGMA quick_check(1)") == "ok")
    )


_TYPES: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys((*FLAGS, "needs_person", "planned", "graded", "retired", "cancelled"), bool),
    **dict.fromkeys(("usd", "max_cost"), Decimal),
}
"""Columns that SQLite keeps as numbers or texts of another type."""


def _by_name(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    named = {about[0]: value for about, value in zip(cursor.description, values, strict=True)}
    for name in _TYPES.keys() & named.keys():
        named[name] = None if named[name] is None else _TYPES[name](named[name])
    return named


_VISIBLE = """
SELECT * FROM batches
WHERE run_id = ? AND (state <> ? OR job_id NOT IN (SELECT job_id FROM jobs WHERE run_id = ? AND retired))
ORDER BY seq
"""


class _QuickReader:
    def __init__(self, connection: sqlite3.Connection, run_id: str, complaint: Complaint) -> None:
        self._connection, self.run_id, self._complaint = connection, run_id, complaint

    def row(self) -> RunRow | None:
        found = self._rows("SELECT * FROM runs WHERE run_id = ?")
        return run_from(found[0]) if found else None

    def jobs(self) -> list[Job]:
        return [job_from(row) for row in self._rows("SELECT * FROM jobs WHERE run_id = ? AND NOT retired ORDER BY seq")]

    def batches(self) -> list[Batch]:
        return [batch_from(row) for row in self._rows(_VISIBLE, str(Lifecycle.PLANNED), self.run_id)]

    def row_counts(self) -> list[RowCount]:
        return [row_count_from(row) for row in self._rows("SELECT * FROM row_counts WHERE run_id = ?")]

    def money(self) -> Money:
        entries = self._rows("SELECT kind, usd FROM ledger WHERE run_id = ?")
        return money_from((entry["kind"], entry["usd"]) for entry in entries)

    def retired_ends(self) -> dict[str, Ends]:
        found = self._rows("SELECT job_id, retired_ends FROM jobs WHERE run_id = ? AND retired_ends IS NOT NULL")
        return {row["job_id"]: ends_from_json(row["retired_ends"]) for row in found}

    def events(self, after: int = 0) -> list[Event]:
        found = self._rows("SELECT * FROM events WHERE run_id = ? AND seq > ? ORDER BY seq", after)
        return [event_from(row) for row in found]

    def _rows(self, query: str, *more: object) -> Sequence[Row]:
        """``query``: its first parameter is the run."""
        try:
            return self._connection.execute(query, (self.run_id, *more)).fetchall()
        except sqlite3.Error as error:
            raise self._complaint(error) from error
