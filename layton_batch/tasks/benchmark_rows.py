"""Rows of a data set on their way to items: texts, ids, and pictures as base64 or as files under one folder.

Everything here raises DataError that names the row and the column.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.files.sources import Rows, SourceRows
from layton_batch.records import Image, JsonValue
from layton_batch.text import without_surrogates

MAX_ID_CHARS = 200
MAX_BYTES = 20_000_000
MAX_PICTURES = 32
_FILE = re.compile(r"\.(?:jpe?g|png|gif|webp)\Z", re.IGNORECASE)
"""Base64 has no full stop."""
_SIGNATURES = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True)
class ItemRow:
    """Row of a data set. ``place``: the row in messages."""

    columns: Mapping[str, JsonValue]
    place: str

    @classmethod
    def numbered(cls, columns: Mapping[str, JsonValue], number: int, id_column: str = "id") -> ItemRow:
        """Return the row with its number, and its id if it has one, as its place."""
        name = columns.get(id_column)
        return cls(columns, f"row {number}" + (f" (item {name!r})" if isinstance(name, str | int) else ""))

    def text(self, *columns: str, numbers: bool = False) -> str | None:
        """Return the first text in these columns; null, absent and blank ones are passed over. ``numbers``, true and
        false are taken as they are written."""
        for column in columns:
            value = self.columns.get(column)
            if numbers and isinstance(value, int | float):
                value = str(value).lower() if isinstance(value, bool) else str(value)
            if value is not None and not isinstance(value, str):
                advice = "; write one text, such as 'Paris or Rome'" if isinstance(value, list) else ""
                raise DataError(
                    f"{self.place}: column {column!r} must be text or null, not {type(value).__name__}{advice}"
                )
            if value and value.strip():
                return without_surrogates(value)
        return None

    def needed(self, column: str, *, numbers: bool = False) -> str:
        """Return the text of a column that must say something."""
        value = self.text(column, numbers=numbers)
        if value is None:
            raise DataError(f"{self.place}: column {column!r} is {'empty' if column in self.columns else 'missing'}")
        return value

    def id(self, *columns: str, default: str | None = None) -> str:
        """Return the id in the first of these columns that has one, without the blanks around it: short enough and fit
        to be shown. Without ``default`` a row must have one."""
        value = self.text(*columns, numbers=True) or default
        if value is None:
            return self.needed(columns[0])
        value = value.strip()
        if not value.isprintable() or len(value) > MAX_ID_CHARS:
            raise DataError(f"{self.place}: column {columns[0]!r} must be at most {MAX_ID_CHARS} printable characters")
        return value

    def pictures(self, column: str, folder: Path | None) -> tuple[Image, ...]:
        """Return the pictures of a column: one or a list, each in base64 (also as a data URL), in the form that Parquet
        files of image data sets have, or by its ending a file below ``folder``.

        Raises DataError: no base64, no JPEG, PNG, WebP or GIF, too large, too many, a path that is missing or leads
        elsewhere, or an empty entry among others, which would be asked without a picture.
        """
        place, value = f"{self.place}: column {column!r}", self.columns.get(column)
        entries = value if isinstance(value, list) else [value]
        filled = [entry for entry in entries if entry not in (None, "")]
        if filled and len(filled) < len(entries):
            raise DataError(f"{place} has an empty entry among {len(entries)}; write the picture, or take it out")
        if len(filled) > MAX_PICTURES:
            raise DataError(f"{place}: {len(filled)} pictures; at most {MAX_PICTURES} are sent")
        return tuple(_picture(entry, place, folder) for entry in filled)


def with_folders(
    rows: Iterable[Mapping[str, JsonValue]],
) -> Iterator[tuple[Mapping[str, JsonValue], Path | None]]:
    """Yield every row with the folder of the file it was read from; None if rows are not from files here."""
    if not isinstance(rows, Rows | SourceRows):
        yield from ((row, None) for row in rows)
        return
    for place, row in rows.placed():
        file = Path(place.file)  # what was fetched from elsewhere is called by its address, no path from the root
        yield row, file.parent if file.is_absolute() else None


# ---- pictures ------------------------------------------------------------------------------------------------------


def _picture(entry: JsonValue, place: str, folder: Path | None) -> Image:
    if isinstance(entry, Mapping):
        entry = entry.get("path") if entry.get("bytes") is None else entry.get("bytes")
    if not isinstance(entry, str):
        raise DataError(f"{place} must be base64 text, not {type(entry).__name__}")
    if _FILE.search(entry):
        place = f"{place}: picture {entry!r}"
        content = _content(_inside(entry, folder, place), place)
        text = base64.b64encode(content).decode("ascii")
    else:
        text = "".join((entry.partition(";base64,")[2] if entry.startswith("data:") else entry).split())
        content = _decoded(text, place)
    _check_size(len(content), place)
    return Image(media_type(content, place), text)


def _decoded(text: str, place: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        advice = f"; if it is a file, its name must end in .png, .jpg, .gif or .webp, not {text!r}"
        raise DataError(f"{place} is not base64 ({error}){advice if len(text) <= MAX_ID_CHARS else ''}") from error


def _inside(name: str, folder: Path | None, place: str) -> Path:
    """Return the file, certainly below the folder also where links are followed."""
    if folder is None:
        raise DataError(f"{place} is a file, and no folder of pictures is named; the task option pictures names one")
    path = PurePosixPath(name)
    is_plain = name.isprintable() and not any(sign in name for sign in "\\:") and name[0] != "~"
    if not is_plain or path.is_absolute() or ".." in path.parts:
        advice = "write the file's path from that folder, with / between folders, such as pictures/cat.png"
        if "://" in name:
            advice = "download the picture and write the name of the file"
        raise DataError(f"{place} is not a plain path below the folder of pictures; {advice}")
    resolved = (folder / path).resolve()
    if not resolved.is_relative_to(folder.resolve()):
        raise DataError(f"{place} leads out of the folder of pictures")
    return resolved


def _content(path: Path, place: str) -> bytes:
    limits.check_is_file(path, place)
    try:
        _check_size(path.stat().st_size, place)
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{place}: cannot read {path}: {error.strerror or error}") from error


def _check_size(size: int, place: str) -> None:
    if size > MAX_BYTES:
        raise DataError(f"{place} has {size:,} bytes; at most {MAX_BYTES:,} are sent")


def media_type(content: bytes, place: str) -> str:
    """Return the type of a picture by its first bytes. Raises DataError for what is none: SVG can carry scripts."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    kind = next((kind for signature, kind in _SIGNATURES if content.startswith(signature)), None)
    if kind is None:
        raise DataError(f"{place} is not a JPEG, PNG, WebP or GIF image")
    return kind


_DATA = Path(__file__).parent / "data"


def bundled_file(name: str, split: str, splits: Sequence[str]) -> Path:
    """Return a file of items that comes with the package. Raises DataError for a split without bundled items."""
    if split not in splits:
        raise DataError(f"no bundled items for split {split!r}; there is {', '.join(splits)}")
    return _DATA / name
