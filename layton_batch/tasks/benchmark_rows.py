"""Columns of a benchmark's rows: texts, ids, and pictures as base64 or as files under one folder and nowhere else.

Everything here raises DataError that starts with ``where`` for a column that holds something else.
"""

from __future__ import annotations

import base64
import binascii
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from layton_batch.errors import DataError
from layton_batch.records import Image, JsonValue
from layton_batch.tasks.templates import without_surrogates

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


def text_of(row: Mapping[str, JsonValue], column: str, where: str, *, numbers: bool = False) -> str | None:
    """A text column; null, absent and blank are None. ``numbers``, true and false are taken as they are written."""
    value = row.get(column)
    if numbers and isinstance(value, int | float):
        value = str(value).lower() if isinstance(value, bool) else str(value)
    if value is not None and not isinstance(value, str):
        advice = "; write one text, such as 'Paris or Rome'" if isinstance(value, list) else ""
        raise DataError(f"{where}: column {column!r} must be text or null, not {type(value).__name__}{advice}")
    return without_surrogates(value) if value and value.strip() else None


def needed_text(row: Mapping[str, JsonValue], column: str, where: str, *, numbers: bool = False) -> str:
    """A text column that must say something."""
    value = text_of(row, column, where, numbers=numbers)
    if value is None:
        raise DataError(f"{where}: column {column!r} is {'empty' if column in row else 'missing'}")
    return value


def id_of(row: Mapping[str, JsonValue], column: str, where: str, *, numbers: bool = False) -> str:
    """An item's id: short enough and fit to be shown, without the blanks around it."""
    value = needed_text(row, column, where, numbers=numbers).strip()
    if not value.isprintable() or len(value) > MAX_ID_CHARS:
        raise DataError(f"{where}: column {column!r} must be at most {MAX_ID_CHARS} printable characters")
    return value


# ---- pictures ------------------------------------------------------------------------------------------------------


def picture_in(value: JsonValue, where: str) -> tuple[Image, int]:
    """A picture in base64 (also as a data URL, or in the form Parquet files of image data sets have), and its size in
    bytes."""
    if isinstance(value, Mapping):
        value = value.get("bytes")
    if not isinstance(value, str):
        raise DataError(f"{where} must be base64 text, not {type(value).__name__}")
    text = "".join((value.partition(";base64,")[2] if value.startswith("data:") else value).split())
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        advice = f"; if it is a file, its name must end in .png, .jpg, .gif or .webp, not {value!r}"
        raise DataError(f"{where} is not base64 ({error}){advice if len(value) <= MAX_ID_CHARS else ''}") from error
    return Image(media_type(content, where), text), len(content)


def pictures_of(row: Mapping[str, JsonValue], where: str, folder: Path | None) -> tuple[Image, ...]:
    """The row's ``img`` (base64, or a list of it), else the files its ``img_path`` names below ``folder``.

    Raises DataError: no base64, no JPEG, PNG, WebP or GIF, too large, or a path that is missing or leads elsewhere.
    """
    values = _listed(row.get("img"), f"{where}: column 'img'")
    pictures = tuple(_decoded(value, f"{where}: column 'img'") for value in values) or tuple(_files(row, where, folder))
    if len(pictures) > MAX_PICTURES:
        raise DataError(f"{where}: {len(pictures)} pictures; at most {MAX_PICTURES} are sent")
    return pictures


def pictures_named(value: JsonValue, where: str, folder: Path | None) -> tuple[Image, ...]:
    """The pictures of one column: one or a list, each in base64 or, by its ending, a file below ``folder``.

    Raises DataError as :func:`pictures_of`.
    """
    values = [_file_named(entry) for entry in _listed(value, where)]
    if len(values) > MAX_PICTURES:
        raise DataError(f"{where}: {len(values)} pictures; at most {MAX_PICTURES} are sent")
    return tuple(
        _file(value, where, folder) if isinstance(value, str) and _FILE.search(value) else _decoded(value, where)
        for value in values
    )


def _file_named(value: JsonValue) -> JsonValue:
    """Return the file that an image of a data set names, if it has no bytes; else the value itself."""
    is_named = isinstance(value, Mapping) and value.get("bytes") is None and isinstance(value.get("path"), str)
    return value["path"] if is_named and isinstance(value, Mapping) else value


def with_folders(
    rows: Iterable[Mapping[str, JsonValue]],
) -> Iterator[tuple[Mapping[str, JsonValue], Path | None]]:
    """Yield every row with the folder of the file it was read from; None where rows are not from files here."""
    from layton_batch.files.sources import Rows, SourceRows  # whoever has such rows has paid for the import

    if not isinstance(rows, Rows | SourceRows):
        yield from ((row, None) for row in rows)
        return
    for place, row in rows.placed():
        file = Path(place.file)  # what was fetched from elsewhere is called by its address, no path from the root
        yield row, file.parent if file.is_absolute() else None


def has_pictures(row: Mapping[str, JsonValue]) -> bool:
    """Return whether the row names or carries a picture."""
    return any(_filled(row.get(column)) for column in ("img", "img_path"))


def _listed(value: JsonValue, where: str) -> list[JsonValue]:
    """Return the entries of a column with one or several; none where it is empty. Raises DataError for an empty one
    among others: the item would be asked without a picture."""
    filled = _filled(value)
    if filled and isinstance(value, list) and len(filled) < len(value):
        number = next(at for at, entry in enumerate(value, 1) if entry in (None, ""))
        raise DataError(f"{where}: picture {number} of {len(value)} is empty; write it, or take the entry out")
    return filled


def _filled(value: JsonValue) -> list[JsonValue]:
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if entry not in (None, "")]


def _decoded(value: JsonValue, where: str) -> Image:
    image, size = picture_in(value, where)
    _check_size(size, where)
    return image


def _files(row: Mapping[str, JsonValue], where: str, folder: Path | None) -> Iterator[Image]:
    for name in _listed(row.get("img_path"), f"{where}: column 'img_path'"):
        if not isinstance(name, str):
            raise DataError(f"{where}: column 'img_path' must be a text or a list of texts")
        yield _file(name, where, folder)


def _file(name: str, where: str, folder: Path | None) -> Image:
    if folder is None:
        raise DataError(
            f"{where}: picture {name!r} is a file, and no folder of pictures is named; "
            "the task option pictures names one"
        )
    content = _content(_inside(name, folder, where), name, where)
    shown = f"{where}: picture {name!r}"
    _check_size(len(content), shown)
    return Image(media_type(content, shown), base64.b64encode(content).decode("ascii"))


def _inside(name: str, folder: Path, where: str) -> Path:
    """The file, certainly below the folder also where links are followed."""
    path = PurePosixPath(name)
    if (
        not name.isprintable()
        or "\\" in name
        or ":" in name
        or path.is_absolute()
        or ".." in path.parts
        or name[0] == "~"
    ):
        advice = "write the file's path from that folder, with / between folders, such as pictures/cat.png"
        if "://" in name:
            advice = "download the picture and write the name of the file"
        raise DataError(f"{where}: picture {name!r} is not a plain path below the folder of pictures; {advice}")
    resolved = (folder / path).resolve()
    if not resolved.is_relative_to(folder.resolve()):
        raise DataError(f"{where}: picture {name!r} leads out of the folder of pictures")
    return resolved


def _content(path: Path, name: str, where: str) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{where}: picture {name!r} is not a file")
        if status.st_size > MAX_BYTES:
            raise DataError(f"{where}: picture {name!r} has {status.st_size:,} bytes; at most {MAX_BYTES:,} are sent")
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{where}: cannot read picture {name!r} at {path}: {error.strerror or error}") from error


def _check_size(size: int, where: str) -> None:
    if size > MAX_BYTES:
        raise DataError(f"{where} has {size:,} bytes; at most {MAX_BYTES:,} are sent")


def media_type(content: bytes, where: str) -> str:
    """Return the type of a picture by its first bytes. Raises DataError for what is none: SVG can carry scripts."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    kind = next((kind for signature, kind in _SIGNATURES if content.startswith(signature)), None)
    if kind is None:
        raise DataError(f"{where} is not a JPEG, PNG, WebP or GIF image")
    return kind
