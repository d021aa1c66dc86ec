"""The lock of a run: the process that holds it drives the run, alone, until it ends.

The operating system keeps the lock and frees it when the process ends, however it ends. With PostgreSQL it is an
advisory lock of the session in which the process then commits: a session that broke commits nothing more. With any
other database it is ``flock`` on a file in the run's folder. The file is never deleted; the holder writes into it who
it is, after it has the lock, for those that the lock keeps out.

Executors spawn processes and never fork: a forked child would keep the lock of a dead parent.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from layton_batch.clock import iso
from layton_batch.errors import AnotherDriverError, file_error
from layton_batch.store.engine import complaint
from layton_batch.store.transactions import Transactions


@contextmanager
def driving(store: Transactions, path: Path, at: float) -> Iterator[None]:
    """Hold the lock of the store's run while the block lasts. ``path``: of the lock's file, whose folder is there.

    Raises AnotherDriverError if another process holds the lock.
    """
    try:
        file = open(path, "r+b", buffering=0, opener=_made)  # noqa: SIM115  it is closed below, with the lock
    except OSError as error:
        raise file_error(f"cannot write {path}: {error.strerror or error}", error) from error
    is_postgresql = store.engine.dialect.name == "postgresql"
    with file, _locked_session(store, file) if is_postgresql else _locked_file(store.run_id, file):
        _sign(file, at)
        yield


def _made(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


@contextmanager
def _locked_file(run_id: str, file: FileIO) -> Iterator[None]:
    """Lock the file while the block lasts."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _another(run_id, file) from None
    except OSError as error:
        reason = f"cannot lock {file.name}: {error.strerror or error}; keep the folder of runs on a local disk"
        raise file_error(reason, error) from error
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)  # a child between its fork and its exec has the closed file still


@contextmanager
def _locked_session(store: Transactions, file: FileIO) -> Iterator[None]:
    """Hold the advisory lock in a session, in which all transactions of the store take place meanwhile."""
    key = int.from_bytes(sha256(store.run_id.encode()).digest()[:8], signed=True)
    try:
        session = store.engine.connect()
        is_mine = session.scalar(select(func.pg_try_advisory_lock(key)))
        session.commit()
    except SQLAlchemyError as error:
        raise complaint(store.engine.url, error, "locked") from error
    try:
        if not is_mine:
            raise _another(store.run_id, file)
        store.session = session
        yield
    finally:
        store.session = None
        session.invalidate()  # the session ends, and with it the lock
        session.close()


def _sign(file: FileIO, at: float) -> None:
    """Write into the file who holds the lock, and since when. On a full disk the lock holds without that."""
    line = f"process {os.getpid()} on {socket.gethostname()[:64]} since {iso(at)}\n".encode()
    with suppress(OSError):
        os.pwrite(file.fileno(), line, 0)
        file.truncate(len(line))


def _another(run_id: str, file: FileIO) -> AnotherDriverError:
    holder = os.pread(file.fileno(), 500, 0).decode("utf-8", "replace").partition("\n")[0] or "another process"
    return AnotherDriverError(
        f"run {run_id} is driven by {holder}; wait until it ends, or stop it, then call again",
        holder.partition(" since ")[0],
    )
