"""Files of JSON lines that processes append to: events of a run, labels of the labelling app, runs of a user."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import orjson

from layton_batch.files import atomic


def append_json_line(path: Path, row: Mapping[str, object]) -> None:
    """Append a row as one whole line, and sync it to the disk. Several processes may append to the file.

    A line that a dying process or a full disk cut off stays a line of its own: the row begins a new line. Nothing is
    written through a link: a folder from a stranger may hold one that leads to a file of the user. Raises OSError, and
    TypeError for what JSON cannot hold.
    """
    line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    is_new = not path.exists()
    descriptor = _opened(path)
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            line = b"\n" + line
        written = os.write(descriptor, line)
        while written < len(line):
            written += os.write(descriptor, line[written:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        atomic.sync_folder(path.parent)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        reason = "it is a symbolic link, through which nothing is written; remove it"
        raise OSError(errno.ELOOP, reason, str(path)) from error
