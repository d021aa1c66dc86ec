"""The small grid that most tests are about, and replies to it."""

from __future__ import annotations

import json

from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic.protocols import PROTOCOLS, GridGrade, gold_from

SOLUTION: JsonValue = {
    "header": ["House", "Name", "Drink"],
    "rows": [["1", "Alice", "milk"], ["2", "Carol", "coffee"], ["3", "Bob", "tea"]],
}
GRID: dict[str, JsonValue] = {
    "House 1": {"Name": "Alice", "Drink": "milk"},
    "House 2": {"Name": "Carol", "Drink": "coffee"},
    "House 3": {"Name": "Bob", "Drink": "tea"},
}
WRONG: dict[str, JsonValue] = {**GRID, "House 1": {"Name": "Bob", "Drink": "milk"}}
GOLD = gold_from(SOLUTION, "the test's solution")


def reply(grid: JsonValue = GRID, **more: JsonValue) -> str:
    """A reply with an envelope."""
    return json.dumps({**more, "solution": grid})


def grade(protocol: str, text: str) -> GridGrade:
    return PROTOCOLS[protocol].grade(text, GOLD)


def outcome(protocol: str, text: str) -> tuple[str, int | None]:
    """Tag and number of right cells."""
    found = grade(protocol, text)
    return found.tag.value, found.cells_correct
