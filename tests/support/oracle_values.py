"""Values that other packages computed; ``tests/oracle_values.json`` has package, call and inputs of each."""

from __future__ import annotations

import json
from typing import Any

from tests.support.paths import ROOT


def oracle_values(name: str) -> list[Any]:
    """Return the values of one call."""
    values: list[Any] = json.loads((ROOT / "tests" / "oracle_values.json").read_text(encoding="utf-8"))[name]["values"]
    return values
