"""The ready manifests: each loads without the network, and the page of benchmarks lists it with its data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.checks import load_manifest
from tests.support.paths import ROOT

READY = [path for path in sorted((ROOT / "manifests").glob("*.toml")) if not path.stem.startswith(("demo", "panel"))]
PAGE = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([\w-]+)\.toml` \| (.*) \|$", PAGE, re.MULTILINE))
DATA_SET = re.compile(r"datasets/([\w-]+/[\w-]+)")


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_a_ready_manifest_loads_and_the_page_lists_it_with_its_task_protocol_and_data(path: Path) -> None:
    name, manifest = path.stem, load_manifest(path)
    assert manifest.name == name
    assert manifest_task(manifest).name == manifest.task
    row = ROWS[name]
    assert f"`{manifest.task}`" in row
    if protocol := manifest.task_options.get("protocol"):
        assert f"`{protocol}`" in row
    for data_set in DATA_SET.findall(manifest.items.source):
        assert data_set in row or "the same" in row
        assert data_set in PAGE


def test_the_page_lists_no_manifest_that_is_not_there() -> None:
    assert set(ROWS) == {path.stem for path in READY}
    named = set(re.findall(r"`([\w-]+\.toml)`", PAGE))
    assert named <= {path.name for path in (ROOT / "manifests").glob("*.toml")}
