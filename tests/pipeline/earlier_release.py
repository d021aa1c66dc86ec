"""A run's folder in the form that the release before revisions wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import polars as pl

from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest

SCHEMA = "0004"
_NEW_COLUMNS = {
    "jobs": ("identity", "retired", "retired_ends"),
    "runs": ("asked", "applied", "items", "host", "folder"),
    "batches": ("read_at",),
}
_NEW_INDEXES = ("batches_by_job",)
_WITH_RUN_ID = ("runs", "jobs", "batches", "provider_batches", "leases", "row_counts", "ledger", "events")
_OF_REQUESTS = ("fingerprint", "sample", "retired")


def as_the_release_before_left_it(folder: RunFolder, manifest: Manifest) -> RunFolder:
    """The folder under its former name, without anything that the release did not know."""
    run_id = manifest.content_id()
    _store(folder.database, run_id)
    folder.manifest.write_text(manifest.frozen_json(), encoding="utf-8")
    for part in (folder.tables / "requests").glob("*.parquet"):
        tables.write(part, pl.read_parquet(part, glob=False).drop(_OF_REQUESTS))
    events = [orjson.loads(line) | {"run": run_id} for line in folder.log.read_bytes().splitlines()]
    folder.log.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in events))
    return RunFolder(folder.root.rename(folder.root.with_name(run_id)))


def _store(database: Path, run_id: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in _WITH_RUN_ID:
            connection.execute(f"UPDATE {table} SET run_id = ?", (run_id,))
        for index in _NEW_INDEXES:
            connection.execute(f"DROP INDEX {index}")
        for table, columns in _NEW_COLUMNS.items():
            for column in columns:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("UPDATE alembic_version SET version_num = ?", (SCHEMA,))
