"""Items of which not many are in memory, with the digest of them all."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import orjson

from layton_batch.files.long_list import LongList
from layton_batch.records import Image, Item

_PICARATS = "_picarats"
"""Stands in a kept item's payload beside what the task put there. It identifies nothing: a run that began before it was
kept has the same items, and asks nothing again."""


class Shelf(LongList[Item]):
    """Items in their order; each comes as it is frozen with a run, with its payload as JSON has it. ``rows``: of the
    table of items, in place of items."""

    def __init__(self, items: Iterable[Item] = (), rows: Iterable[Mapping[str, Any]] = ()) -> None:
        super().__init__(lambda packed: item_from(orjson.loads(packed)))
        self._sum, self._ids, self._id_ends = sha256(), bytearray(), array("Q", [0])
        self._is_summed = True
        for item in items:
            identity = orjson.dumps(_identity(item))
            self._sum.update(identity)
            self._sum.update(b"\n")
            self.keep_packed(identity if item.picarats is None else orjson.dumps(item_row(item)))
            self._name(item.id)
        for row in rows:
            self.keep_packed(orjson.dumps(row))
            self._name(row["item_id"])
            self._is_summed = False

    def _name(self, item_id: str) -> None:
        self._ids += item_id.encode("utf-8", "surrogatepass")
        self._id_ends.append(len(self._ids))

    @property
    def ids(self) -> list[str]:
        """The id of each."""
        return [self._ids[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(self._id_ends)]

    @property
    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Each as a row of the table of items."""
        yield from map(item_row, self._here)
        yield from map(orjson.loads, self._on_disk(0))

    @property
    def digest(self) -> str:
        """Of all that is kept of the items, and of their order."""
        return self._sum.hexdigest() if self._is_summed else Shelf(self).digest


class ById(Mapping[str, Item]):
    """Each of the items by its id."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items, self._places = items, {name: place for place, name in enumerate(ids_of(items))}

    def __getitem__(self, item_id: str) -> Item:
        return self._items[self._places[item_id]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def ids_of(items: Sequence[Item]) -> Sequence[str]:
    """The id of each item."""
    return items.ids if isinstance(items, Shelf) else [item.id for item in items]


def digest(items: Sequence[Item]) -> str:
    """As :attr:`Shelf.digest`."""
    return shelved(items).digest


def shelved(items: Sequence[Item]) -> Shelf:
    """The items as they are frozen with a run."""
    return items if isinstance(items, Shelf) else Shelf(items)


def item_row(item: Item) -> dict[str, object]:
    """All that is kept of an item, as a row of the table of items."""
    row = _identity(item)
    if item.picarats is not None:
        row["payload"] = orjson.dumps({**item.payload, _PICARATS: item.picarats}).decode()
    return row


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
    """The item of a row."""
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
