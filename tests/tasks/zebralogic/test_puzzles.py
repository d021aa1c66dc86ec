"""The bundled puzzles have one solution each, the solver is right, and the generator repeats itself."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from tools.logic_grids.__main__ import BUNDLED, SIZES, faults, main, rows
from tools.logic_grids.clues import OF_A_HOUSE, Clue, Grid, Relation, Thing
from tools.logic_grids.generator import generate
from tools.logic_grids.solver import solutions
from tools.logic_grids.themes import bundled_themes
from tools.logic_grids.wording import puzzle_from

Row = dict[str, JsonValue]


@cache
def bundled() -> list[Row]:
    return [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]


def every_grid(houses: int, attributes: int, clues: list[Clue]) -> list[Grid]:
    """The solutions by trying everything; shares nothing with the solver but the meaning of a clue."""
    grids = itertools.product(list(itertools.permutations(range(houses))), repeat=attributes)
    return [grid for grid in grids if all(clue.holds(grid) for clue in clues)]


def by_attributes(houses: int, attributes: int, clues: list[Clue]) -> Iterator[Grid]:
    """The same, one attribute at a time, so that large grids can be tried as well."""

    def last_attribute(clue: Clue) -> int:
        return max(clue.first.attribute, -1 if isinstance(clue.other, int) else clue.other.attribute)

    def grown(grid: Grid) -> Iterator[Grid]:
        if len(grid) == attributes:
            yield grid
            return
        for row in itertools.permutations(range(houses)):
            longer = (*grid, row)
            if all(clue.holds(longer) for clue in clues if last_attribute(clue) == len(grid)):
                yield from grown(longer)

    return grown(())


# ---- the bundled file ----------------------------------------------------------------------------------------------


def test_there_are_two_puzzles_of_every_size() -> None:
    assert [row["size"] for row in bundled()] == [size for size in SIZES for _ in range(2)]
    assert len({row["id"] for row in bundled()}) == len(bundled()) == 50
    assert len({row["puzzle"] for row in bundled()}) == 50


@pytest.mark.parametrize("number", range(50))
def test_every_bundled_puzzle_has_exactly_one_solution_and_no_spare_clue(number: int) -> None:
    houses, attributes, clues, grid = puzzle_from(bundled()[number])
    assert solutions(houses, attributes, clues) == [grid]
    for spare in range(len(clues)):
        assert len(solutions(houses, attributes, clues[:spare] + clues[spare + 1 :])) == 2


@pytest.mark.parametrize("number", range(40))
def test_puzzles_of_up_to_five_houses_have_one_solution_by_trying_everything_too(number: int) -> None:
    houses, attributes, clues, grid = puzzle_from(bundled()[number])
    assert list(by_attributes(houses, attributes, clues)) == [grid]


def test_the_puzzles_use_every_kind_of_clue_and_mostly_not_the_plainest() -> None:
    kinds = [clue.relation for row in bundled() for clue in puzzle_from(row)[2]]
    assert set(kinds) == set(Relation)
    assert kinds.count(Relation.AT) < len(kinds) / 10


def test_the_text_lists_every_value_and_numbers_every_clue() -> None:
    for row in bundled():
        solution, text, clues = row["solution"], str(row["puzzle"]), row["clues"]
        assert isinstance(solution, dict)
        assert isinstance(clues, list)
        listed = {name: set(values.split(", ")) for name, values in re.findall(r"^- (\w+): (.+)$", text, re.MULTILINE)}
        for place, name in enumerate(solution["header"][1:], 1):
            assert listed[name] == {house[place] for house in solution["rows"]}
        sentences = re.findall(r"^(\d+)\. [A-Z].+\.$", text, re.MULTILINE)
        assert sentences == [str(number) for number in range(1, len(clues) + 1)]


def test_the_lists_do_not_give_the_solution_away() -> None:
    in_order = 0
    for row in bundled():
        solution = row["solution"]
        assert isinstance(solution, dict)
        for place, name in enumerate(solution["header"][1:], 1):
            in_order += f"- {name}: {', '.join(house[place] for house in solution['rows'])}\n" in str(row["puzzle"])
    assert in_order < 40  # of 200; half of the 40 rows with two values, and few others, by chance


def test_the_file_is_what_the_command_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = [size for size in SIZES if size[0] in "234"]
    assert main(["--output", str(tmp_path / "out.jsonl"), "--sizes", *small]) == 0
    written = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert written == BUNDLED.read_text(encoding="utf-8").splitlines()[: len(written)]
    assert "30 puzzles" in capsys.readouterr().err


# ---- the command ---------------------------------------------------------------------------------------------------


def test_a_puzzle_depends_on_seed_size_and_number_only() -> None:
    assert list(rows(3, 1, ["3*3"])) == list(rows(3, 2, ["2*2", "3*3"]))[2:3]
    assert list(rows(3, 1, ["3*3"])) != list(rows(4, 1, ["3*3"]))


def test_a_file_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(BUNDLED)]) == 0
    assert "50 of 50" in capsys.readouterr().err
    good = bundled()[20]
    clues, solution = good["clues"], good["solution"]
    assert isinstance(clues, list)
    assert isinstance(solution, dict)
    broken = [
        {**good, "clues": clues[1:]},
        {**good, "solution": {**solution, "rows": [[str(n), *h[1:]] for n, h in enumerate(solution["rows"][::-1], 1)]}},
        {**good, "clues": [["over", ["Name", "x"], 1]]},
        {**good, "clues": [["same", clues[0][1], 1]]},
        {**good, "clues": 5},
        {"id": "x"},
        [],
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [good, *broken]) + "rubbish\n")
    assert main(["--check", str(tmp_path / "x.jsonl")]) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == len(broken) + 2
    assert "line 2: several solutions" in told[0]
    assert "line 3: another solution or none" in told[1]
    assert main(["--check", str(tmp_path / "none.jsonl")]) == 2


def test_faults_are_told_by_line() -> None:
    assert faults([json.dumps(row) for row in bundled()[:3]]) == []
    with pytest.raises(DataError, match="clues"):
        puzzle_from({"solution": bundled()[0]["solution"]})


# ---- the solver ----------------------------------------------------------------------------------------------------


def random_clues(houses: int, attributes: int, draw: random.Random) -> list[Clue]:
    """Any clues, also contradictory ones and a thing beside itself."""
    things = [Thing(attribute, value) for attribute in range(attributes) for value in range(houses)]
    relations = draw.choices(list(Relation), k=draw.randint(0, 3 * houses))
    return [
        Clue(kind, draw.choice(things), draw.randrange(houses) if kind in OF_A_HOUSE else draw.choice(things))
        for kind in relations
    ]


@pytest.mark.parametrize(("houses", "attributes"), [(1, 2), (2, 2), (2, 4), (3, 2), (3, 3), (4, 2)])
def test_the_solver_finds_exactly_what_trying_everything_finds(houses: int, attributes: int) -> None:
    draw = random.Random(f"{houses} {attributes}")
    solvable = 0
    for _ in range(150):
        clues = random_clues(houses, attributes, draw)
        wanted = every_grid(houses, attributes, clues)
        solvable += bool(wanted)
        assert sorted(solutions(houses, attributes, clues, limit=10_000)) == sorted(wanted), clues
    assert solvable > 20


def test_the_limit_is_kept() -> None:
    assert len(solutions(4, 3, [], limit=5)) == 5
    assert len(solutions(6, 6, [])) == 2


@pytest.mark.parametrize("size", [(2, 6), (4, 4), (6, 2)])
def test_any_seed_gives_a_puzzle_with_one_solution(size: tuple[int, int]) -> None:
    for seed in range(5):
        puzzle = generate(bundled_themes(), *size, f"another {seed}")
        assert solutions(*size, puzzle.clues) == [puzzle.grid]
        assert all(clue.holds(puzzle.grid) for clue in puzzle.clues)


def test_no_word_of_the_themes_stands_for_two_things() -> None:
    words = [value for theme in bundled_themes() for value in theme.values]
    assert len(words) == len(set(words))
    assert all(len(theme.values) >= 6 for theme in bundled_themes())
    assert len(bundled_themes()) >= 6
