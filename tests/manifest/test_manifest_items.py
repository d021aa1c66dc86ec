"""The items a manifest asks about, and the manifests that come with the package."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from layton_batch.errors import DataError
from layton_batch.manifest.asked import load_items, manifest_task
from layton_batch.manifest.checks import load_manifest
from layton_batch.settings import Settings
from tests.support.manifest_texts import ITEMS, MINIMAL, load
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT

SHIPPED = ROOT / "manifests"

# ---- items ---------------------------------------------------------------------------------------------------------


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


# ---- the shipped manifests -----------------------------------------------------------------------------------------


def test_the_demo_names_the_sandboxes_models_judges_and_prices() -> None:
    profiles = tomllib.loads((resources.files("layton_batch.sandbox") / "profiles.toml").read_text(encoding="utf-8"))
    found = load_manifest(SHIPPED / "demo.toml")
    assert [(m.provider, m.model) for m in found.models] == [
        (p["provider"], p["model"]) for p in profiles["participants"]
    ]
    judges = [(j.model.provider, j.model.model, j.substitute) for j in found.panel()]
    assert judges == [(p["provider"], p["model"], p.get("substitute", False)) for p in profiles["judges"]]
    priced = {
        (p.provider, p.model): [
            [str(x) for x in (p.batch_input, p.batch_output, p.batch_cached_input)],
            [str(x) for x in (p.input, p.output, p.cached_input)],
        ]
        for p in found.prices
    }
    billed = {
        (provider, model): [price["batch"], price["standard"]]
        for provider, models in profiles["prices"].items()
        for model, price in models.items()
    }
    assert priced == billed
    assert all(m.name == m.model for m in found.models)
