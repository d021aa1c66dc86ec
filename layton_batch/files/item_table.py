"""The run's items as Parquet: frozen when the run begins, so that a source that changes later changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson

from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Image, Item

_PICARATS = "_picarats"
"""Stands in the table's payload beside what the task put there. It identifies nothing: a run that began before it was
kept has the same items, and asks nothing again."""


def digest(items: Sequence[Item]) -> str:
    """Of all that is kept of the items, and of their order."""
    found = sha256()
    for item in items:
        found.update(orjson.dumps(_row(item), option=orjson.OPT_APPEND_NEWLINE))
    return found.hexdigest()


def write(folder: RunFolder, items: Sequence[Item]) -> None:
    """Freeze the items."""
    tables.write(folder.part("items", "items"), tables.frame("items", [_kept(item) for item in items]))


def _kept(item: Item) -> dict[str, object]:
    if item.picarats is None:
        return _row(item)
    return {**_row(item), "payload": orjson.dumps({**item.payload, _PICARATS: item.picarats}).decode()}


def _row(item: Item) -> dict[str, object]:
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


def read(folder: RunFolder) -> list[Item]:
    """The frozen items, in their order. Raises DamagedTableError where they are gone or cannot be read."""
    return [_item(row) for row in tables.read_part(folder.part("items", "items")).iter_rows(named=True)]


def _item(row: Mapping[str, Any]) -> Item:
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
