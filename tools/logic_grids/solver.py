"""Every solution of a logic grid, by constraint propagation and search.

A thing's possible houses are the bits of an integer, and each relation maps a set of houses to the set it allows the
other thing. Propagation only removes what no solution has and the search tries the rest, so finding fewer solutions
than asked for proves that there are no more. Grids of this size need no general solver: a 6*6 puzzle takes
milliseconds here, and a hundred lines can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from tools.logic_grids.clues import OF_A_HOUSE, Clue, Grid, Relation, Thing

Domains = list[list[int]]
"""For each attribute and value the set of its possible houses, as bits."""

_Image = Callable[[int, int], int]
"""From the houses of one thing, and the set of all houses, to the houses the relation allows the other."""


def solutions(houses: int, attributes: int, clues: Sequence[Clue], limit: int = 2) -> list[Grid]:
    """Up to ``limit`` grids in which all clues hold. One grid from a limit of two is proof that it is the only one."""
    full = (1 << houses) - 1
    domains = [[full] * houses for _ in range(attributes)]
    for clue in clues:
        if clue.relation in OF_A_HOUSE and isinstance(clue.other, int):
            bit = 1 << clue.other
            domains[clue.first.attribute][clue.first.value] &= bit if clue.relation is Relation.AT else full & ~bit
    pairs = [(clue.relation, clue.first, clue.other) for clue in clues if isinstance(clue.other, Thing)]
    return list(islice(_search(domains, pairs, full), limit))


def _search(domains: Domains, pairs: Sequence[tuple[Relation, Thing, Thing]], full: int) -> Iterator[Grid]:
    if not _propagate(domains, pairs, full):
        return
    open_things = [
        (houses.bit_count(), attribute, value)
        for attribute, row in enumerate(domains)
        for value, houses in enumerate(row)
        if houses.bit_count() > 1
    ]
    if not open_things:
        yield tuple(tuple(houses.bit_length() - 1 for houses in row) for row in domains)
        return
    _, attribute, value = min(open_things)
    for bit in _bits(domains[attribute][value]):
        attempt = [row.copy() for row in domains]
        attempt[attribute][value] = bit
        yield from _search(attempt, pairs, full)


def _propagate(domains: Domains, pairs: Sequence[tuple[Relation, Thing, Thing]], full: int) -> bool:
    """Remove houses until nothing changes; False where a thing has none left."""
    before: Domains = []
    while domains != before:
        before = [row.copy() for row in domains]
        for relation, first, other in pairs:
            _narrow(domains, relation, first, other, full)
        if not all(_all_different(row, full) for row in domains):
            return False
    return True


def _narrow(domains: Domains, relation: Relation, first: Thing, other: Thing, full: int) -> None:
    domains[other.attribute][other.value] &= _IMAGE[relation](domains[first.attribute][first.value], full)
    domains[first.attribute][first.value] &= _IMAGE[_CONVERSE.get(relation, relation)](
        domains[other.attribute][other.value], full
    )


def _all_different(row: list[int], full: int) -> bool:
    """One pass: a house that is taken is nobody else's, and one that only one value can have is its own."""
    for value, houses in enumerate(row):
        others = 0
        for another, its in enumerate(row):
            if another != value:
                others |= its
                if houses.bit_count() == 1:
                    row[another] = its & ~houses
        only = houses & ~others
        if only.bit_count() > 1:
            return False
        row[value] = only or houses
    together = 0
    for houses in row:
        together |= houses
    return together == full and 0 not in row


def _bits(houses: int) -> Iterator[int]:
    while houses:
        lowest = houses & -houses
        yield lowest
        houses ^= lowest


def _above_lowest(houses: int, full: int) -> int:
    return full & ~((houses & -houses) * 2 - 1) if houses else 0


def _below_highest(houses: int, full: int) -> int:
    return (1 << (houses.bit_length() - 1)) - 1 if houses else 0


def _at_distance(steps: int) -> _Image:
    return lambda houses, full: (houses << steps | houses >> steps) & full


_CONVERSE = {
    Relation.DIRECTLY_LEFT: Relation.DIRECTLY_RIGHT,
    Relation.DIRECTLY_RIGHT: Relation.DIRECTLY_LEFT,
    Relation.LEFT: Relation.RIGHT,
    Relation.RIGHT: Relation.LEFT,
}
_IMAGE: Mapping[Relation, _Image] = {
    Relation.SAME: lambda houses, full: houses & full,
    Relation.DIRECTLY_LEFT: lambda houses, full: houses << 1 & full,
    Relation.DIRECTLY_RIGHT: lambda houses, full: houses >> 1 & full,
    Relation.LEFT: _above_lowest,
    Relation.RIGHT: _below_highest,
    Relation.NEXT_TO: _at_distance(1),
    Relation.ONE_BETWEEN: _at_distance(2),
    Relation.TWO_BETWEEN: _at_distance(3),
}
