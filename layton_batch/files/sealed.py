"""Parquet files that carry a digest of their own bytes, so that a changed bit is noticed where a file is opened.

The digest stands between the data and the footer, where no reader of Parquet looks. File and digest come to disk in one
rename: no kill between two writes makes a good file look damaged, and a copy on another machine can be checked too.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from layton_batch.clock import SystemClock

_MARK = b"layton-batch sha256 "
_SEAL_BYTES = len(_MARK) + sha256().digest_size
_END_BYTES = 8
"""The length of the footer, and ``PAR1``."""
_CHUNK = 1 << 20
_SETTLED_SECONDS = 0.1
"""A younger file may change again within one tick of the file system's clock: it is hashed at each opening."""
_checked: dict[Path, tuple[int, int, int]] = {}
"""Files that this process found whole, with inode, size and time of change."""


def seal(path: Path) -> None:
    """Put the digest of a Parquet file into the file."""
    with path.open("r+b") as file:
        footer = _footer_start(file, file.seek(0, os.SEEK_END))
        file.seek(footer)
        end = file.read()
        digest = _digest(file, footer, footer)
        file.seek(footer)
        file.write(_MARK + digest + end)


def is_whole(path: Path) -> bool:
    """Return whether a file is byte for byte what :func:`seal` left. Raises OSError where it cannot be read.

    A file is hashed once in a process, and again when it was replaced.
    """
    stat = path.stat()
    state = stat.st_ino, stat.st_size, stat.st_ctime_ns
    if _checked.get(path) == state:
        return True
    with path.open("rb") as file:
        is_same = _is_same(file, stat.st_size)
    if is_same and SystemClock().now() - stat.st_ctime > _SETTLED_SECONDS:
        _checked[path] = state
    return is_same


def _is_same(file: BinaryIO, size: int) -> bool:
    footer = _footer_start(file, size)
    start = footer - _SEAL_BYTES
    if start < 0:
        return False
    file.seek(start)
    return file.read(_SEAL_BYTES) == _MARK + _digest(file, start, footer)


def _footer_start(file: BinaryIO, size: int) -> int:
    """Return the footer's start by its length at the file's end; a place outside the file if that is damaged."""
    file.seek(max(0, size - _END_BYTES))
    return size - _END_BYTES - int.from_bytes(file.read(4), "little")


def _digest(file: BinaryIO, data_end: int, footer: int) -> bytes:
    """Digest the data and the footer, without what is between them."""
    digest = sha256()
    file.seek(0)
    remaining = data_end
    while remaining and (chunk := file.read(min(remaining, _CHUNK))):
        digest.update(chunk)
        remaining -= len(chunk)
    file.seek(footer)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.digest()
