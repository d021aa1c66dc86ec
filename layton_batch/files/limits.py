"""Limits of files from others: what is larger is refused with a sentence, before it fills memory or disk.

A Parquet file of 62 KB may hold a cell of 1 GB, and one of 2.7 MB may hold 300,000,000 rows. Rows and members are
counted before a file is read, bytes while its content comes in.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, AnyStr

from layton_batch.errors import DataError, ManifestError
from layton_batch.settings import Settings

_MIB = 1 << 20
_PREFIX = "LAYTON_BATCH_MAX_"
_REAL = 4
"""A file that unpacks to at most this many times its size is as large as it looks."""


@dataclass(slots=True)
class FileLimits:
    """The limits of this process. Each is raised by the environment variable ``LAYTON_BATCH_MAX_`` and its name."""

    row_mib: int = 128
    """MiB of one line."""
    unpacked_mib: int = 1024
    """MiB of a packed file when it is unpacked."""
    download_mib: int = 8192
    """MiB of one download, after inflating."""
    rows: int = 10_000_000
    """Rows of one Parquet file."""
    members: int = 20_000
    """Members of one archive."""

    def take(self, settings: Settings) -> None:
        """Read the limits from the environment. Raises ManifestError for a value that is no whole number above 0."""
        for name in self.__slots__:
            key = _PREFIX + name.upper()
            if (given := settings.get(key)) is not None:
                if not (given.isascii() and given.isdigit() and 0 < len(given) < 10 and int(given)):
                    raise ManifestError(f"{key}={given[:40]!r}: give a whole number above 0")
                setattr(self, name, int(given))

    def check(self, name: str, size: int, place: str, subject: str) -> None:
        """Raise DataError where ``size``, bytes or a number, is beyond the limit ``name``; it says what raises that."""
        limit, unit = getattr(self, name), "MiB" if name.endswith("_mib") else name
        if size > limit * (_MIB if unit == "MiB" else 1):
            raise DataError(
                f"{place}: {subject} more than {limit:,} {unit}. If you trust it, raise the limit with "
                f"{_PREFIX}{name.upper()} in the environment"
            )


LIMITS = FileLimits()
"""The limits of this process; a command reads them from its environment when it begins."""


def check_is_file(path: Path, name: str) -> None:
    """Raise DataError for what is there and is no regular file: a pipe that nobody writes to blocks its reader."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # whoever opens it says why
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(f"{name}: is a pipe or a device, not a file; write its content to a file first")


def lines(handle: IO[AnyStr], name: str) -> Iterator[tuple[int, AnyStr]]:
    """Yield each line of a file with its number. Raises DataError for a line beyond the limit of a row."""
    longest, number = LIMITS.row_mib * _MIB, 0
    while line := handle.readline(longest + 1):
        number += 1
        LIMITS.check("row_mib", len(line), f"{name}, line {number}", "the line has")
        yield number, line


def check_download(size: int, source: str) -> None:
    """Raise DataError where a download has brought, or announces, ``size`` bytes beyond its limit."""
    LIMITS.check("download_mib", size, source, "the download has")


def check_document(path: Path, name: str) -> None:
    """Raise DataError for a file beyond the limit of what is held in memory whole. Raises OSError."""
    LIMITS.check("unpacked_mib", path.stat().st_size, name, "a document that is read whole has")


def check_unpacked(size: int, path: Path, name: str) -> None:
    """Raise DataError where a file of rows, unpacked, has ``size`` bytes: more than the limit, and than the file has
    itself by far. Raises OSError."""
    if size > _REAL * path.stat().st_size:
        LIMITS.check("unpacked_mib", size, name, "unpacked, the file has")


def check_parquet(path: Path, name: str) -> None:
    """Raise DataError for a Parquet file with more rows than the limit. Nothing is said of a file that cannot be read:
    its reader does. How much its cells unpack to is counted while they are read."""
    import polars as pl  # of all that has limits, Parquet alone needs it

    try:
        rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return
    LIMITS.check("rows", rows, name, "the file has")
