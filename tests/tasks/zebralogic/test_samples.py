"""Several samples of one puzzle, in each of the paper's ways of making one answer of them."""

from __future__ import annotations

import pytest

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic_rules.grading import GridGrade
from layton_batch.tasks.zebralogic_rules.zeroeval import MODES, RM_BON, ZEROEVAL, grade_samples
from tests.tasks.offline_rows import form, grade_rows

from .grids import GOLD, GRID, SOLUTION, WRONG, reply

RIGHT, OFF = reply(reasoning="x" * 5), reply(WRONG, reasoning="x" * 3)
EMPTY = reply({}, reasoning="x" * 9)


def cells(mode: str, *texts: str, rewards: tuple[float, ...] | None = None) -> int | None:
    return grade_samples(texts, GOLD, mode, rewards).cells_correct


def house_1(name: JsonValue) -> str:
    """All right but for what it says is the first name."""
    return reply({**GRID, "House 1": {"Name": name, "Drink": "milk"}})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", [RIGHT, OFF, "?", reply("House 1: Alice"), reply(reasoning=None), '{"a":' * 2000])
def test_one_sample_is_graded_as_itself_in_every_mode(mode: str, text: str) -> None:
    alone = ZEROEVAL.grade(text, GOLD)
    for texts in ([text], [text, "?"], ["{}", text, '{"solution": null}']):
        found = grade_samples(texts, GOLD, mode, [1.0] * len(texts))
        assert (found.tag, found.cells_correct) == (alone.tag, alone.cells_correct)


@pytest.mark.parametrize("mode", MODES)
def test_no_sample_that_can_be_read_is_no_answer(mode: str) -> None:
    found: GridGrade = grade_samples(["?", "{}", ""], GOLD, mode, [3.0, 2.0, 1.0])
    assert (found.tag.value, found.cells_correct) == ("no_answer", 0)


def test_best_of_n_is_the_sample_with_most_right_cells() -> None:
    assert cells("best_of_n", EMPTY, OFF, RIGHT, OFF) == 6
    assert cells("best_of_n", EMPTY, reply(5), OFF) == 5
    # The first of equals: its reasoning is the one that is counted.
    assert grade_samples([OFF, reply(WRONG, reasoning="x" * 8)], GOLD).reasoning_chars == 3


def test_majority_of_n_takes_each_cells_most_frequent_value() -> None:
    second: dict[str, JsonValue] = {**GRID, "House 2": {"Name": "Carol", "Drink": "TEA "}}
    third: dict[str, JsonValue] = {**GRID, "House 3": {"Name": "Bob"}}
    # Each is wrong somewhere, and none of them where the others are.
    assert cells("majority_of_n", OFF, reply(second), reply(third)) == 6
    assert cells("best_of_n", OFF, reply(second), reply(third)) == 5
    assert cells("majority_of_n", OFF, OFF, RIGHT) == 5
    assert cells("majority_of_n", house_1("Zoe"), RIGHT) == 5  # the first named of equals
    assert cells("majority_of_n", house_1(None), RIGHT) == 6  # null is no vote
    assert cells("majority_of_n", house_1(""), RIGHT) == 5  # an empty text is one, as in the script
    assert cells("majority_of_n", house_1([" ALICE"]), RIGHT) == 6


def test_the_reasoning_of_a_majority_is_the_first_samples() -> None:
    assert grade_samples([EMPTY, RIGHT, RIGHT], GOLD, "majority_of_n").reasoning_chars == 9


def test_common_modes_choose_by_how_many_samples_say_the_same() -> None:
    odd = reply({house: {"Name": "?", "Drink": "?"} for house in GRID})
    assert cells("most_common_of_n", odd, OFF, RIGHT, RIGHT) == 6
    assert cells("least_common_of_n", RIGHT, RIGHT, OFF, odd) == 0
    assert cells("middle_common_of_n", RIGHT, odd, OFF, RIGHT) == 6  # place 2 of 4 in ascending order
    assert cells("middle_common_of_n", odd, OFF, RIGHT, OFF, odd) == 6  # sums 12, 17, 16, 17, 12


def test_length_modes_choose_by_the_reasoning() -> None:
    assert cells("shortest_of_n", RIGHT, OFF, EMPTY) == 5
    assert cells("median_of_n", EMPTY, RIGHT, OFF) == 6
    assert cells("longest_of_n", RIGHT, EMPTY, OFF) == 0
    assert cells("shortest_of_n", reply(), OFF, EMPTY) == 6  # no reasoning is the shortest


def test_the_best_rewarded_sample_counts_rewards_in_the_order_of_the_readable() -> None:
    assert cells(RM_BON, EMPTY, OFF, RIGHT, rewards=(0.1, -2.0, 0.7)) == 6
    assert cells(RM_BON, EMPTY, OFF, rewards=(0.5, 0.5)) == 0
    # As in the script, the first score goes to the first sample that could be read, whatever was before it.
    assert cells(RM_BON, "?", EMPTY, RIGHT, rewards=(0.1, 0.9, 0.5)) == 6


@pytest.mark.parametrize("mode", sorted(set(MODES) - {"best_of_n"}))
def test_what_the_script_stops_at_is_malformed(mode: str) -> None:
    for texts in ([RIGHT, '{"a":' * 1000 + "1" + "}" * 1000], [reply(5), reply(5)]):
        found = grade_samples(texts, GOLD, mode, [0.0, 1.0])
        assert (found.tag.value, found.cells_correct, found.cells_total) == ("malformed_output", 0, 6)
        assert found.note


@pytest.mark.parametrize("value", [5, True, [], {"a": 1}])
def test_a_value_without_letters_is_no_vote_the_script_can_count(value: JsonValue) -> None:
    for mode in ("majority_of_n", "most_common_of_n"):
        assert grade_samples([house_1(value), RIGHT, RIGHT], GOLD, mode).tag.value == "malformed_output"
    assert grade_samples([house_1(value), RIGHT], GOLD).cells_correct == 6


def test_rows_choose_the_mode_and_carry_the_scores() -> None:
    row: dict[str, JsonValue] = {"id": "a", "solution": SOLUTION, "output": [OFF, RIGHT], "rm_scores": [0.9, 0.2]}
    solved = {mode: grade_rows(form("zebralogic", "zeroeval", samples=mode), None, [row]).tally.score for mode in MODES}
    assert solved == dict.fromkeys(MODES, 0.0) | {
        "best_of_n": 1.0, "longest_of_n": 1.0, "median_of_n": 1.0, "middle_common_of_n": 1.0,
    }  # fmt: skip
    scores: list[JsonValue] = [None, [0.9], [0.9, "x"], [True, 0.1], [1, 2, 3]]
    for wrong in scores:
        with pytest.raises(DataError, match=r"^prediction 1 \('a'\): column 'rm_scores' must have a number for each"):
            grade_rows(form("zebralogic", "zeroeval", samples=RM_BON), None, [{**row, "rm_scores": wrong}])
    with pytest.raises(ManifestError, match="samples 'best': there are best_of_n, majority_of_n"):
        form("zebralogic", "zeroeval", samples="best")
    with pytest.raises(ManifestError, match="every sample needs its score"):
        grade_samples([OFF, RIGHT], GOLD, RM_BON)
