"""What each protocol reads, compares and calls it."""

from __future__ import annotations

import json
from typing import Any

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


ENVELOPE, WRONG_ENVELOPE = reply(), reply(WRONG)
RIGHT, OFF, UNREAD, NOTHING, MALFORMED = (
    ("none", 6), ("wrong_answer", 5), ("no_answer", None), ("no_answer", 0), ("malformed_output", 0),
)  # fmt: skip
TWICE = {"House 1": {"Name": "x"}, "HOUSE   1": GRID["House 1"], **{k: GRID[k] for k in ("House 2", "House 3")}}


def named(*names: Any, column: str = "Name") -> list[str]:
    """Return replies whose first house has these names."""
    return [reply({**GRID, "House 1": {column: name, "Drink": "milk"}}) for name in names]


@pytest.mark.parametrize(("text", "found"), [
    # the first fence with houses wins, then the widest span
    (f"```json\n{WRONG_ENVELOPE}\n```\n```json\n{ENVELOPE}\n```", OFF),
    (f'```json\n{{"x": 1}}\n```\n```\n{json.dumps(GRID)}\n```', RIGHT),
    (f"{WRONG_ENVELOPE}\n```json\n{ENVELOPE}\n```", RIGHT), (f"{ENVELOPE}\n{ENVELOPE}", UNREAD),
    # what opens a fence: a stray brace after it spoils the second way to read
    *((f"{opening}{ENVELOPE}```}}", RIGHT)
      for opening in ("```json\n", "```\n", "```json \t\n\n", "````json\n", "```\u00a0\n")),
    *((f"{opening}{ENVELOPE}```}}", UNREAD) for opening in ("```JSON\n", "```python\n", "```json ", "``` json\n")),
    # a solution key hides the houses beside it
    (json.dumps({**GRID, "solution": "see above"}), UNREAD), (json.dumps({"House 9": 1, "solution": GRID}), RIGHT),
    # values are compared as Python writes them
    *((text, RIGHT) for text in named(" ALICE ", column=" name ")),
    *((text, OFF) for text in named("Alice.", "", None, ["Alice"], {"Alice": 1}, column=" name ")),
    # keys that become one count last, and rows that are none do not count
    (json.dumps(TWICE), RIGHT), (json.dumps({**GRID, "house 1": "Alice"}), RIGHT),
    (json.dumps({**GRID, "House 2": None}), ("wrong_answer", 4)),
    # JSON is strict
    (f'{{"reasoning": "a\nb", "solution": {json.dumps(GRID)}}}', UNREAD), ('{"a": 1,}', UNREAD), ('{"a": 01}', UNREAD),
])  # fmt: skip
def test_the_original_reads_as_published(text: str, found: tuple[str, int | None]) -> None:
    assert outcome("original", text) == found


@pytest.mark.parametrize(("text", "found"), [
    # the last complete group counts, even if it is rubbish
    (f"{WRONG_ENVELOPE} {ENVELOPE}", RIGHT), (f"{ENVELOPE} {{rubbish}}", NOTHING), (f"{{ {ENVELOPE}", NOTHING),
    (f"}} {ENVELOPE}", RIGHT),
    # line breaks in strings pass, braces and tabs do not
    (reply(reasoning="a").replace('"a"', '"a\nb"'), RIGHT), (reply(reasoning="a").replace('"a"', '"a\tb"'), NOTHING),
    (reply(reasoning="a } b"), NOTHING),
    # it needs the envelope, the exact keys, and a reasoning that has a length
    (json.dumps(GRID), NOTHING), (reply({key.lower(): row for key, row in GRID.items()}), ("wrong_answer", 0)),
    (reply(reasoning=None), MALFORMED),
    *((text, RIGHT) for text in named(" ALICE ", ["Alice", "x"])),
    *((text, OFF) for text in named(None, "", [], {})),
    *((text, MALFORMED) for text in named(1, True, {"a": 1}, [1])),
    # what Python can look into is wrong, the rest malformed
    (reply("House 1: Alice"), MALFORMED), (reply(5), MALFORMED), (reply(["House 1"]), MALFORMED),
    (reply({**GRID, "House 2": None}), MALFORMED), (reply({**GRID, "House 2": "Name: Carol"}), MALFORMED),
    (reply("unsolvable"), ("wrong_answer", 0)), (reply([]), ("wrong_answer", 0)),
    (reply({**GRID, "House 2": "Carol, coffee"}), ("wrong_answer", 4)),
])  # fmt: skip
def test_zeroeval_reads_as_published(text: str, found: tuple[str, int]) -> None:
    assert outcome("zeroeval", text) == found


@pytest.mark.parametrize(("text", "found"), [
    *((text, RIGHT) for text in (  # the last grid that is plainly there
        f"{WRONG_ENVELOPE}\nCorrection:\n{ENVELOPE}", f"```json\n{WRONG_ENVELOPE}\n```\nFinal: {json.dumps(GRID)}",
        f"<think>{WRONG_ENVELOPE}</think> Let x ∈ {{1, 2}} and \\frac{{a}}{{b}}. {ENVELOPE} $\\boxed{{done}}$ :-}}",
        f"{WRONG_ENVELOPE}, I think.</think>{ENVELOPE}", reply(reasoning="a").replace('"a"', '"a\n\t} {"'),
        json.dumps({**GRID, "solution": "see above"}), json.dumps({"House reasoning": "x", "solution": GRID}),
        reply({"house 1": GRID["House 1"], "House  2": GRID["House 2"], " HOUSE 3": GRID["House 3"]}),
        reply({**GRID, "House 1": {"name": "ALICE", " Drink": " Milk "}}), f'He said "{{" and then {ENVELOPE}',
        f'{{"reasoning": "\\( x \\)", "solution": {json.dumps(GRID)}}}', ENVELOPE + " {" * 100,
    )),
    *((text, OFF) for text in named(1, None, [], {}, True, "", "Alice.")),
    # it repairs nothing and reads no thought
    *((text, NOTHING) for text in (ENVELOPE.replace("}}}", "},}}"), ENVELOPE[:-20], f"<think>{ENVELOPE}")),
])  # fmt: skip
def test_corrected_reads_the_last_grid_that_is_plainly_there(text: str, found: tuple[str, int]) -> None:
    assert outcome("corrected", text) == found


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
