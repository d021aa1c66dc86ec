"""Transactions on one run's rows: reading, writing with the events that tell of it, and errors as sentences.

One write transaction of a database is under way at a time: SQLite sees to that itself, and on PostgreSQL each begins
with the same advisory lock. So no two wait for each other, and what a transaction has read holds until it ends.

Events are a log for people: no decision rests on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, Executable, bindparam, func, or_, select
from sqlalchemy.exc import SQLAlchemyError

from layton_batch.errors import StorageError
from layton_batch.records import Event
from layton_batch.store import schema
from layton_batch.store.engine import READING, complaint, shown
from layton_batch.store.rows import IN_CHUNK, RUN, chunks, event_from

DETAIL_CHARS = 2000
_INSERT_EVENT = schema.events.insert()
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_WRITERS = 0x616E7377
"""PostgreSQL's advisory lock of write transactions."""
Rows = TypeVar("Rows")

_events, _ids = schema.events.c, schema.provider_batches.c
_EVENTS = select(schema.events).where(_events.run_id == RUN, _events.seq > bindparam("after")).order_by(_events.seq)
_PROVIDER_IDS = select(_ids.provider_id).where(_ids.run_id == RUN)
_OTHER_OWNERS = (
    select(_ids.run_id, _ids.batch_id)
    .where(
        _ids.provider_id == bindparam("provider_id"),
        or_(_ids.run_id != RUN, _ids.batch_id != bindparam("batch")),
    )
    .order_by(_ids.seq.desc())
)
_TAGGED = select(schema.batches.c.batch_id).where(schema.batches.c.tag.in_(IN_CHUNK)).limit(1)
_NAMED = select(schema.requests.c.item_id).where(schema.requests.c.custom_id.in_(IN_CHUNK)).limit(1)


def unchanged(text: str) -> str:
    return text


@dataclass(slots=True)
class Writing:
    """An open write transaction; its events are told to listeners when it has been committed."""

    connection: Connection
    run_id: str
    clean: Callable[[str], str]
    clean_id: Callable[[str], str]
    events: list[Event] = field(default_factory=list)

    def event(self, at: float, batch_id: str | None, kind: str, detail: str) -> None:
        """Append an event."""
        detail = self.text(detail)[:DETAIL_CHARS]
        values = {"run_id": self.run_id, "at": at, "batch_id": batch_id, "kind": kind, "detail": detail}
        result = self.connection.execute(_INSERT_EVENT, values)
        key = result.inserted_primary_key
        self.events.append(Event(int(key[0]) if key else 0, at, batch_id, kind, detail))

    def text(self, text: str) -> str:
        """Return a text for people, fit to be kept: without secrets and without what a database cannot hold (NUL,
        lone surrogates)."""
        return _UNSTORABLE.sub("\ufffd", self.clean(text))

    def identifier(self, text: str) -> str:
        """Return an id, a state or a digest that is fit to be kept. It stays as it is unless it contains a key."""
        return _UNSTORABLE.sub("\ufffd", self.clean_id(text))


@dataclass(slots=True)
class Transactions:
    """One run in an open store, and its events. ``clean`` takes secrets out of texts for people that are kept,
    ``clean_id`` keys out of ids; ``listen`` hears of committed events. ``session``: the one that holds the run's lock
    on PostgreSQL, while this process drives the run."""

    engine: Engine
    run_id: str
    clean: Callable[[str], str] = unchanged
    clean_id: Callable[[str], str] = unchanged
    listen: Callable[[Event], None] | None = None
    session: Connection | None = None
    _turn: Lock = field(default_factory=Lock)
    _known_rows: dict[str, object] | None = None
    _writers: set[object] = field(default_factory=set)

    @contextmanager
    def reading_once(self) -> Iterator[None]:
        """Read the run, its jobs and its batches once while the block lasts, and again after each write of this
        process. What another process writes meanwhile is seen after the block, as if it came then. Within such a block
        another one changes nothing."""
        if self._known_rows is not None:
            yield
            return
        self._known_rows = {}
        try:
            yield
        finally:
            self._known_rows = None

    def _once(self, name: str, read: Callable[[], Rows]) -> Rows:
        rows = self._known_rows
        if rows is None or self._writers:  # a thread may be held up between its commit and the end of its writing
            return read()
        if name not in rows:  # a write meanwhile puts another dictionary in this one's place
            rows[name] = read()
        return cast("Rows", rows[name])

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read from. Raises StoreError where the database cannot be read."""
        try:
            with self.engine.connect().execution_options(**{READING: True}) as connection:
                yield connection
        except SQLAlchemyError as error:
            raise complaint(self.engine.url, error, "read") from error

    def _rows(self, query: Executable, **values: object) -> Iterator[Any]:
        """Yield the rows of a query about this run."""
        with self.reading() as connection:
            yield from connection.execute(query, {"run": self.run_id, **values})

    def _row(self, query: Executable, **values: object) -> Any:
        """Return the first row of a query about this run; None: there is none."""
        return next(iter([*self._rows(query, **values)]), None)

    def _rows_of(self, query: Executable, names: Collection[object]) -> Iterator[Any]:
        """Yield the rows of a query about these fingerprints, or jobs."""
        with self.reading() as connection:
            for chunk in chunks(list(names)):
                yield from connection.execute(query, {"run": self.run_id, "chunk": chunk})

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """One write transaction. Raises StoreError if it cannot be committed: then nothing of it happened."""
        writer = object()
        self._writers.add(writer)
        try:
            with self._begun() as connection:
                if self.engine.dialect.name == "postgresql":
                    connection.execute(select(func.pg_advisory_xact_lock(_WRITERS)))
                writing = Writing(connection, self.run_id, self.clean, self.clean_id)
                yield writing
        except SQLAlchemyError as error:
            raise complaint(self.engine.url, error, "written") from error
        finally:
            if self._known_rows is not None:
                self._known_rows = {}
            self._writers.discard(writer)
        if self.listen is not None:
            for event in writing.events:
                self.listen(event)

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        """Begin a transaction, in the session of the run's lock if there is one. Raises StorageError if it broke."""
        if (session := self.session) is None:
            with self.engine.begin() as connection:
                yield connection
            return
        with self._turn:
            if session.invalidated:
                raise StorageError(
                    f"the connection to the state store {shown(self.engine.url)} broke, and with it the lock of run "
                    f"{self.run_id}: call again"
                )
            with session.begin():
                yield session

    def require_session(self) -> None:
        """Raise StorageError if the session that holds the run's lock broke: another process may drive the run."""
        if self.session is not None:
            with self.writing():
                pass

    # ---- events ------------------------------------------------------------------------------------------------

    def add_event(self, at: float, batch_id: str | None, kind: str, detail: str) -> None:
        """Write down something that moved no state."""
        with self.writing() as writing:
            writing.event(at, batch_id, kind, detail)

    def events(self, after: int = 0) -> list[Event]:
        """Return the events after event number ``after``, in order."""
        return [event_from(row._mapping) for row in self._rows(_EVENTS, after=after)]

    def provider_ids(self) -> frozenset[str]:
        """Every batch at a provider that was ever known to be this run's, also where a person said otherwise since."""
        return frozenset(provider_id for (provider_id,) in self._rows(_PROVIDER_IDS))

    def owner_of(self, provider_id: str, batch_id: str) -> tuple[str, str] | None:
        """Return run and id of the batch, other than this run's ``batch_id``, that a provider's batch was known to be;
        None: of no other one in this database."""
        row = self._row(_OTHER_OWNERS, provider_id=provider_id, batch=batch_id)
        return None if row is None else (str(row.run_id), str(row.batch_id))

    def has_given_a_name(self, names: Collection[str]) -> bool:
        """Return whether a batch or a request of this database has one of these names."""
        return any(list(self._rows_of(query, names)) for query in (_TAGGED, _NAMED))

    def know_provider_ids(self, batch_id: str, provider_ids: Iterable[str]) -> None:
        """Have batches at a provider be known from now on, because a person said what to make of them."""
        with self.writing() as writing:
            self._know(writing.connection, batch_id, provider_ids)

    def _know(self, connection: Connection, batch_id: str, provider_ids: Iterable[str]) -> None:
        rows = [{"run_id": self.run_id, "batch_id": batch_id, "provider_id": name} for name in provider_ids]
        if rows:
            connection.execute(schema.provider_batches.insert(), rows)

    def known_provider_ids(self) -> frozenset[str]:
        """Return every batch at a provider that was ever known to be of a run of this database."""
        return frozenset(provider_id for (provider_id,) in self._rows(select(schema.provider_batches.c.provider_id)))
