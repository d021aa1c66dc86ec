"""Writing files so that a reader never sees half of one: temporary name, fsync, rename, fsync of the folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from layton_batch.errors import FileError


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A binary handle whose content becomes ``path`` when the block ends well, and vanishes when it does not.

    Raises FileError naming the path and the operating system's reason (disk full, no permission).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}; the last good version is kept") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """``path`` with this content, whole or not at all."""
    with writing(path) as handle:
        handle.write(content)


def write_text(path: Path, content: str) -> None:
    """``path`` with this text in UTF-8 (lone surrogates replaced), whole or not at all."""
    write_bytes(path, content.encode("utf-8", "replace"))


@contextmanager
def writing_folder(path: Path) -> Iterator[Path]:
    """A new folder that takes ``path``'s place when the block ends well; what was there before is removed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; a file system that cannot sync folders is left alone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
