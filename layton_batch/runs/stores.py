"""The state store of a run, opened to look at it: without what planning, sending and scoring need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.clock import SystemClock
from layton_batch.errors import StoreError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.redaction import Redactor
from layton_batch.runs.folders import run_id_of
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from layton_batch.store.run_store import RunStore


@contextmanager
def open_store(folder: RunFolder, settings: Settings) -> Iterator[RunStore]:
    """The store of an existing run, to look at, or to leave an order for its driver; its folder may be one that this
    process cannot write to."""
    from layton_batch.store.engine import url_to_read

    url = settings.state_url or url_to_read(folder.database)
    with _store(url, folder.database, settings, run_id_of(folder)) as store:
        _require_run(store, folder)
        yield store


def _require_run(store: RunStore, folder: RunFolder) -> None:
    if store.row() is None:
        raise StoreError(f"{folder.root} has no run in its state store: was it started with another database?")


@contextmanager
def store_at(database: Path, settings: Settings, run_id: str) -> Iterator[RunStore]:
    """The store to change, whether the run is in it or not."""
    from layton_batch.store.engine import sqlite_url

    with _store(settings.state_url or sqlite_url(database), database, settings, run_id) as store:
        yield store


@contextmanager
def _store(url: str, database: Path, settings: Settings, run_id: str) -> Iterator[RunStore]:
    from layton_batch.store.driver import lease_clock
    from layton_batch.store.engine import open_engine
    from layton_batch.store.run_store import RunStore

    engine = open_engine(url)
    try:
        clean, arrive = Redactor.of(settings.secrets()), atomic.arrivals(database.parent)
        store = RunStore(engine, run_id, clean=clean, arrive=arrive)
        store.lease.clock = lease_clock(engine, SystemClock())
        yield store
    finally:
        engine.dispose()
