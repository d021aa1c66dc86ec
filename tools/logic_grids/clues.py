"""Clues as facts about where two things are. A thing is one value of one attribute; a house is counted from 0 here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Thing(NamedTuple):
    """The numbers of an attribute and of one of its values."""

    attribute: int
    value: int


class Relation(StrEnum):
    """What a clue says of a thing and a house (the first two), or of two things."""

    AT = "at"
    NOT_AT = "not_at"
    SAME = "same"
    DIRECTLY_LEFT = "directly_left"
    DIRECTLY_RIGHT = "directly_right"
    LEFT = "left"
    RIGHT = "right"
    NEXT_TO = "next_to"
    ONE_BETWEEN = "one_between"
    TWO_BETWEEN = "two_between"


OF_A_HOUSE = frozenset({Relation.AT, Relation.NOT_AT})

HOLDS: Mapping[Relation, Callable[[int, int], bool]] = {
    Relation.AT: lambda first, other: first == other,
    Relation.NOT_AT: lambda first, other: first != other,
    Relation.SAME: lambda first, other: first == other,
    Relation.DIRECTLY_LEFT: lambda first, other: first + 1 == other,
    Relation.DIRECTLY_RIGHT: lambda first, other: first - 1 == other,
    Relation.LEFT: lambda first, other: first < other,
    Relation.RIGHT: lambda first, other: first > other,
    Relation.NEXT_TO: lambda first, other: abs(first - other) == 1,
    Relation.ONE_BETWEEN: lambda first, other: abs(first - other) == 2,
    Relation.TWO_BETWEEN: lambda first, other: abs(first - other) == 3,
}
"""Whether a relation holds between the house of its first thing and the house, or that of the thing, it names."""


@dataclass(frozen=True, slots=True)
class Clue:
    """``other`` is a house for the relations ``OF_A_HOUSE``, else a thing."""

    relation: Relation
    first: Thing
    other: Thing | int

    def holds(self, grid: Grid) -> bool:
        """Whether a whole grid agrees."""
        other = self.other if isinstance(self.other, int) else house_of(grid, self.other)
        return HOLDS[self.relation](house_of(grid, self.first), other)


Grid = tuple[tuple[int, ...], ...]
"""For each attribute the house of each value."""


def house_of(grid: Grid, thing: Thing) -> int:
    return grid[thing.attribute][thing.value]
