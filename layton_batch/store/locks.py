"""Whether a lock keeps other processes out: SQLite, and with it that nothing is paid twice, hangs on it.

There are file systems that give every process the lock it asks for (NFS without its lock service, some that are mounted
over a network or in a container). SQLite cannot tell; asking from a second process can.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from layton_batch.errors import StorageError, StoreError
from layton_batch.files import atomic

REFUSED = 9
PATIENCE_SECONDS = 20.0
_ATTEMPT = f"""
import errno, fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        sys.exit({REFUSED} if error.errno in (errno.EACCES, errno.EAGAIN) else 0)
"""


def require_locks(folder: Path) -> None:
    """Raises StoreError where a lock on a file in this folder does not keep another process out, tried once for each
    file system that a process works on; StorageError where there is no room or right to try."""
    device = os.stat(folder).st_dev
    try:
        if device in _sound or _keep_out(folder):
            _sound.add(device)
            return
    except StorageError as error:
        reason = getattr(error.__cause__, "strerror", None) or error
        raise StorageError(
            f"the run folder {folder} cannot be written to: {reason}. This command writes to the run (status, events, "
            "cost … only read it): make room on the disk, or its folder and files writable"
        ) from error
    raise StoreError(
        f"locks do not work in {folder} ({_kind(device)} file system): two programs there would not see each other and "
        "pay twice. SQLite, which keeps a run's state, needs them, and shared memory beside them, which no NFS has: "
        "name a local folder with --runs, or set LAYTON_BATCH_STATE to a PostgreSQL database"
    )


_sound: set[int] = set()
"""Numbers of the devices whose locks were seen to work."""


def _keep_out(folder: Path) -> bool:
    with atomic.scratch(folder / "lock") as place:
        place.mkdir()
        with (place / "held").open("wb") as held:
            return _is_held(held.fileno()) and not _is_given_away(place / "held")


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_given_away(path: Path) -> bool:
    """Whether another process gets the lock too. Where none can be started, nothing speaks against the locks."""
    if not sys.executable:
        return False
    command = [sys.executable, "-I", "-S", "-c", _ATTEMPT, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=False)  # noqa: S603  ours
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _kind(device: int) -> str:
    """The kind of file system that is mounted under this number, as the kernel names it."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "a"
    mounted = (line.split() for line in lines)
    return next((words[words.index("-") + 1] for words in mounted if words[2:3] == [wanted]), "a")
