"""Items are frozen with a run as they are. Picarats are kept with them, and identify nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.files.items import digest, item_list, read_items, write_items
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Image, Item

ITEM = Item("a", "llm", "Logic", "How many?", payload={"answer": "7"}, picarats=40)


def test_a_run_goes_on_with_the_items_that_it_froze(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("layton_batch.files.items.PORTION_CHARACTERS", 3_000)
    items = item_list(
        replace(
            ITEM,
            id=str(number),
            picarats=number or None,
            images=(Image("image/png", "A" * (number % 7) * 100),),
            hints=("é", None),
        )
        for number in range(100)
    )
    write_items(RunFolder(tmp_path), items)
    frozen = read_items(RunFolder(tmp_path))
    assert frozen == items
    assert digest(frozen) == digest(items)
