"""Limits of files from others: what is larger is refused with a sentence, before it fills memory or disk.

A Parquet file of 62 KB may hold a cell of 1 GB, and one of 2.7 MB may hold 300,000,000 rows. Sizes are read from the
footer or the header of a file, or counted while its content comes in.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
    """MiB of one line, or of one cell of a Parquet file."""
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
        """Raise DataError where ``size``, in the unit of the limit ``name``, is beyond it."""
        limit = getattr(self, name)
        if size > limit:
            raise self.exceeded(name, place, subject)

    def exceeded(self, name: str, place: str, subject: str) -> DataError:
        """Say that something is larger than the limit ``name``, and what raises the limit."""
        unit = "MiB" if name.endswith("_mib") else name
        return DataError(
            f"{place}: {subject} more than {getattr(self, name):,} {unit}. If you trust it, raise the limit with "
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


def lines(handle: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Yield each line of a file with its number. Raises DataError for a line beyond the limit of a row."""
    longest, number = LIMITS.row_mib * _MIB, 0
    while line := handle.readline(longest + 1):
        number += 1
        check_row(len(line), f"{name}, line {number}")
        yield number, line


def check_row(size: int, place: str) -> None:
    """Raise DataError for a line of ``size`` bytes that is beyond the limit of a row."""
    if size > LIMITS.row_mib * _MIB:
        raise LIMITS.exceeded("row_mib", place, "the line has")


def check_download(size: int, source: str) -> None:
    """Raise DataError where a download has brought, or announces, ``size`` bytes beyond its limit."""
    if size > LIMITS.download_mib * _MIB:
        raise LIMITS.exceeded("download_mib", source, "the download has")


def check_document(path: Path, name: str) -> None:
    """Raise DataError for a file beyond the limit of what is held in memory whole. Raises OSError."""
    if path.stat().st_size > LIMITS.unpacked_mib * _MIB:
        raise LIMITS.exceeded("unpacked_mib", name, "a document that is read whole has")


def check_unpacked(size: int, path: Path, name: str) -> None:
    """Raise DataError where a file of rows, unpacked, has ``size`` bytes: more than the limit, and than the file has
    itself by far. Raises OSError."""
    if size > max(LIMITS.unpacked_mib * _MIB, _REAL * path.stat().st_size):
        raise LIMITS.exceeded("unpacked_mib", name, "unpacked, the file has")


# ---- Parquet: sizes by the footer ------------------------------------------------------------------------------------

# A footer is a FileMetaData of parquet-format in Thrift's compact protocol. Only the numbers needed here are read; the
# numbers of fields are those of the document: FileMetaData 3 num_rows, 4 row_groups; RowGroup 1 columns; ColumnChunk 3
# meta_data; ColumnMetaData 5 num_values, 6 total_uncompressed_size.

_MAGIC, _LONGEST_FOOTER, _DEEPEST = b"PAR1", 64 * _MIB, 30
_Field = int | list["_Field"] | dict[int, "_Field"]


def check_parquet(path: Path, name: str) -> None:
    """Raise DataError where the footer of a Parquet file tells of more rows, of larger cells or of more bytes than the
    limits allow. Nothing is said of a file whose footer cannot be read: its reader does."""
    try:
        footer = _footer(path)
    except (OSError, ValueError, IndexError, RecursionError):
        return
    LIMITS.check("rows", _int(footer.get(3)), name, "the file has")
    unpacked = 0
    for group in _list(footer.get(4)):
        for chunk in _list(_dict(group).get(1)):
            about = _dict(_dict(chunk).get(3))
            values, held = _int(about.get(5)), _int(about.get(6))
            unpacked += held
            if held > max(1, values) * LIMITS.row_mib * _MIB:
                raise LIMITS.exceeded("row_mib", name, "a cell of the file has")
    check_unpacked(unpacked, path, name)


def _footer(path: Path) -> dict[int, _Field]:
    with path.open("rb") as handle:
        end = handle.seek(0, 2)
        handle.seek(max(0, end - 8))
        tail = handle.read(8)
        size = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or not 0 < size <= min(end - 8, _LONGEST_FOOTER):
            raise ValueError("no footer")
        handle.seek(end - 8 - size)
        return _Thrift(handle.read(size)).struct(0)


class _Thrift:
    """A reader of Thrift's compact protocol. Texts and floating-point numbers become 0: nobody asks for them."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def struct(self, depth: int) -> dict[int, _Field]:
        fields: dict[int, _Field] = {}
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 15, depth + 1, in_struct=True)
        return fields

    def _value(self, kind: int, depth: int, *, in_struct: bool) -> _Field:
        match kind:
            case 1 | 2:  # a bool; in a struct the type is the value
                return 2 - kind if in_struct else self._byte()
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                return self._skip(8)
            case 8:
                return self._skip(self._varint())
            case 9 | 10:
                head = self._byte()
                count = self._varint() if head >> 4 == 15 else head >> 4
                return [self._value(head & 15, depth, in_struct=False) for _ in range(count)]
            case 12:
                return self.struct(depth)
        raise ValueError(f"type {kind}")

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _skip(self, size: int) -> int:
        self._at += size
        if self._at > len(self._content):
            raise ValueError("cut off")
        return 0

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError("a number without an end")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)


def _int(field: _Field | None) -> int:
    return field if isinstance(field, int) else 0


def _list(field: _Field | None) -> list[_Field]:
    return field if isinstance(field, list) else []


def _dict(field: _Field | None) -> dict[int, _Field]:
    return field if isinstance(field, dict) else {}
