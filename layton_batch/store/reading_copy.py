"""A SQLite store to look at where nothing can be written: a backup, a share mounted read-only, somebody else's run.

SQLite reads a database in WAL only where it may write beside it, or where nobody else does; so a copy is looked at.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from layton_batch.errors import StorageError, StoreError

TRIES = 20
"""How often a copy is begun while somebody writes to the original."""


@contextmanager
def readable(database: Path) -> Iterator[Path]:
    """The database itself, or a copy that lasts as long as the block. Raises StoreError where there is no database,
    StorageError where no copy can be made."""
    if not database.exists():
        lacking = f"{database.name} is not there: put it back with its -wal file, or the whole folder"
        raise StoreError(f"{database.parent} has no run in its state store: {lacking}")
    if os.access(database.parent, os.W_OK) and os.access(database, os.W_OK):
        yield database
        return
    try:
        folder = tempfile.TemporaryDirectory(prefix="layton-batch-")
    except OSError as error:
        raise StorageError(f"{database} is read-only, and there is no room for a copy of it: {error}") from error
    with folder as name:
        yield _copied(database, Path(name))


def _copied(database: Path, folder: Path) -> Path:
    """The database with its write-ahead log, both of one moment."""
    parts = (database, database.with_name(f"{database.name}-wal"))
    for _ in range(TRIES):
        before = _stamps(parts)
        try:
            for part in parts:
                (folder / part.name).unlink(missing_ok=True)
                if part.exists():
                    shutil.copyfile(part, folder / part.name)
        except FileNotFoundError:
            continue  # the log goes when the last who writes is done
        except OSError as error:
            raise StorageError(f"the state store {database} cannot be read: {error.strerror or error}") from error
        if _stamps(parts) == before:
            return folder / database.name
    raise StorageError(f"the state store {database} is being written to all the time: try again in a moment")


def _stamps(parts: Sequence[Path]) -> list[tuple[int, int] | None]:
    found = [part.stat() if part.exists() else None for part in parts]
    return [None if one is None else (one.st_mtime_ns, one.st_size) for one in found]
