"""Several samples of one puzzle, in both ways of making one answer of them."""

from __future__ import annotations

import pytest

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic.protocols import MODES, ZEROEVAL, grade_samples
from tests.tasks.offline_rows import form, report

from .grids import GOLD, GRID, SOLUTION, WRONG, reply

RIGHT, OFF = reply(reasoning="x" * 5), reply(WRONG, reasoning="x" * 3)
EMPTY = reply({}, reasoning="x" * 9)


def cells(mode: str, *texts: str) -> int | None:
    return grade_samples(texts, GOLD, mode).cells_correct


def house_1(name: JsonValue) -> str:
    """All right but for what it says is the first name."""
    return reply({**GRID, "House 1": {"Name": name, "Drink": "milk"}})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", [RIGHT, OFF, "?", reply("House 1: Alice"), reply(reasoning=None), '{"a":' * 2000])
def test_one_sample_is_graded_as_itself_in_every_mode(mode: str, text: str) -> None:
    alone = ZEROEVAL.grade(text, GOLD)
    for texts in ([text], [text, "?"], ["{}", text, '{"solution": null}']):
        found = grade_samples(texts, GOLD, mode)
        assert (found.tag, found.cells_correct) == (alone.tag, alone.cells_correct)


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


def test_what_the_script_stops_at_is_malformed() -> None:
    for texts in ([RIGHT, '{"a":' * 1000 + "1" + "}" * 1000], [reply(5), reply(5)]):
        found = grade_samples(texts, GOLD, "majority_of_n")
        assert (found.tag.value, found.cells_correct, found.cells_total) == ("malformed_output", 0, 6)
        assert found.note


def test_rows_choose_the_mode() -> None:
    row: dict[str, JsonValue] = {"id": "a", "solution": SOLUTION, "output": ["?", OFF, RIGHT, OFF]}
    solved = {mode: report(form("zebralogic", "zeroeval", samples=mode), None, [row])["score"] for mode in MODES}
    assert solved == {"best_of_n": 1.0, "majority_of_n": 0.0}
    with pytest.raises(ManifestError, match="samples 'best': there are best_of_n, majority_of_n"):
        form("zebralogic", "zeroeval", samples="best")
    with pytest.raises(DataError, match=r"prediction 1 \(item 'a'\): 4 outputs; only protocol zeroeval"):
        report(form("zebralogic", "original"), None, [row])
    assert report(form("zebralogic", "original"), None, [{**row, "output": [RIGHT]}])["score"] == 1.0
