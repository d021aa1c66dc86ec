"""The items a manifest asks about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.errors import DataError
from layton_batch.manifest.asked import load_items, manifest_task
from layton_batch.settings import Settings
from tests.support.manifest_texts import ITEMS, MINIMAL, load
from tests.support.manual_clock import ManualClock


def items(tmp_path: Path, *rows: dict[str, str], limit: str = "") -> list[str]:
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    manifest = load(tmp_path, MINIMAL.replace(ITEMS, ITEMS + limit))
    found = load_items(manifest, manifest_task(manifest), Settings(tmp_path), ManualClock())
    return [item.id for item in found]


def test_items_are_read_checked_and_limited(tmp_path: Path) -> None:
    rows = [{"id": name, "description": "Q", "split": "llm"} for name in "abc"]
    assert items(tmp_path, *rows) == ["a", "b", "c"]
    assert items(tmp_path, *rows, limit="limit = 2\n") == ["a", "b"]
    with pytest.raises(DataError, match=r"items\.jsonl: item ids must be unique; more than once: 'a'"):
        items(tmp_path, rows[0], rows[0])
    with pytest.raises(DataError, match=r"items\.jsonl: no items of the split 'llm' .*; its rows have: vlm \(1\)$"):
        items(tmp_path, {"id": "a", "description": "Q", "split": "vlm"})
    with pytest.raises(DataError, match=r"items\.jsonl: line 2 \(item 'b'\): column 'description' is missing"):
        items(tmp_path, rows[0], {"id": "b"})
