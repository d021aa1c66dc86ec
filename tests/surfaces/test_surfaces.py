"""Small workspaces, built from frozen replies, have the numbers and facts of the golden files.

A number that changes on purpose: ``python -m tests.surfaces`` writes the files anew and prints old and new, which the
commit lists with the reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces import golden_facts


@pytest.mark.parametrize("name", golden_facts.SURFACES)
def test_a_workspace_has_its_golden_facts(name: str, tmp_path: Path) -> None:
    changed = golden_facts.differences(golden_facts.read(name), golden_facts.facts_of(name, tmp_path))
    lines = [f"{fact}: {old} -> {new}" for fact, old, new in changed]
    assert not lines, "\n".join(lines)
