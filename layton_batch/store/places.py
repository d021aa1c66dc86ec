"""Where the runs of one database have their folders: an answer that another run paid for is in its files, not here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import and_, select

from layton_batch.states import Lifecycle
from layton_batch.store import schema
from layton_batch.store.transactions import Transactions


@dataclass(frozen=True, slots=True)
class Place:
    """A run of the database, and where it was opened last. ``asked``: the models that answered it, by provider and
    id."""

    run_id: str
    host: str
    folder: Path
    asked: frozenset[tuple[str, str]]


def note_place(store: Transactions, host: str, folder: Path) -> None:
    """Enter where the run's folder is, where that is not known yet."""
    runs = schema.runs
    mine = runs.c.run_id == store.run_id
    with store.reading() as connection:
        known = connection.execute(select(runs.c.host, runs.c.folder).where(mine)).first()
    if known is not None and tuple(known) != (host, str(folder)):
        with store.writing() as writing:
            writing.connection.execute(runs.update().where(mine).values(host=host, folder=str(folder)))


def other_places(store: Transactions) -> list[Place]:
    """The other runs of the database that have answers, by name."""
    runs, batches = schema.runs, schema.batches
    collected = and_(batches.c.run_id == runs.c.run_id, batches.c.state == str(Lifecycle.COLLECTED))
    query = (
        select(runs.c.run_id, runs.c.host, runs.c.folder, batches.c.provider, batches.c.model)
        .join(batches, collected)
        .where(runs.c.run_id != store.run_id)
        .distinct()
        .order_by(runs.c.run_id)
    )
    found: dict[str, tuple[str, str, set[tuple[str, str]]]] = {}
    with store.reading() as connection:
        for run_id, host, folder, provider, model in connection.execute(query):
            found.setdefault(run_id, (host, folder, set()))[2].add((provider, model))
    return [Place(run_id, host, Path(folder), frozenset(asked)) for run_id, (host, folder, asked) in found.items()]
