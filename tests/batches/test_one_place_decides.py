"""Every decision about a batch is built in ``batches/machine.py``, and nowhere else in the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import layton_batch
from layton_batch.batches import machine
from tests.support.batch_states import CHANGEABLE

PACKAGE = Path(layton_batch.__file__).parent
MACHINE = Path(machine.__file__)
DECISIONS = {"Move", "Wait", "Collect"}
RECORDS = {"batch", "parent", "child", "decision"}
"""Names by which the program calls a batch or a decision."""
DECIDED = {"state", "absent_looks", "due_at", "entries"}
"""What only a batch or a decision has, and only a decision changes."""


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def decisions(tree: ast.AST) -> Iterator[str]:
    """Calls that build a decision, or a batch that a decision left behind."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called, names = name_of(node.func), {keyword.arg for keyword in node.keywords}
        first = name_of(node.args[0]) if node.args else ""
        if called in DECISIONS or (
            called == "replace" and (names & DECIDED or (first in RECORDS and names & CHANGEABLE))
        ):
            yield f"line {node.lineno}: {ast.unparse(node)[:80]}"


def test_only_the_machine_builds_a_decision() -> None:
    elsewhere = {
        str(path.relative_to(PACKAGE)): calls
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != MACHINE and "sandbox" not in path.parts
        if (calls := list(decisions(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert elsewhere == {}


def test_the_search_for_decisions_sees_each_kind() -> None:
    lines = (
        "records.Move(after, ())", "Wait(batch)", "Collect(batch)", "replace(one, state=Lifecycle.LOST)",
        "dataclasses.replace(decision, entries=())", "replace(batch, input_ref=ref)",
    )  # fmt: skip
    assert all(list(decisions(ast.parse(line))) for line in lines)
    assert len(list(decisions(ast.parse(MACHINE.read_text(encoding="utf-8"))))) > 20
