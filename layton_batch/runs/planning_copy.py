"""A copy of a workspace in which a run plans: `plan` is a run that is not committed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from sqlalchemy import select

from layton_batch.clock import Clock
from layton_batch.errors import LaytonBatchError
from layton_batch.files.run_folder import BATCHES, RunFolder, Workspace
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Item
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_copied
from layton_batch.runs.stores import engine_to_read
from layton_batch.settings import Settings
from layton_batch.store import schema
from layton_batch.store.engine import open_engine, sqlite_url

_ROWS = 5_000
"""Rows that are written in one statement."""


@contextmanager
def planning_copy(
    manifest: Manifest, folder: RunFolder, settings: Settings, clock: Clock, items: Sequence[Item]
) -> Iterator[tuple[Run, str | None]]:
    """Yield the manifest's run in a copy of its workspace, with what the manifest asks by now, and why the workspace
    cannot be read (None: it can): then the copy is empty. Nothing of what is done there stays."""
    with TemporaryDirectory(prefix="layton-batch-plan-") as temporary:
        copy, trouble = Workspace(Path(temporary).resolve() / "runs"), None
        copy.root.mkdir()
        try:
            _copy(folder.absolute(), settings, copy)
        except LaytonBatchError as error:
            trouble = f"the run cannot be read, and all of it is counted as new: {error}"
            copy = Workspace(Path(temporary).resolve() / "empty")
            copy.root.mkdir()
        with open_copied(manifest, copy.run(folder.root.name), settings, clock, items) as run:
            yield run, trouble


def _copy(folder: RunFolder, settings: Settings, copy: Workspace) -> None:
    """Copy the rows of all runs, and link to their files. Raises LaytonBatchError."""
    workspace, own = folder.workspace, folder.root.name
    if not (settings.state_url or workspace.database.exists() or folder.manifest.exists()):
        return
    known = _copy_rows(folder, settings, copy.database, own)
    others = [path for path in workspace.root.glob("*") if path.is_dir() and path.name not in (own, BATCHES)]
    others += [path for path in (workspace.root / BATCHES).glob("*") if path.name != own]
    others += [path for path in (*folder.root.glob("*.json*"), *folder.labels.glob("*")) if path != folder.log]
    others += folder.tables.glob("*/*.parquet")
    # file by file, for the copy mends what is damaged; what the rows do not know is written anew
    others += [path for name in known for path in (workspace.batches(own) / name).rglob("*") if path.is_file()]
    for path in others:
        link = copy.root / path.relative_to(workspace.root)
        link.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(path.resolve(), link)


def _copy_rows(folder: RunFolder, settings: Settings, target: Path, run_id: str) -> Sequence[str]:
    """Copy the database to a file. Return the batches of the run."""
    with engine_to_read(folder, settings) as source:
        if source.dialect.name == "sqlite":
            with closing(source.raw_connection()) as reading, closing(sqlite3.connect(target)) as writing:
                cast("sqlite3.Connection", reading.driver_connection).backup(writing)
        engine = open_engine(sqlite_url(target))
        try:
            if source.dialect.name != "sqlite":
                with source.connect() as reading, engine.begin() as writing:
                    for table in set(schema.metadata.sorted_tables) - {schema.schema_version}:
                        for rows in reading.execute(select(table)).mappings().partitions(_ROWS):
                            writing.execute(table.insert(), [dict(row) for row in rows])
            with engine.connect() as copied:
                mine = select(schema.batches.c.batch_id).where(schema.batches.c.run_id == run_id)
                return copied.execute(mine).scalars().all()
        finally:
            engine.dispose()
