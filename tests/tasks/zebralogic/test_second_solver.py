"""A second opinion: python-constraint, which shares no code with our solver, finds the same one solution."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tools.logic_grids.__main__ import BUNDLED

constraint = pytest.importorskip("constraint", reason="python-constraint2, a development dependency, is not installed")

Row = dict
ROWS = [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
MEANING: dict[str, Callable[[int, int], bool]] = {
    "at": lambda first, other: first == other,
    "not_at": lambda first, other: first != other,
    "same": lambda first, other: first == other,
    "directly_left": lambda first, other: other - first == 1,
    "directly_right": lambda first, other: first - other == 1,
    "left": lambda first, other: first < other,
    "right": lambda first, other: first > other,
    "next_to": lambda first, other: first - other in {-1, 1},
    "one_between": lambda first, other: first - other in {-2, 2},
    "two_between": lambda first, other: first - other in {-3, 3},
}


def all_solutions(row: Row) -> list[dict[tuple[str, str], int]]:
    """The house of every (attribute, value), from 1, in each of the puzzle's solutions."""
    houses, names = row["solution"]["rows"], row["solution"]["header"][1:]
    problem = constraint.Problem()
    for place, name in enumerate(names, 1):
        things = [(name, house[place]) for house in houses]
        problem.addVariables(things, range(1, len(houses) + 1))
        problem.addConstraint(constraint.AllDifferentConstraint(), things)
    for relation, first, other in row["clues"]:
        holds = MEANING[relation]
        if isinstance(other, int):
            problem.addConstraint(lambda house, holds=holds, other=other: holds(house, other), [tuple(first)])
        else:
            problem.addConstraint(holds, [tuple(first), tuple(other)])
    return problem.getSolutions()


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_python_constraint_finds_the_shipped_solution_and_no_other(row: Row) -> None:
    names = row["solution"]["header"]
    shipped = {
        (names[place], house[place]): int(house[0])
        for house in row["solution"]["rows"]
        for place in range(1, len(names))
    }
    assert all_solutions(row) == [shipped]
