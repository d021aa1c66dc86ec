"""Items: their texts in memory and their pictures on disk, and a run's items as a table.

20,000 pictures of 200 KB do not fit in memory, and their texts do. A run freezes its items when it begins, so that a
source that changes later changes nothing.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import orjson
import polars as pl

from layton_batch.errors import file_error
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.records import Image, Item

_PICARATS = "_picarats"
"""Stands in a frozen item's payload beside what the task put there. It identifies nothing."""


class PictureFile:
    """A nameless temporary file of pictures, which goes with the last of them. Threads may read side by side."""

    def __init__(self) -> None:
        self._end = 0
        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with the last picture
        except OSError as error:
            raise _no_space(error) from error
        weakref.finalize(self, self._file.close)

    def append(self, image: Image) -> Image:
        """Put a picture at the end. Raises StorageError where there is no space for it."""
        content = image.base64.encode("utf-8", "surrogatepass")
        start, size = self._end, len(content)
        try:
            while content:  # a disk that is nearly full takes a part
                content = content[self._file.write(content) :]
        except OSError as error:
            raise _no_space(error) from error
        self._end += size
        return StoredImage(image.media_type, self, start, size)

    def read(self, start: int, size: int) -> str:
        """Read a picture's base64 text. Raises StorageError where it cannot be read."""
        try:
            return os.pread(self._file.fileno(), size, start).decode("utf-8", "surrogatepass")
        except OSError as error:
            raise _no_space(error) from error


def _no_space(error: OSError) -> Exception:
    return file_error(f"{tempfile.gettempdir()}: cannot keep pictures there: {error.strerror or error}", error)


class StoredImage(Image):
    """An image whose base64 text is read from a file whenever it is asked for. ``size``: bytes of that text."""

    __slots__ = ("_file", "_start", "size")
    _file: PictureFile
    _start: int
    size: int

    def __init__(self, media_type: str, file: PictureFile, start: int, size: int) -> None:
        for name, value in zip(("media_type", *self.__slots__), (media_type, file, start, size), strict=True):
            object.__setattr__(self, name, value)

    @property
    def base64(self) -> str:
        """Return the base64 text, without line breaks."""
        return self._file.read(self._start, self.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Image):
            return NotImplemented
        return (self.media_type, self.base64) == (other.media_type, other.base64)

    def __hash__(self) -> int:
        return hash((self.media_type, self.base64))

    def __repr__(self) -> str:
        return f"StoredImage({self.media_type!r}, {self.size} bytes)"


def item_list(items: Iterable[Item]) -> list[Item]:
    """Return the items as they are frozen with a run: payloads as JSON has them, pictures in a temporary file."""
    frozen_items, file = list[Item](), None
    for item in items:
        payload = orjson.loads(orjson.dumps(dict(item.payload)))
        images = item.images
        if any(not isinstance(image, StoredImage) for image in images):
            file = file or PictureFile()
            images = tuple(image if isinstance(image, StoredImage) else file.append(image) for image in images)
        frozen_items.append(replace(item, payload=payload, images=images))
    return frozen_items


def picture_characters(item: Item) -> int:
    """Return the length of an item's pictures in base64, without reading pictures that are on disk."""
    return sum(map(picture_size, item.images))


def picture_size(image: Image) -> int:
    """Return the length of a picture in base64."""
    return image.size if isinstance(image, StoredImage) else len(image.base64)


def digest(items: Iterable[Item]) -> str:
    """Return the digest of all that is asked about the items, and of their order."""
    hasher = sha256()
    for item in items:
        hasher.update(orjson.dumps(_identity(item)))
        hasher.update(b"\n")
    return hasher.hexdigest()


def shown_digest(item: Item) -> str:
    """Return the digest of what a person who labels an answer sees of its item. It begins with a letter, so that no
    spreadsheet takes it for a number.
    """
    pictures = [(image.media_type, image.base64) for image in item.images]
    text = orjson.dumps([item.question, pictures, item.answer, item.justification, item.solution])
    return f"i{sha256(text).hexdigest()[:16]}"


def item_rows(items: Iterable[Item]) -> Iterator[dict[str, object]]:
    """Make rows of the table of items."""
    for item in items:
        row = _identity(item)
        if item.picarats is not None:
            row["payload"] = orjson.dumps({**item.payload, _PICARATS: item.picarats}).decode()
        yield row


def _identity(item: Item) -> dict[str, object]:
    return {
        "item_id": item.id,
        "split": item.split,
        "category": item.category,
        "question": item.question,
        "images": [{"media_type": image.media_type, "base64": image.base64} for image in item.images],
        "hints": list(item.hints),
        "answer": item.answer,
        "justification": item.justification,
        "solution": item.solution,
        "payload": orjson.dumps(dict(item.payload)).decode(),
    }


def item_from(row: Mapping[str, Any]) -> Item:
    """Make the item of a row of the table of items."""
    payload = orjson.loads(row["payload"])
    picarats = payload.pop(_PICARATS, None)
    return Item(
        id=row["item_id"],
        split=row["split"],
        category=row["category"],
        question=row["question"],
        images=tuple(Image(image["media_type"], image["base64"]) for image in row["images"]),
        hints=tuple(row["hints"]),
        answer=row["answer"],
        justification=row["justification"],
        solution=row["solution"],
        payload=payload,
        picarats=picarats,
    )


PORTION_CHARACTERS = 8_000_000
"""Characters of pictures that are frozen and read together: several portions are in memory at a time."""


def write_items(folder: RunFolder, items: Sequence[Item]) -> None:
    """Freeze the items."""
    has_pictures = any(item.images for item in items)
    with tables.writing_frames(folder.part("items", "items"), "items", pictures=has_pictures) as add:
        for portion in tables.portions(items, picture_characters, PORTION_CHARACTERS):
            add(pl.DataFrame(list(item_rows(portion)), schema=SCHEMAS["items"]))


def read_items(folder: RunFolder) -> list[Item]:
    """Read the frozen items, in their order. Raises DamagedTableError where they are gone or cannot be read."""
    portions = tables.read_portions(folder.part("items", "items"), list(SCHEMAS["items"]), PORTION_CHARACTERS)
    return item_list(item_from(row) for portion in portions for row in portion.iter_rows(named=True))
