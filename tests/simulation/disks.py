"""A disk that fails: from its n-th write on, so many writes end with ENOSPC or EIO. Commits of the store count too."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Reason = Literal["full", "broken"]
_ERRNO = {"full": errno.ENOSPC, "broken": errno.EIO}
_SQLITE = {"full": "database or disk is full", "broken": "disk I/O error"}


@dataclass(frozen=True, slots=True)
class BadDisk:
    """Writes number ``first`` to ``first + times - 1`` of the history fail. ``after``: a commit or a rename is carried
    out all the same, and the program does not hear of it."""

    first: int
    times: int
    reason: Reason
    after: bool = False


@dataclass(slots=True)
class Disk:
    """Counts writes: syncs, renames and commits."""

    bad: Sequence[BadDisk] = ()
    written: int = 0
    failed: int = field(default=0)

    def begin(self, what: str) -> BadDisk | None:
        """Count a write. Raise its error where it fails before anything is done; return the fault of one that fails
        afterwards."""
        self.written += 1
        fault = next((bad for bad in self.bad if bad.first <= self.written < bad.first + bad.times), None)
        if fault is not None and (what == "sync" or not fault.after):
            self.fail(what, fault)
        return fault

    def fail(self, what: str, fault: BadDisk) -> None:
        """Raise the error of a write."""
        self.failed += 1
        if what == "commit":
            raise sqlite3.OperationalError(_SQLITE[fault.reason])
        number = _ERRNO[fault.reason]
        raise OSError(number, os.strerror(number))
