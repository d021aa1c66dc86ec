"""The state store of a run, opened to look at it: without what planning, sending and scoring need."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import StoreError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.redaction import Redactor
from layton_batch.runs.folders import run_id_of
from layton_batch.settings import Settings
from layton_batch.store.reading import Reader, quick_reader

if TYPE_CHECKING:
    from layton_batch.store import RunStore


@contextmanager
def open_reader(folder: RunFolder, settings: Settings) -> Iterator[Reader]:
    """As :func:`open_store`, for who reads no more than a ``Reader`` has: where the store is a SQLite file in order,
    without loading SQLAlchemy."""
    run_id = run_id_of(folder)

    def complaint(error: sqlite3.Error) -> StoreError:
        from layton_batch.store.engine import complaint_of_file

        return complaint_of_file(folder.database, error)

    with nullcontext() if settings.state_url else quick_reader(folder.database, run_id, complaint) as quick:
        if quick is None:
            with open_store(folder, settings) as store:
                yield store
            return
        _require_run(quick, folder)
        yield quick


@contextmanager
def open_store(folder: RunFolder, settings: Settings) -> Iterator[RunStore]:
    """The store of an existing run, to look at; other processes may be working on it, and its folder may be one that
    this process cannot write to."""
    from layton_batch.store.engine import url_to_read  # SQLAlchemy: not loaded where a quick reader does

    url = settings.state_url or url_to_read(folder.database)
    with _store(url, folder.database, settings, run_id_of(folder)) as store:
        _require_run(store, folder)
        yield store


def _require_run(store: Reader, folder: RunFolder) -> None:
    if store.row() is None:
        raise StoreError(f"{folder.root} has no run in its state store: was it started with another database?")


@contextmanager
def store_at(database: Path, settings: Settings, run_id: str) -> Iterator[RunStore]:
    """The store to change, whether the run is in it or not."""
    from layton_batch.store import sqlite_url

    with _store(settings.state_url or sqlite_url(database), database, settings, run_id) as store:
        yield store


@contextmanager
def _store(url: str, database: Path, settings: Settings, run_id: str) -> Iterator[RunStore]:
    from layton_batch.store import RunStore, open_engine

    engine = open_engine(url)
    try:
        clean, arrive = Redactor.of(settings.secrets()), atomic.arrivals(database.parent)
        yield RunStore(engine, run_id, clean=clean, arrive=arrive)
    finally:
        engine.dispose()
