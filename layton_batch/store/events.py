"""What happened to a run, in order: a log for people. No decision hangs on it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

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
