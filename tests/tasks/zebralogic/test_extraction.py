"""What each protocol reads, compares and calls it."""

from __future__ import annotations

import json

import pytest

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic.protocols import INFRASTRUCTURE, PROTOCOLS, Tag, gold_from, infrastructure_tag

from .grids import GRID, WRONG, grade, outcome, reply

all_protocols = pytest.mark.parametrize("protocol", list(PROTOCOLS))


@all_protocols
def test_a_right_grid_passes_and_a_wrong_cell_is_named(protocol: str) -> None:
    assert outcome(protocol, reply()) == ("none", 6)
    wrong = grade(protocol, reply(WRONG))
    assert (wrong.tag, wrong.cells_correct, wrong.score) == (Tag.WRONG_ANSWER, 5, 0.0)
    assert wrong.wrong_cells == ("house 1:Name",)
    assert wrong.cell_accuracy == 5 / 6


@all_protocols
@pytest.mark.parametrize(
    "text", ["", "Alice lives in house 1.", "{", "}", "{}", "[]", "null", '{"solution": null}', "```"]
)
def test_a_text_without_a_grid_is_no_answer(protocol: str, text: str) -> None:
    found = grade(protocol, text)
    assert (found.tag, found.score) == (Tag.NO_ANSWER, 0.0)
    assert found.note


# ---- original ------------------------------------------------------------------------------------------------------


def test_original_the_first_fence_with_houses_wins_then_the_widest_span() -> None:
    assert outcome("original", f"```json\n{reply(WRONG)}\n```\n```json\n{reply()}\n```") == ("wrong_answer", 5)
    assert outcome("original", f'```json\n{{"x": 1}}\n```\n```\n{json.dumps(GRID)}\n```') == ("none", 6)
    assert outcome("original", f"{reply(WRONG)}\n```json\n{reply()}\n```") == ("none", 6)
    assert outcome("original", f"{reply()}\n{reply()}") == ("no_answer", None)


@pytest.mark.parametrize(
    ("opening", "is_fence"),
    [("```json\n", True), ("```\n", True), ("```json \t\n\n", True), ("```JSON\n", False), ("```python\n", False),
     ("```json ", False), ("``` json\n", False), ("````json\n", True), ("```\u00a0\n", True)],
)  # fmt: skip
def test_original_what_opens_a_fence(opening: str, is_fence: bool) -> None:
    # A stray brace after the fence spoils the second way to read, so the fence decides.
    assert (outcome("original", f"{opening}{reply()}```}}")[0] == "none") is is_fence


def test_original_a_solution_key_hides_the_houses_beside_it() -> None:
    assert outcome("original", json.dumps({**GRID, "solution": "see above"})) == ("no_answer", None)
    assert outcome("original", json.dumps({"House 9": 1, "solution": GRID})) == ("none", 6)


@pytest.mark.parametrize(
    ("value", "right"),
    [(" ALICE ", True), ("Alice.", False), ("", False), (None, False), (["Alice"], False), ({"Alice": 1}, False)],
)
def test_original_values_are_compared_as_python_writes_them(value: JsonValue, right: bool) -> None:
    found = outcome("original", reply({**GRID, "House 1": {" name ": value, "Drink": "milk"}}))
    assert found == (("none", 6) if right else ("wrong_answer", 5))


def test_original_keys_that_become_one_count_last_and_rows_that_are_none_do_not_count() -> None:
    twice = {"House 1": {"Name": "x"}, "HOUSE   1": GRID["House 1"], **{k: GRID[k] for k in ("House 2", "House 3")}}
    assert outcome("original", json.dumps(twice)) == ("none", 6)
    assert outcome("original", json.dumps({**GRID, "house 1": "Alice"})) == ("none", 6)
    assert outcome("original", json.dumps({**GRID, "House 2": None})) == ("wrong_answer", 4)


@pytest.mark.parametrize("text", ['{"reasoning": "a\nb", "solution": {}}', '{"a": 1,}', "{'a': 1}", '{"a": 01}'])
def test_original_json_is_strict(text: str) -> None:
    assert outcome("original", text.replace("{}", json.dumps(GRID))) == ("no_answer", None)


# ---- zeroeval ------------------------------------------------------------------------------------------------------


def test_zeroeval_the_last_complete_group_counts_even_if_it_is_rubbish() -> None:
    assert outcome("zeroeval", f"{reply(WRONG)} {reply()}") == ("none", 6)
    assert outcome("zeroeval", f"{reply()} {{rubbish}}") == ("no_answer", 0)
    assert outcome("zeroeval", f"{{ {reply()}") == ("no_answer", 0)
    assert outcome("zeroeval", f"}} {reply()}") == ("none", 6)


def test_zeroeval_line_breaks_in_strings_pass_but_braces_and_tabs_do_not() -> None:
    assert outcome("zeroeval", reply(reasoning="a").replace('"a"', '"a\nb"')) == ("none", 6)
    assert outcome("zeroeval", reply(reasoning="a").replace('"a"', '"a\tb"')) == ("no_answer", 0)
    assert outcome("zeroeval", reply(reasoning="a } b")) == ("no_answer", 0)


def test_zeroeval_needs_the_envelope_and_exact_keys() -> None:
    assert outcome("zeroeval", json.dumps(GRID)) == ("no_answer", 0)
    assert outcome("zeroeval", reply({key.lower(): row for key, row in GRID.items()})) == ("wrong_answer", 0)


@pytest.mark.parametrize(
    ("value", "found"),
    [(" ALICE ", ("none", 6)), (None, ("wrong_answer", 5)), ("", ("wrong_answer", 5)), ([], ("wrong_answer", 5)),
     (["Alice", "x"], ("none", 6)), ({}, ("wrong_answer", 5)), (1, ("malformed_output", 0)),
     (True, ("malformed_output", 0)), ({"a": 1}, ("malformed_output", 0)), ([1], ("malformed_output", 0))],
)  # fmt: skip
def test_zeroeval_values(value: JsonValue, found: tuple[str, int]) -> None:
    assert outcome("zeroeval", reply({**GRID, "House 1": {"Name": value, "Drink": "milk"}})) == found


@pytest.mark.parametrize(
    ("grid", "tag"),
    [("House 1: Alice", "malformed_output"), ("unsolvable", "wrong_answer"), (5, "malformed_output"),
     (["House 1"], "malformed_output"), ([], "wrong_answer"), ({**GRID, "House 2": None}, "malformed_output"),
     ({**GRID, "House 2": "Carol, coffee"}, "wrong_answer"), ({**GRID, "House 2": "Name: Carol"}, "malformed_output")],
)  # fmt: skip
def test_zeroeval_what_python_can_look_into_is_wrong_and_the_rest_malformed(grid: JsonValue, tag: str) -> None:
    assert outcome("zeroeval", reply(grid))[0] == tag


def test_zeroeval_reasoning_has_a_length_or_the_script_stops() -> None:
    assert grade("zeroeval", reply(reasoning="four")).reasoning_chars == 4
    assert grade("zeroeval", reply()).reasoning_chars == 0
    assert outcome("zeroeval", reply(reasoning=None))[0] == "malformed_output"


# ---- corrected -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"{reply(WRONG)}\nCorrection:\n{reply()}",
        f"```json\n{reply(WRONG)}\n```\nFinal: {json.dumps(GRID)}",
        f"<think>{reply(WRONG)}</think> Let x ∈ {{1, 2}} and \\frac{{a}}{{b}}. {reply()} $\\boxed{{done}}$ :-}}",
        f"{reply(WRONG)}, I think.</think>{reply()}",
        reply(reasoning="a").replace('"a"', '"a\n\t} {"'),
        json.dumps({**GRID, "solution": "see above"}),
        json.dumps({"House reasoning": "x", "solution": GRID}),
        reply({"house 1": GRID["House 1"], "House  2": GRID["House 2"], " HOUSE 3": GRID["House 3"]}),
        reply({**GRID, "House 1": {"name": "ALICE", " Drink": " Milk "}}),
        f'He said "{{" and then {reply()}',
        f'{{"reasoning": "\\( x \\)", "solution": {json.dumps(GRID)}}}',
        f"{reply()}" + " {" * 100,
    ],
)
def test_corrected_reads_the_last_grid_that_is_plainly_there(text: str) -> None:
    assert outcome("corrected", text) == ("none", 6)


@pytest.mark.parametrize("value", [1, None, [], {}, True, "", "Alice."])
def test_corrected_counts_only_the_value_itself(value: JsonValue) -> None:
    found = outcome("corrected", reply({**GRID, "House 1": {"Name": value, "Drink": "milk"}}))
    assert found == ("wrong_answer", 5)


@pytest.mark.parametrize("text", [reply().replace("}}}", "},}}"), reply()[:-20], f"<think>{reply()}"])
def test_corrected_repairs_nothing_and_reads_no_thought(text: str) -> None:
    found = grade("corrected", text)
    assert (found.tag, found.cells_correct, found.cells_total) == (Tag.NO_ANSWER, 0, 6)


def test_corrected_counts_houses_from_1_whatever_the_right_grid_calls_them() -> None:
    gold = gold_from({"header": ["House", "Name"], "rows": [["A", "Alice"], ["B", "Bob"]]}, "x")
    text = reply({"House 1": {"Name": "Alice"}, "House 2": {"Name": "Bob"}})
    assert PROTOCOLS["corrected"].grade(text, gold).score == 1.0


# ---- all -----------------------------------------------------------------------------------------------------------


def test_who_is_to_blame_for_an_exception_goes_by_its_name() -> None:
    adapters = ["APITimeoutError", "ConnectionError: lost", "HTTPStatusError", "CapitalizationError"]
    assert {infrastructure_tag(name) for name in adapters} == {Tag.ADAPTER_ERROR}
    harness = ["OSError", "BrokenPipeError", "RemoteProtocolError", "KeyError: 'http'"]
    assert {infrastructure_tag(name) for name in harness} == {Tag.HARNESS_ERROR}
    assert {Tag.ADAPTER_ERROR, Tag.HARNESS_ERROR} == INFRASTRUCTURE


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        (5, "must be .*Expected `object`"),
        ("{", "must be .*also as JSON text"),
        ("[" * 100_000, "must be .*also as JSON text"),
        ({}, "missing required field `header`"),
        ({"header": ["House", "a"], "rows": []}, r"length >= 1 - at `\$.rows`"),
        ({"header": ["House", "a"], "rows": [["1"]]}, "with a value for each attribute in each row"),
        ({"header": ["House"], "rows": [["1"]]}, r"length >= 2 - at `\$.header`"),
        ({"header": ["Name", "a"], "rows": [["1", "x"]]}, "must be .*House"),
        ({"header": ["House", "a"], "rows": [["1", None]]}, r"got `null` - at `\$.rows"),
        ({"header": ["House", "a"], "rows": [["1", "___"]]}, "blanked out.*gated.*ask for access.*HF_TOKEN"),
    ],
)
def test_a_solution_that_is_none_says_why(solution: JsonValue, reason: str) -> None:
    with pytest.raises(DataError, match=f"^item 'x': .*{reason}"):
        gold_from(solution, "item 'x'")
