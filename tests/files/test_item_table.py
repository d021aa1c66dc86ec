"""Items are frozen with a run as they are. Picarats are kept with them, and identify nothing."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.files import item_table
from layton_batch.files.item_list import StoredImage, digest, item_list
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Image, Item, JsonValue
from layton_batch.tasks.layton import _item

ITEM = Item("a", "llm", "Logic", "How many?", payload={"answer": "7"}, picarats=40)


def test_picarats_come_back_and_the_tasks_payload_is_as_it_was(tmp_path: Path) -> None:
    items = [ITEM, replace(ITEM, id="b", picarats=None)]
    item_table.write(RunFolder(tmp_path), items)
    assert item_table.read(RunFolder(tmp_path)) == items


@pytest.mark.parametrize(
    ("value", "kept"),
    [(40, 40), (40.0, 40), (None, None), (math.nan, None), (math.inf, None), (-1, None), (1.5, None),
     (True, None), ("40", 40), ("4.5", None), ("many", None)],
)  # fmt: skip
def test_picarats_of_a_riddle_are_a_whole_number_or_none(value: JsonValue, kept: int | None) -> None:
    row: dict[str, JsonValue] = {"id": "a", "description": "How many?", "answer": "7", "picarats": value}
    assert _item(row, 1, "llm").picarats == kept


def test_a_run_goes_on_with_the_items_that_it_froze(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(item_table, "PORTION_CHARACTERS", 3_000)
    items = item_list(
        replace(ITEM, id=str(number), images=(Image("image/png", "A" * (number % 7) * 100),), hints=("é", None))
        for number in range(100)
    )
    item_table.write(RunFolder(tmp_path), items)
    frozen = item_table.read(RunFolder(tmp_path))
    assert frozen == items
    assert digest(frozen) == digest(items)


def test_pictures_are_on_disk_and_are_the_same() -> None:
    items = [
        Item(str(number), "llm", "c", f"question {number} \u2028 𝄞", (Image("image/png", f"{number:04d}" * 50),) * 2)
        for number in range(300)
    ]
    kept = item_list(items)
    assert kept == items
    assert digest(kept) == digest(items)
    assert all(isinstance(image, StoredImage) for item in kept for image in item.images)
    assert {*kept[7].images} == {*items[7].images}
    assert item_list(kept)[0].images[0] is kept[0].images[0]
    with ThreadPoolExecutor(4) as threads:
        texts = list(threads.map(lambda item: [image.base64 for image in item.images], kept * 4))
    assert texts == [[image.base64 for image in item.images] for item in items * 4]
