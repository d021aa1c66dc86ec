"""The digest of a file, and whether a file still has it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from layton_batch.records import FileDigest


def file_digest(path: Path) -> FileDigest:
    """Hash a file, a portion of it in memory at a time. Raises OSError."""
    with path.open("rb") as file:
        return FileDigest(path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def is_same(path: Path, recorded: FileDigest) -> bool:
    """Whether the file is there with the recorded size and digest. Raises OSError where it cannot be read."""
    try:
        return path.stat().st_size == recorded.size_bytes and file_digest(path).sha256 == recorded.sha256
    except FileNotFoundError:
        return False
