"""Where the runs of one database have their folders: an answer that another run paid for is in its files, not here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from layton_batch.store import schema
from layton_batch.store.transactions import Transactions


@dataclass(frozen=True, slots=True)
class RunLocation:
    """A run of the database, and the host and folder where it was opened last."""

    run_id: str
    host: str
    folder: Path


def note_place(store: Transactions, host: str, folder: Path) -> None:
    """Enter where the run's folder is, where that is not known yet."""
    runs = schema.runs
    mine = runs.c.run_id == store.run_id
    with store.reading() as connection:
        place = connection.execute(select(runs.c.host, runs.c.folder).where(mine)).first()
    if place is not None and tuple(place) != (host, str(folder)):
        with store.writing() as writing:
            writing.connection.execute(runs.update().where(mine).values(host=host, folder=str(folder)))


def other_places(store: Transactions) -> list[RunLocation]:
    """Return the places of the other runs of the database, by name."""
    runs = schema.runs
    query = select(runs.c.run_id, runs.c.host, runs.c.folder).where(runs.c.run_id != store.run_id)
    query = query.where(runs.c.folder.is_not(None)).order_by(runs.c.run_id)
    with store.reading() as connection:
        return [RunLocation(run_id, host, Path(folder)) for run_id, host, folder in connection.execute(query)]
