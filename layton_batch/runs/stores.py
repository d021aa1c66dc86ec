"""The state stores of runs, opened without what planning, sending and scoring need, and the files that they know."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.clock import iso
from layton_batch.errors import DamagedTableError, FileError, StoreError
from layton_batch.files import atomic
from layton_batch.files.atomic import append_json_line, changed_files, file_digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Event, FileDigest
from layton_batch.redaction import Redactor
from layton_batch.runs.folders import run_id_of
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from layton_batch.store.run_store import RunStore


def event_row(run: str, event: Event) -> dict[str, object]:
    """Return the event as a line of the log has it."""
    batch = {"batch": event.batch_id} if event.batch_id else {}
    line = {"at": iso(event.at), "run": run, "seq": event.seq, "event": event.kind, **batch}
    return {**line, "detail": event.detail}


@dataclass(slots=True)
class EventLog:
    """Writer of one line per event; warns once where the file cannot be written."""

    path: Path
    run: str
    _has_warned: bool = False

    def __call__(self, event: Event) -> None:
        """Append the event."""
        try:
            append_json_line(self.path, event_row(self.run, event))
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                reason = error.strerror or error
                logging.getLogger(__name__).warning("%s cannot be written (%s); events are kept", self.path, reason)


@contextmanager
def recording(store: RunStore, folder: RunFolder) -> Iterator[None]:
    """Record the digest of each file of the run that is not computed again and that this process writes meanwhile.

    A process whose session broke, so that another may drive the run, writes no file of the run or its batches.
    """
    root = folder.workspace.root
    folders = (folder.root, folder.history, folder.labels, folder.part("items", "items").parent)

    @contextmanager
    def record(path: Path, content: Path | None) -> Iterator[None]:
        store.require_session()
        # prompts are written anew, from run.json, whenever the run is opened
        if content is None or path.parent not in folders:
            yield
            return
        name = Path(os.path.abspath(path)).relative_to(root).as_posix()
        digest = file_digest(content, name)
        if path.exists():
            store.forget_file(name)  # a kill leaves either content without a record, which is no damage
        yield
        store.note_files([digest])

    with atomic.watched(folder.root, record), atomic.watched(folder.batches, record):
        yield


def recorded_files(store: RunStore, folder: RunFolder) -> list[FileDigest]:
    """Return the digests of the run's own files, under their paths in the workspace."""
    return store.files(f"{Path(os.path.abspath(folder.root)).name}/")


def check_files(store: RunStore, folder: RunFolder) -> None:
    """Raise FileError if a text file of the run was changed since it was written.

    A file that is gone is somebody else's to name: a run may go on without some of them. See ``check_items`` too.
    """
    recorded = [file for file in recorded_files(store, folder) if not file.name.endswith(".parquet")]
    for path in changed_files(folder.workspace.root, recorded):
        if path.exists():
            raise FileError(
                f"{path} was changed since layton-batch wrote it (its digest differs), and nothing is decided from it: "
                "put it back from a copy"
            )


def check_items(store: RunStore, folder: RunFolder) -> None:
    """Raise DamagedTableError if the frozen items of the run are gone or were changed since they were written."""
    root, table = folder.workspace.root, folder.part("items", "items")
    name = Path(os.path.abspath(table)).relative_to(root).as_posix()
    for path in changed_files(root, store.files(name)):
        raise DamagedTableError(
            f"{path} is gone, or was changed since layton-batch wrote it: put it back from a copy of the run; "
            "without it nobody knows what was asked",
            path,
        )


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

    if not store.knows_run():
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
