"""A real PostgreSQL from the machine's packages for one test session: own folder, own port, no disk syncs."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

NAMES = ("initdb", "pg_ctl")
ACCOUNT = "postgres"
_numbers = itertools.count(1)


def binaries() -> Path | None:
    """The folder of the newest server's programs; None where none is installed (Debian's package: `postgresql`)."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name.split(".")[0])
    )
    on_path = shutil.which("initdb")
    candidates = [*reversed(folders), *([Path(on_path).parent] if on_path else [])]
    return next((folder for folder in candidates if all((folder / name).exists() for name in NAMES)), None)


def required() -> Path:
    """:func:`binaries`, or the test is skipped."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL's server programs are not installed (Debian: postgresql)")
    return programs


def new_database(server: str) -> str:
    """The URL of a new, empty database on a running server."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    engine = create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{server}/{name}"


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """The URL of a running server, without a database's name; stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="layton-batch-postgres-") as name, _free_port() as port:
        folder = Path(name)
        if os.geteuid() == 0:
            account = pwd.getpwnam(ACCOUNT)
            os.chown(folder, account.pw_uid, account.pw_gid)
        data = folder / "data"
        _call([programs / "initdb", "-D", data, "-U", ACCOUNT, "-A", "trust", "-E", "UTF8", "--no-sync"])
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off -c max_connections=60"
        _call([programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"])
        try:
            yield f"postgresql+psycopg://{ACCOUNT}:not-asked-for@127.0.0.1:{port}"
        finally:
            _call([programs / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop"])


def _call(command: list[str | Path]) -> None:
    """PostgreSQL refuses to run as root, so root hands over to the account that its package made."""
    user = ACCOUNT if os.geteuid() == 0 else None
    done = subprocess.run(
        [str(part) for part in command], user=user, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr}")


@contextmanager
def _free_port() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
    yield port
