"""A list that does not fit in memory is the same list."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest

from layton_batch.errors import StorageError
from layton_batch.files import long_list
from layton_batch.files.item_shelf import ById, Shelf, digest
from layton_batch.files.long_list import LongList
from layton_batch.records import Image, Item

VALUES = [f"{number} " + "é" * number for number in range(300)]


def filled() -> LongList[str]:
    found = LongList[str](pickle.loads)
    for value in VALUES:
        found.keep(value, pickle.dumps(value))
    return found


@pytest.mark.parametrize("room", [0, 100, 10_000, 1 << 20])
def test_wherever_its_values_are_it_is_the_list_that_they_were_put_into(
    monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(long_list, "IN_MEMORY", room)
    found = filled()
    assert list(found) == VALUES
    assert found == VALUES
    assert found != VALUES[:-1]
    assert (len(found), found[0], found[-1], found[150]) == (300, VALUES[0], VALUES[-1], VALUES[150])
    assert found[10:290:7] == VALUES[10:290:7]
    assert VALUES[200] in found
    for wrong in (300, -301):
        with pytest.raises(IndexError):
            found[wrong]


def test_an_empty_one_is_false() -> None:
    assert not LongList[str](pickle.loads)


def test_threads_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_list, "IN_MEMORY", 0)
    found = filled()
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(list, repeat(found, 8))) == [VALUES] * 8


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_list, "IN_MEMORY", 0)
    monkeypatch.setattr(long_list.tempfile, "TemporaryFile", lambda: open("/dev/full", "wb"))  # noqa: SIM115
    with pytest.raises(StorageError, match="cannot keep a long list there: No space left"):
        _ = filled()[0]


def test_items_come_back_from_disk_as_they_were_and_their_digest_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images = (Image("image/png", "AAAA"),)
    items = [
        Item(str(number), "llm", "c", f"question {number} \u2028 𝄞", images, ("a", None), payload={"options": ["x", 1]},
             picarats=number)
        for number in range(50)
    ]  # fmt: skip
    here = Shelf(items)
    monkeypatch.setattr(long_list, "IN_MEMORY", 0)
    there = Shelf(items)
    assert there == items == list(here)
    assert there.digest == here.digest == digest(items)
    assert ById(there)["7"] == items[7]
    assert list(ById(there)) == [item.id for item in items]
