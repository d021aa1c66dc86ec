"""The state store of a run, opened to look at it: without what planning, sending and scoring need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import StoreError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.log import Redactor
from layton_batch.runs.folders import run_id_of
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from layton_batch.store.run_store import RunStore


@contextmanager
def open_store(folder: RunFolder, settings: Settings) -> Iterator[RunStore]:
    """The store of an existing run, to look at; other processes may be working on it, and its folder may be one that
    this process cannot write to."""
    from layton_batch.store.engine import readable

    database = nullcontext(folder.database) if settings.state_url else readable(folder.database)
    with database as path, store_at(path, settings, run_id_of(folder)) as store:
        _require_run(store, folder)
        yield store


def _require_run(store: RunStore, folder: RunFolder) -> None:
    if store.row() is None:
        raise StoreError(f"{folder.root} has no run in its state store: was it started with another database?")


@contextmanager
def store_at(
    database: Path, settings: Settings, run_id: str, in_place: Callable[[], None] | None = None
) -> Iterator[RunStore]:
    """The store, whether the run is in it or not. ``in_place``: raises where the run's folder is not in its place."""
    from layton_batch.store.engine import open_engine, sqlite_url
    from layton_batch.store.run_store import RunStore
    from layton_batch.store.transactions import anywhere

    engine = open_engine(settings.state_url or sqlite_url(database))
    try:
        clean, arrive = Redactor.of(settings.secrets()), atomic.arrivals(database.parent)
        yield RunStore(engine, run_id, clean=clean, in_place=in_place or anywhere, arrive=arrive)
    finally:
        engine.dispose()
