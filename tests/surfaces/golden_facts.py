"""The golden facts of each workspace: a file of JSON by its name."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.surfaces.facts import read_facts
from tests.surfaces.workspaces import HERE, SURFACES, Facts, build

__all__ = ["SURFACES", "differences", "facts_of", "read", "write"]

RELATIVE = 1e-9
ABSENT = "(no such fact)"


def facts_of(name: str, folder: Path) -> Facts:
    """Build a workspace in an empty folder, and read its facts."""
    return read_facts(*build(name, folder))


def differences(old: Facts, new: Facts) -> Iterator[tuple[str, Any, Any]]:
    """Yield each fact that differs, with its old and its new value. Numbers may differ in the tenth digit."""
    for name in sorted(old.keys() | new.keys()):
        pair = old.get(name, ABSENT), new.get(name, ABSENT)
        if not _equal(*pair):
            yield name, *pair


def _equal(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, float | int):
        return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=RELATIVE)
    return bool(old == new)


def read(name: str) -> Facts:
    """Read a golden file; no facts where there is none yet."""
    path = _path(name)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def write(name: str, facts: Facts) -> None:
    """Write a golden file, a fact a line."""
    _path(name).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _path(name: str) -> Path:
    return HERE / "golden" / f"{name}.json"
