"""Long tables are written and read a portion at a time, and are what they would be in one piece."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from layton_batch.files import tables


def marks(number: int, text: str = "") -> list[dict[str, object]]:
    same = {"model": "m", "metric": "accuracy", "grade": 1.0, "tag": None, "note": text or None}
    return [{"item_id": f"item-{n}", **same} for n in range(number)]


@pytest.mark.parametrize("number", [0, 1, 4, 5, 11])
def test_a_table_written_in_portions_is_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(tables, "PORTION_ROWS", 5)
    path = tmp_path / "grades" / "one.parquet"

    def rows() -> Iterator[tables.Row]:
        for row in marks(number):
            yield row
            assert not path.exists()

    with tables.writing_frames(path, "grades") as add:
        for portion in tables.portions(rows(), lambda _row: 1):
            add(tables.frame("grades", portion))
    assert pl.read_parquet(path).equals(tables.frame("grades", marks(number)))
    assert list(path.parent.iterdir()) == [path]
    read = list(tables.read_portions(path, ("item_id", "note")))
    assert [one.height for one in read] == [5] * (number // 5) + [number % 5] * (number % 5 > 0)
    assert [item for one in read for item in one["item_id"]] == [row["item_id"] for row in marks(number)]


def test_a_folder_that_another_thread_is_writing_and_removes_is_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.write(tmp_path / "usage" / "a.parquet", tables.frame("usage", [{"custom_id": "a"}]))
    (tmp_path / "usage" / ".b.parquet.0-1-1-1.tmp").mkdir()
    scan = os.scandir

    def removed(folder: str | Path) -> object:
        if str(folder).endswith(".tmp"):
            raise FileNotFoundError(2, "it was removed meanwhile", str(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", removed)
    assert tables.read(tmp_path, "usage")["custom_id"].to_list() == ["a"]
