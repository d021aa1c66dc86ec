"""The zebralogic task: rows to items, and items to prompts."""

from __future__ import annotations

import json
import re

import pytest

from layton_batch.records import Item, JsonValue
from layton_batch.tasks.protocol import TaskOptions
from layton_batch.tasks.zebralogic.protocols import PROTOCOLS
from layton_batch.tasks.zebralogic.task import ZebraLogicSettings, ZebraLogicTask

from .grids import GRID, SOLUTION

Row = dict[str, JsonValue]
all_protocols = pytest.mark.parametrize("protocol", list(PROTOCOLS))


def row(**changes: JsonValue) -> Row:
    return {"id": "z1", "size": "3*2", "puzzle": "Three houses …\n", "solution": SOLUTION, **changes}


def task(protocol: str = "corrected") -> ZebraLogicTask:
    return ZebraLogicTask(TaskOptions("llm"), ZebraLogicSettings(protocol=protocol))  # type: ignore[arg-type]


def item(**changes: JsonValue) -> Item:
    (only,) = task().items([row(**changes)])
    return only


# ---- items ---------------------------------------------------------------------------------------------------------


def test_the_published_columns_become_an_item() -> None:
    found = item()
    assert (found.id, found.split, found.category, found.question) == ("z1", "llm", "3*2", "Three houses …\n")
    assert json.loads(found.answer or "") == GRID
    assert found.payload["solution"] == SOLUTION
    assert item(solution=json.dumps(SOLUTION)) == found
    assert json.loads(json.dumps(found.payload)) == found.payload


# ---- prompts -------------------------------------------------------------------------------------------------------


def text_of(protocol: str, asked: Item | None = None) -> str:
    prompt = task(protocol).prompt(asked or item())
    assert (prompt.system, prompt.response_schema, len(prompt.parts)) == ("", None, 1)
    (text,) = prompt.parts
    assert isinstance(text, str)
    return text


@all_protocols
def test_the_prompt_shows_the_puzzle_and_no_value_of_the_solution(protocol: str) -> None:
    text = text_of(protocol)
    assert "Three houses …" in text
    assert not re.search(r"\b(Alice|milk|Carol|coffee|Bob|tea)\b", text)


def test_the_corrected_prompt_asks_for_the_whole_grid_with_its_keys() -> None:
    (form,) = re.findall(r"```json\n(.*?)\n```", text_of("corrected"), re.DOTALL)
    assert json.loads(form) == {"solution": {f"House {n}": {"Name": "___", "Drink": "___"} for n in (1, 2, 3)}}


def test_the_published_protocols_ask_as_they_did() -> None:
    original, zeroeval = text_of("original"), text_of("zeroeval")
    assert original.endswith("\n\nThree houses …")
    assert "Drink" not in original
    # As in the paper: one worked example, then the puzzle, then an empty form with the reasoning first.
    assert zeroeval.index('"House 2"') < zeroeval.index("Three houses …")
    form = json.loads(zeroeval[zeroeval.rindex('{\n    "reasoning"') :])
    assert list(form) == ["reasoning", "solution"]
    assert list(form["solution"]) == ["House 1", "House 2", "House 3"]
