"""Puzzles from a seed: a grid is drawn, then clues that are true of it until it is the only one left."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tools.logic_grids.clues import HOLDS, OF_A_HOUSE, Clue, Grid, Relation, Thing, house_of
from tools.logic_grids.solver import solutions
from tools.logic_grids.themes import Theme

T = TypeVar("T")

WEIGHTS: Mapping[Relation, float] = {
    Relation.AT: 0.5,
    Relation.NOT_AT: 1.5,
    Relation.SAME: 3.0,
    Relation.DIRECTLY_LEFT: 1.5,
    Relation.DIRECTLY_RIGHT: 1.5,
    Relation.LEFT: 1.0,
    Relation.RIGHT: 1.0,
    Relation.NEXT_TO: 1.5,
    Relation.ONE_BETWEEN: 1.5,
    Relation.TWO_BETWEEN: 1.5,
}
"""How likely a relation is to be tried before others, whatever the number of true clues it has."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """``values`` holds each attribute's values as the puzzle lists them, ``grid`` their houses."""

    themes: tuple[Theme, ...]
    values: tuple[tuple[str, ...], ...]
    grid: Grid
    clues: tuple[Clue, ...]

    @property
    def houses(self) -> int:
        return len(self.values[0])


def generate(themes: Sequence[Theme], houses: int, attributes: int, seed: str) -> Puzzle:
    """A puzzle with exactly one solution, none of whose clues can be spared. The first theme is always used.

    The same arguments give the same puzzle on every Python: only ``Random.random`` is drawn from, whose sequence Python
    promises to keep.
    """
    draw = random.Random(seed).random
    chosen = (themes[0], *_shuffled(themes[1:], draw)[: attributes - 1])
    values = tuple(tuple(_shuffled(theme.values, draw)[:houses]) for theme in chosen)
    grid = tuple(tuple(_shuffled(range(houses), draw)) for _ in chosen)
    enough = _until_unique(houses, attributes, _by_weight(_true_clues(houses, grid), draw), grid)
    needed = _without_spare(houses, attributes, _shuffled(enough, draw))
    return Puzzle(chosen, values, grid, tuple(_shuffled(needed, draw)))


def _true_clues(houses: int, grid: Grid) -> Iterator[Clue]:
    things = [Thing(attribute, value) for attribute in range(len(grid)) for value in range(houses)]
    for first in things:
        for relation in Relation:
            others = range(houses) if relation in OF_A_HOUSE else [other for other in things if other > first]
            for other in others:
                place = other if isinstance(other, int) else house_of(grid, other)
                if HOLDS[relation](house_of(grid, first), place):
                    yield Clue(relation, first, other)


def _by_weight(clues: Iterator[Clue], draw: Callable[[], float]) -> list[Clue]:
    """In a random order in which each relation's first clues come as early as its weight says."""
    by_relation: dict[Relation, list[Clue]] = {}
    for clue in clues:
        by_relation.setdefault(clue.relation, []).append(clue)
    keyed: list[tuple[float, Clue]] = []
    for relation, its in by_relation.items():
        keyed.extend(((place + draw()) / WEIGHTS[relation], clue) for place, clue in enumerate(_shuffled(its, draw)))
    return [clue for _, clue in sorted(keyed, key=lambda entry: entry[0])]


def _until_unique(houses: int, attributes: int, clues: Sequence[Clue], grid: Grid) -> list[Clue]:
    """Clues in their order, each taken only if it rules out a wrong grid that those before it allow."""
    taken: list[Clue] = []
    while wrong := [found for found in solutions(houses, attributes, taken) if found != grid]:
        taken.append(next(clue for clue in clues if not clue.holds(wrong[0])))
    return taken


def _without_spare(houses: int, attributes: int, clues: Sequence[Clue]) -> list[Clue]:
    """Without every clue that the rest make needless."""
    kept = list(clues)
    for clue in clues:
        rest = [other for other in kept if other is not clue]
        if len(solutions(houses, attributes, rest)) == 1:
            kept = rest
    return kept


def _shuffled(values: Sequence[T], draw: Callable[[], float]) -> list[T]:
    return [value for _, _, value in sorted((draw(), place, value) for place, value in enumerate(values))]
