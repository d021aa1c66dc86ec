"""Transactions on one run's rows: reading, writing with the events that tell of it, and errors as sentences.

A driver's write transaction checks the driver lease first. On PostgreSQL that locks the run's row, so that two of them
never wait for each other; on SQLite every write transaction is alone from its start.

Events are a log for people: no decision hangs on them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection, Engine, or_, select
from sqlalchemy.exc import SQLAlchemyError

from layton_batch.errors import StoreError
from layton_batch.records import Batch, Event, Job
from layton_batch.states import Lifecycle
from layton_batch.store import schema
from layton_batch.store.driver import DriverLease
from layton_batch.store.engine import READING, complaint
from layton_batch.store.rows import event_from

Read = TypeVar("Read", Job, Batch)
DETAIL_CHARS = 2000
_NAMES_AT_ONCE = 500
_INSERT_EVENT = schema.events.insert()
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def unchanged(text: str) -> str:
    return text


@dataclass(slots=True)
class Writing:
    """An open write transaction; its events are told to listeners when it has been committed. ``cancelled``: the run
    is, as the driver's transactions read it."""

    connection: Connection
    run_id: str
    clean: Callable[[str], str]
    clean_id: Callable[[str], str]
    cancelled: bool = False
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
    """One run in an open store. ``clean`` takes secrets out of texts for people that are kept, ``clean_id`` keys out of
    ids; ``listen`` hears of committed events;
    ``arrive`` is told what was read here, and what this process will have written itself, and returns when the files of
    the first are here (None: they always are)."""

    engine: Engine
    run_id: str
    clean: Callable[[str], str] = unchanged
    clean_id: Callable[[str], str] = unchanged
    listen: Callable[[Event], None] | None = None
    arrive: Callable[[Collection[Hashable], Collection[Hashable]], None] | None = None
    lease: DriverLease = field(init=False)

    def __post_init__(self) -> None:
        self.lease = DriverLease(self.run_id)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read from. Raises StoreError where the database cannot be read."""
        try:
            with self.engine.connect().execution_options(**{READING: True}) as connection:
                yield connection
        except SQLAlchemyError as error:
            raise complaint(self.engine.url, error, "read") from error

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """One transaction of the run's driver.

        Raises AnotherDriverError where this process does not drive the run, StoreError where the transaction cannot be
        committed: then nothing of it happened.
        """
        with self.transaction() as writing:
            writing.cancelled = self.lease.check(writing.connection)
            yield writing

    @contextmanager
    def transaction(self) -> Iterator[Writing]:
        """One write transaction of any process, for what is not the driver's alone to write. Raises StoreError."""
        try:
            with self.engine.begin() as connection:
                writing = Writing(connection, self.run_id, self.clean, self.clean_id)
                yield writing
        except SQLAlchemyError as error:
            raise complaint(self.engine.url, error, "written") from error
        if self.listen is not None:
            for event in writing.events:
                self.listen(event)

    # ---- the driver lease --------------------------------------------------------------------------------------

    def drive(self) -> None:
        """Become the run's driver, and wait for the files of the driver before. Raises AnotherDriverError."""
        try:
            with self.transaction() as writing:
                token = self.lease.take(writing.connection)
        except BaseException:
            self.lease.forget()
            raise
        if self.arrive is not None:
            before = [(self.run_id, "driver", token - 1)] if token > 1 else []
            self.arrive(before, [(self.run_id, "driver", token)])

    def renew(self) -> None:
        """Lengthen the driver lease. Raises AnotherDriverError where another process took it."""
        with self.transaction() as writing:
            self.lease.renew(writing.connection)

    def require_driver(self) -> None:
        """Raise AnotherDriverError where this process does not drive the run any more."""
        with self.reading() as connection:
            self.lease.check(connection, lock=False)

    def require_undriven(self) -> None:
        """Raise AnotherDriverError where another process drives the run."""
        with self.reading() as connection:
            self.lease.require_undriven(connection)

    def stop_driving(self) -> None:
        """Give the driver lease back."""
        try:
            with self.transaction() as writing:
                self.lease.give_back(writing.connection)
        except StoreError as error:
            logging.getLogger(__name__).warning("the driver lease is left to run out: %s", error)
        finally:
            self.lease.forget()

    def _with_files(self, read: list[Read]) -> list[Read]:
        """Wait for the files of the records that were read: of a job its requests and predictions, of a batch its
        requests and, where it is collected, its answers."""
        if self.arrive is not None:
            self.arrive([_files_of(self.run_id, record) for record in read], ())
        return read


def _files_of(run_id: str, record: Job | Batch) -> Hashable:
    """Return a key that changes when the record's files change."""
    if isinstance(record, Batch):
        return run_id, record.id, "collected" if record.state is Lifecycle.COLLECTED else "open"
    return run_id, record.id, record.news, record.planned, record.graded


@dataclass(slots=True)
class Events(Transactions):
    """The events of one run in an open store."""

    def add_event(self, at: float, batch_id: str | None, kind: str, detail: str) -> None:
        """Write down something that moved no state."""
        with self.writing() as writing:
            writing.event(at, batch_id, kind, detail)

    def events(self, after: int = 0) -> list[Event]:
        """Return the events after event number ``after``, in order."""
        table = schema.events
        query = select(table).where(table.c.run_id == self.run_id, table.c.seq > after).order_by(table.c.seq)
        with self.reading() as connection:
            rows = connection.execute(query).mappings()
            return [event_from(row) for row in rows]

    def provider_ids(self) -> frozenset[str]:
        """Every batch at a provider that was ever known to be this run's, also where a person said otherwise since."""
        table = schema.provider_batches
        with self.reading() as connection:
            mine = select(table.c.provider_id).where(table.c.run_id == self.run_id)
            return frozenset(connection.execute(mine).scalars())

    def owner_of(self, provider_id: str, batch_id: str) -> tuple[str, str] | None:
        """Return run and id of the batch, other than this run's ``batch_id``, that a provider's batch was known to be;
        None: of no other one in this database."""
        table = schema.provider_batches
        other = or_(table.c.run_id != self.run_id, table.c.batch_id != batch_id)
        query = select(table.c.run_id, table.c.batch_id).where(table.c.provider_id == provider_id, other)
        with self.reading() as connection:
            row = connection.execute(query.order_by(table.c.seq.desc())).first()
        return None if row is None else (str(row.run_id), str(row.batch_id))

    def has_given_a_name(self, names: Collection[str]) -> bool:
        """Return whether a batch or a request of this database has one of these names."""
        batches, requests, some = schema.batches.c, schema.requests.c, list(names)[:_NAMES_AT_ONCE]
        with self.reading() as connection:
            tags = select(batches.batch_id).where(batches.tag.in_(some)).limit(1)
            ids = select(requests.item_id).where(requests.custom_id.in_(some)).limit(1)
            return any(connection.execute(query).first() is not None for query in (tags, ids))

    def know_provider_ids(self, batch_id: str, provider_ids: Iterable[str]) -> None:
        """Have batches at a provider be known from now on, because a person said what to make of them."""
        rows = [{"run_id": self.run_id, "batch_id": batch_id, "provider_id": name} for name in provider_ids]
        with self.transaction() as writing:
            writing.connection.execute(schema.provider_batches.insert(), rows)

    def known_provider_ids(self) -> frozenset[str]:
        """Return every batch at a provider that was ever known to be of a run of this database."""
        with self.reading() as connection:
            return frozenset(connection.execute(select(schema.provider_batches.c.provider_id)).scalars())
