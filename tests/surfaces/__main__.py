"""``python -m tests.surfaces [NAME...]``: write the golden facts anew, and print each that changed as a table."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.surfaces import golden_facts


def main(names: list[str]) -> None:
    """Build the named workspaces, or all, and write their golden files."""
    unknown = [name for name in names if name not in golden_facts.SURFACES]
    if unknown:
        sys.exit(f"no workspace {unknown[0]!r}; there are: {', '.join(golden_facts.SURFACES)}")
    sys.stdout.write("| workspace | fact | old | new |\n|---|---|---|---|\n")
    for name in names or golden_facts.SURFACES:
        with tempfile.TemporaryDirectory() as folder:
            facts = golden_facts.facts_of(name, Path(folder))
        for fact, old, new in golden_facts.differences(golden_facts.read(name), facts):
            sys.stdout.write(f"| {name} | {fact} | {old} | {new} |\n")
        golden_facts.write(name, facts)


if __name__ == "__main__":
    main(sys.argv[1:])
