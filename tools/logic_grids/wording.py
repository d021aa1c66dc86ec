"""Puzzles in English, and as rows in the published columns."""

from __future__ import annotations

from collections.abc import Mapping

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic_rules.right_grids import gold_from
from tools.logic_grids.clues import OF_A_HOUSE, Clue, Grid, Relation, Thing
from tools.logic_grids.generator import Puzzle

_OPENING = (
    "On one side of a lane stand {houses} houses, numbered 1 to {houses} from left to right. One person lives in each. "
    "The residents differ in everything listed here, and every value belongs to one of them:"
)
_SENTENCES: Mapping[Relation, str] = {
    Relation.AT: "{first} lives in house {other}.",
    Relation.NOT_AT: "{first} does not live in house {other}.",
    Relation.SAME: "{first} and {other} are one and the same person.",
    Relation.DIRECTLY_LEFT: "{first} lives in the house immediately to the left of {other}.",
    Relation.DIRECTLY_RIGHT: "{first} lives in the house immediately to the right of {other}.",
    Relation.LEFT: "{first} lives further to the left than {other}.",
    Relation.RIGHT: "{first} lives further to the right than {other}.",
    Relation.NEXT_TO: "{first} and {other} are next-door neighbours.",
    Relation.ONE_BETWEEN: "Exactly one house stands between {first} and {other}.",
    Relation.TWO_BETWEEN: "Exactly two houses stand between {first} and {other}.",
}


def row_of(puzzle: Puzzle, item_id: str) -> dict[str, JsonValue]:
    """``id, size, puzzle, solution`` as published, and ``clues``: each a relation, a thing, and a thing or a house,
    where a thing is ``[attribute, value]`` and houses count from 1."""
    return {
        "id": item_id,
        "size": f"{puzzle.houses}*{len(puzzle.themes)}",
        "puzzle": text_of(puzzle),
        "solution": {"header": ["House", *_attributes(puzzle)], "rows": _rows(puzzle)},
        "clues": [_formal(puzzle, clue) for clue in puzzle.clues],
    }


def text_of(puzzle: Puzzle) -> str:
    """What a participant reads."""
    lists = zip(puzzle.themes, puzzle.values, strict=True)
    listed = [f"- {theme.attribute}: {', '.join(values)}" for theme, values in lists]
    known = [f"{number}. {sentence(puzzle, clue)}" for number, clue in enumerate(puzzle.clues, 1)]
    return "\n".join([_OPENING.format(houses=puzzle.houses), *listed, "", "What is known:", *known])


def sentence(puzzle: Puzzle, clue: Clue) -> str:
    """A clue in English."""
    other = str(clue.other + 1) if isinstance(clue.other, int) else _person(puzzle, clue.other)
    text = _SENTENCES[clue.relation].format(first=_person(puzzle, clue.first), other=other)
    return text[0].upper() + text[1:]


def puzzle_from(row: JsonValue) -> tuple[int, int, list[Clue], Grid]:
    """A row as the solver takes it: houses, attributes, clues, and the grid its solution column gives.

    Raises DataError where the row is not of ``row_of``'s form.
    """
    if not isinstance(row, Mapping):
        raise DataError("a row must be an object")
    gold = gold_from(row.get("solution"), "this row")
    # A value's number is its house in the solution, so the solution is the same row for every attribute.
    houses, attributes = len(gold.rows), len(gold.header) - 1
    things = {
        (name, house[place + 1]): Thing(place, number)
        for number, house in enumerate(gold.rows)
        for place, name in enumerate(gold.header[1:])
    }
    formal = row.get("clues")
    if not isinstance(formal, list):
        raise DataError("column 'clues' must be an array")
    return houses, attributes, [_clue(entry, things) for entry in formal], (tuple(range(houses)),) * attributes


def _clue(entry: JsonValue, things: Mapping[tuple[str, str], Thing]) -> Clue:
    match entry:
        case [str(relation), [str(name), str(value)], int(house)]:
            other: Thing | int | None = house - 1
        case [str(relation), [str(name), str(value)], [str(other_name), str(other_value)]]:
            other = things.get((other_name, other_value))
        case _:
            raise DataError(f"{entry!r} is not a clue")
    first = things.get((name, value))
    if first is None or other is None or relation not in set(Relation):
        raise DataError(f"{entry!r} names a relation or a thing there is none of")
    if (relation in OF_A_HOUSE) is not isinstance(other, int):
        raise DataError(f"{entry!r}: {relation} goes with {'a house' if relation in OF_A_HOUSE else 'two things'}")
    return Clue(Relation(relation), first, other)


def _formal(puzzle: Puzzle, clue: Clue) -> list[JsonValue]:
    other: JsonValue = clue.other + 1 if isinstance(clue.other, int) else _named(puzzle, clue.other)
    return [clue.relation.value, _named(puzzle, clue.first), other]


def _named(puzzle: Puzzle, thing: Thing) -> list[JsonValue]:
    return [puzzle.themes[thing.attribute].attribute, puzzle.values[thing.attribute][thing.value]]


def _person(puzzle: Puzzle, thing: Thing) -> str:
    return puzzle.themes[thing.attribute].person(puzzle.values[thing.attribute][thing.value])


def _attributes(puzzle: Puzzle) -> list[str]:
    return [theme.attribute for theme in puzzle.themes]


def _rows(puzzle: Puzzle) -> list[JsonValue]:
    rows: list[JsonValue] = []
    for house in range(puzzle.houses):
        found = [values[places.index(house)] for values, places in zip(puzzle.values, puzzle.grid, strict=True)]
        rows.append([str(house + 1), *found])
    return rows
