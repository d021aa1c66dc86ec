"""Items are frozen with a run as they are. Picarats are kept with them, and identify nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.files import item_shelf, item_table, long_list
from layton_batch.files.item_shelf import Shelf
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Image, Item, JsonValue
from layton_batch.tasks.layton import _item

ITEM = Item("a", "llm", "Logic", "How many?", payload={"answer": "7"}, picarats=40)


def test_picarats_come_back_and_the_tasks_payload_is_as_it_was(tmp_path: Path) -> None:
    items = Shelf([ITEM, replace(ITEM, id="b", picarats=None)])
    item_table.write(RunFolder(tmp_path), items)
    assert item_table.read(RunFolder(tmp_path)) == items


def test_a_run_that_began_without_picarats_has_the_same_items() -> None:
    assert item_shelf.digest([ITEM]) == item_shelf.digest([replace(ITEM, picarats=None)])


@pytest.mark.parametrize(
    ("value", "kept"),
    [(40, 40), (40.0, 40), (None, None), (math.nan, None), (math.inf, None), (-1, None), (1.5, None),
     (True, None), ("40", 40), ("4.5", None), ("many", None)],
)  # fmt: skip
def test_picarats_of_a_riddle_are_a_whole_number_or_none(value: JsonValue, kept: int | None) -> None:
    row: dict[str, JsonValue] = {"id": "a", "description": "How many?", "answer": "7", "picarats": value}
    assert _item(row, 1, "llm").picarats == kept


@pytest.mark.parametrize("room", [0, 5_000, 1 << 20])
def test_a_run_goes_on_with_the_items_that_it_froze(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, room: int) -> None:
    monkeypatch.setattr(long_list, "IN_MEMORY", room)
    monkeypatch.setattr(item_table, "PORTION_CHARACTERS", 3_000)
    items = Shelf(
        replace(ITEM, id=str(number), images=(Image("image/png", "A" * (number % 7) * 100),), hints=("é", None))
        for number in range(100)
    )
    item_table.write(RunFolder(tmp_path), items)
    frozen = item_table.read(RunFolder(tmp_path))
    assert frozen == items
    assert frozen.digest == items.digest


def test_items_have_their_payload_as_it_is_frozen() -> None:
    items = [replace(ITEM, payload={"options": ("a", "b")})]  # type: ignore[dict-item]
    assert Shelf(items)[0].payload == {"options": ["a", "b"]}
