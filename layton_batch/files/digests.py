"""The digest of a file, and whether a file still has it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from layton_batch.records import FileDigest


def file_digest(path: Path, name: str) -> FileDigest:
    """Hash a file, which is recorded under ``name``; a portion of it is in memory at a time. Raises OSError."""
    with path.open("rb") as file:
        return FileDigest(name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def changed_files(root: Path, recorded: Iterable[FileDigest]) -> list[Path]:
    """Return the recorded files below ``root`` that are gone, or were changed since. Raises OSError."""
    return [path for file in recorded if not is_same(path := root / file.name, file)]


def is_same(path: Path, recorded: FileDigest) -> bool:
    """Return whether the file is there, and equals its record. Raises OSError."""
    try:
        return file_digest(path, recorded.name).sha256 == recorded.sha256
    except FileNotFoundError:
        return False
