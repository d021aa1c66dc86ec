"""The state stores of runs, opened without what planning, sending and scoring need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from layton_batch.errors import StoreError
from layton_batch.files.run_folder import RunFolder
from layton_batch.redaction import Redactor
from layton_batch.runs.event_log import EventLog
from layton_batch.runs.folders import run_id_of
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from layton_batch.store.run_store import RunStore


@contextmanager
def open_stores(settings: Settings) -> Iterator[Callable[[RunFolder], RunStore]]:
    """Yield a function that gives the store of an existing run, to look at. Each database is opened once.

    Other processes may be working on the run, and this process may be unable to write to its folder. The function
    raises StoreError where the run's database is missing, cannot be used, or does not know the run.
    """
    engines: dict[str, Engine] = {}
    with ExitStack() as stack:

        def store_of(folder: RunFolder) -> RunStore:
            run_id = run_id_of(folder)
            url = _url_to_read(folder, settings)
            if url not in engines:
                engines[url] = stack.enter_context(_engine(url))
            store = _store(engines[url], folder, settings, run_id)
            _require_run(store, folder)
            return store

        yield store_of


@contextmanager
def open_store(folder: RunFolder, settings: Settings) -> Iterator[RunStore]:
    """Open the store of an existing run to look at it, or to enter what a person decides; see :func:`open_stores`."""
    with open_stores(settings) as store_of:
        yield store_of(folder)


def _require_run(store: RunStore, folder: RunFolder) -> None:
    from layton_batch.store.engine import shown

    if store.row() is None:
        raise StoreError(
            f"the state store {shown(store.engine.url)} does not know the run in {folder.root}: the folder was "
            "copied without its state, or the run began with another database. Put state.sqlite3 back with its "
            "-wal file, or set LAYTON_BATCH_STATE as it was"
        )


@contextmanager
def store_at(folder: RunFolder, settings: Settings, run_id: str) -> Iterator[RunStore]:
    """Open the store of this run to change it, whether the run is in it or not.

    Raises StoreError where the workspace has lost its database.
    """
    from layton_batch.store.engine import sqlite_url
    from layton_batch.store.intents import refuse_new_database

    if settings.state_url is None:
        refuse_new_database(folder.workspace)
    with _engine(settings.state_url or sqlite_url(folder.workspace.database)) as engine:
        yield _store(engine, folder, settings, run_id)


@contextmanager
def engine_to_read(folder: RunFolder, settings: Settings) -> Iterator[Engine]:
    """Open the database of a run's workspace to look at it."""
    with _engine(_url_to_read(folder, settings)) as engine:
        yield engine


def _url_to_read(folder: RunFolder, settings: Settings) -> str:
    from layton_batch.store.engine import url_to_read

    return settings.state_url or url_to_read(folder.workspace.database)


@contextmanager
def _engine(url: str) -> Iterator[Engine]:
    from layton_batch.store.engine import open_engine

    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def _store(engine: Engine, folder: RunFolder, settings: Settings, run_id: str) -> RunStore:
    from layton_batch.store.run_store import RunStore

    redact = Redactor.of(settings.secrets())
    return RunStore(engine, run_id, clean=redact, clean_id=redact.without_keys, listen=EventLog(folder.log, run_id))
