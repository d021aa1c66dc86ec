"""What happened to a run, written down in order and read back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import and_, func, select

from layton_batch.records import Event
from layton_batch.store import schema
from layton_batch.store.transactions import Transactions


@dataclass(slots=True)
class Events(Transactions):
    """The events of one run in an open store."""

    def add_event(self, at: float, batch_id: str | None, kind: str, detail: str) -> None:
        """Write down something that moved no state."""
        with self.writing() as writing:
            writing.event(at, batch_id, kind, detail)

    def has_event(self, batch_id: str, kind: str) -> bool:
        """Whether an event of this kind was written about this batch."""
        table = schema.events
        this = and_(table.c.run_id == self.run_id, table.c.batch_id == batch_id, table.c.kind == kind)
        with self.reading() as connection:
            return connection.execute(select(table.c.seq).where(this).limit(1)).first() is not None

    def events_since(self, batch_id: str, marks: Collection[str], kind: str) -> int:
        """How many events of this kind were written about this batch after the last of those marks."""
        table = schema.events
        this = and_(table.c.run_id == self.run_id, table.c.batch_id == batch_id)
        last = select(func.max(table.c.seq)).where(this, table.c.kind.in_(marks)).scalar_subquery()
        query = select(func.count()).where(this, table.c.kind == kind, table.c.seq > func.coalesce(last, 0))
        with self.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def events_of(self, kinds: Collection[str]) -> dict[str, int]:
        """How many events of these kinds were written, by batch."""
        table = schema.events
        query = select(table.c.batch_id, func.count()).where(table.c.run_id == self.run_id, table.c.kind.in_(kinds))
        with self.reading() as connection:
            return {str(name): int(count) for name, count in connection.execute(query.group_by(table.c.batch_id))}

    def provider_ids(self) -> frozenset[str]:
        """Every batch at a provider that was ever known to be this run's, also where a person said otherwise since."""
        table = schema.events
        told = and_(table.c.run_id == self.run_id, table.c.kind.in_(("submitted", "found", "adopted")))
        with self.reading() as connection:
            return frozenset(connection.execute(select(table.c.detail).where(told)).scalars())

    def last_event(self) -> int:
        """The number of the newest event; 0 where there is none."""
        table = schema.events
        with self.reading() as connection:
            return connection.execute(select(func.max(table.c.seq)).where(table.c.run_id == self.run_id)).scalar() or 0

    def events(self, after: int = 0) -> list[Event]:
        """What happened, in order, after event number ``after``."""
        table = schema.events
        query = select(table).where(table.c.run_id == self.run_id, table.c.seq > after).order_by(table.c.seq)
        with self.reading() as connection:
            rows = connection.execute(query).mappings()
            return [Event(row["seq"], row["at"], row["batch_id"], row["kind"], row["detail"]) for row in rows]
