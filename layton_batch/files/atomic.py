"""Files that a reader never sees half of: temporary name, fsync, rename, fsync of the folder; whole lines appended; and
whether a file is still what was written.

A temporary name says which process is writing (``.<name>.<machine>-<pid>-<n>.tmp``), so that what a process left behind
when it was killed can be told from what another is writing now, and removed (:func:`sweep`).
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

import orjson

from layton_batch.errors import FileError, file_error
from layton_batch.records import FileDigest

_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.tmp")
_ADDRESS = re.compile(r"(s3|gs|az|abfss?|hf|https?|ftp|file):", re.IGNORECASE)
"""The beginning of an address, as a path has it. A folder of that name is never meant."""
BUFFER_BYTES = 1 << 20
"""Bytes of a file that are written at once: batch files are written line by line."""


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Yield a binary handle. Its content becomes ``path`` when the block ends without an error, and else vanishes.

    Raises FileError naming the path and the operating system's reason (disk full, no permission).
    """
    if os.path.isdir(path):
        raise FileError(f"cannot write {path}: is a folder; name a file")
    temporary = _temporary(path)
    try:
        make_folder(path.parent)
        with temporary.open("wb", buffering=BUFFER_BYTES) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        with _changing(path, temporary):
            temporary.replace(path)
            sync_folder(path.parent)
    except OSError as error:
        raise _unwritten(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``path`` with this content, whole or not at all."""
    with writing(path) as handle:
        handle.write(content)


def write_text(path: Path, content: str) -> None:
    """Write ``path`` with this text in UTF-8 (lone surrogates replaced), whole or not at all."""
    write_bytes(path, content.encode("utf-8", "replace"))


@contextmanager
def writing_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder that replaces ``path`` when the block ends without an error. An old folder is removed.

    Readers see the one or the other, or for a moment neither, also while several processes do this. The files inside
    are synced where they were written by :func:`writing`; the others (pages that can be made again) come to disk in
    their own time.
    """
    with scratch(path) as temporary:
        temporary.mkdir()
        yield temporary
        for folder, _, _ in os.walk(temporary, topdown=False):
            sync_folder(Path(folder))
        with _changing(path):
            _put_in_place(temporary, path)
            sync_folder(path.parent)


@contextmanager
def scratch(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` for a folder of temporary files. The folder is removed when the block ends."""
    temporary = _temporary(path)
    try:
        make_folder(path.parent)
        yield temporary
    except OSError as error:
        raise _unwritten(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


Watch = Callable[[Path, Path | None], AbstractContextManager[None]]
"""Takes a path that is about to change, and where its new content is until then; None if that is a folder or nothing.
"""
_watches: list[tuple[Path, Watch]] = []


@contextmanager
def watched(root: Path, watch: Watch) -> Iterator[None]:
    """While the block runs, this process gives a file below ``root`` its name, or removes it, within ``watch``; of
    several the newest is used."""
    entry = root, watch
    _watches.append(entry)
    try:
        yield
    finally:
        _watches.remove(entry)


def _changing(path: Path, content: Path | None = None) -> AbstractContextManager[None]:
    """Return the newest watch's context for the path: one whose session broke may be there still."""
    watches = (watch for root, watch in reversed(tuple(_watches)) if path.is_relative_to(root))
    watch = next(watches, None)
    return nullcontext() if watch is None else watch(path, content)


def remove(path: Path) -> None:
    """Remove the file, if there is one."""
    with _changing(path):
        path.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make the folder and its missing parents, and sync each one's entry in its parent to the disk."""
    if address := next((part for part in folder.parts if _ADDRESS.fullmatch(part)), None):
        raise FileError(f"cannot write {folder}: {address}// begins an address; name a folder on this machine")
    missing = list(itertools.takewhile(lambda ancestor: not ancestor.exists(), (folder, *folder.parents)))
    for ancestor in reversed(missing):
        ancestor.mkdir(exist_ok=True)
        sync_folder(ancestor.parent)


def sweep(folder: Path) -> int:
    """Remove what dead processes of this machine were writing under ``folder`` when they died; returns how much."""
    swept = 0
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            match = _TEMPORARY.fullmatch(name)
            if match is None or match[1] != _processes() or os.path.exists(f"/proc/{match[2]}"):
                continue
            path = Path(root) / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            swept += 1
        folders[:] = [name for name in folders if not _TEMPORARY.fullmatch(name)]
    return swept


@cache
def _processes() -> str:
    """Return eight digits for this boot of this machine and this space of process ids, in which alone a missing process
    is a dead one. Return a dash where the system does not say. Containers have spaces of their own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return "-"
    return sha256(b"%s %d" % (boot, space)).hexdigest()[:8]


def _unwritten(path: Path, error: OSError) -> FileError:
    if isinstance(error, NotADirectoryError | FileExistsError):
        file = next((folder for folder in path.parents if folder.is_file()), path.parent)
        return file_error(f"cannot write {path}: {file} is a file, not a folder; name a folder", error)
    return file_error(f"cannot write {path}: {error.strerror or error}; the last good version is kept", error)


def _temporary(path: Path) -> Path:
    """Return a name that nobody has: a process that died may have had our number."""
    return path.with_name(f".{path.name}.{_processes()}-{os.getpid()}-{token_hex(4)}.tmp")


def _put_in_place(new: Path, path: Path) -> None:
    """Rename the old folder aside, the new one to its name, and remove the old one."""
    for _ in range(10):
        old = _temporary(path)
        with suppress(FileNotFoundError):
            path.rename(old)
        try:
            new.rename(path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process was first
                raise
        else:
            return
        finally:
            shutil.rmtree(old, ignore_errors=True)
    raise OSError(errno.EBUSY, "another process keeps replacing it", str(path))


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        sync_folder(path.parent)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        reason = "it is a symbolic link, through which nothing is written; remove it"
        raise OSError(errno.ELOOP, reason, str(path)) from error


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
