"""The example plug-in of docs/example_plugin, as an installer would leave it."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PLUGIN = ROOT / "docs" / "example_plugin"


@contextmanager
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its files and its entry points on the path, in ``folder``."""
    place = folder / "site-packages"
    place.mkdir()
    for name in ("spelling_task.py", "spelling_items.jsonl"):
        shutil.copy(PLUGIN / name, place)
    info = place / "layton_batch_spelling-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: layton-batch-spelling\nVersion: 1.0\n")
    points = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["entry-points"]["layton_batch.tasks"]
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (info / "entry_points.txt").write_text("".join(["[layton_batch.tasks]\n", *lines]))
    monkeypatch.syspath_prepend(str(place))
    yield
    sys.modules.pop("spelling_task", None)
