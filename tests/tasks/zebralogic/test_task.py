"""The zebralogic task: rows to items, items to prompts, replies to predictions and grades."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from layton_batch.records import Item, JsonValue, Prediction, Response
from layton_batch.states import FinishReason, PredictionKind, RequestOutcome
from layton_batch.tasks.protocol import TaskOptions
from layton_batch.tasks.zebralogic.task import PROTOCOLS, ZebraLogicSettings, ZebraLogicTask

from .grids import GRID, SOLUTION, WRONG, reply

Row = dict[str, JsonValue]
all_protocols = pytest.mark.parametrize("protocol", list(PROTOCOLS))


def row(**changes: JsonValue) -> Row:
    return {"id": "z1", "size": "3*2", "puzzle": "Three houses …\n", "solution": SOLUTION, **changes}


def task(protocol: str = "corrected", split: str = "llm", **prompts: Path) -> ZebraLogicTask:
    return ZebraLogicTask(TaskOptions(split, 0, prompts or None), ZebraLogicSettings(protocol=protocol))  # type: ignore[arg-type]


def item(**changes: JsonValue) -> Item:
    (only,) = task().items([row(**changes)])
    return only


def said(text: str | None, finish: FinishReason = FinishReason.STOP, refusal: str | None = None) -> Response:
    return Response("c1", RequestOutcome.SUCCEEDED, text, finish, refusal=refusal)


def both(protocol: str, response: Response) -> tuple[Prediction, str | None, dict[str, float]]:
    """The prediction, and tag and marks of its grade."""
    asked = task(protocol)
    prediction = asked.parse(item(), "m", response)
    grade = asked.grade(item(), prediction)
    assert (grade.item_id, grade.model, list(grade.marks)) == ("z1", "m", list(asked.metrics))
    return prediction, grade.tag, dict(grade.marks)


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


def test_the_output_limit_grows_with_the_grid() -> None:
    def limit(houses: int, attributes: int, protocol: str = "corrected") -> int:
        header: list[JsonValue] = ["House", *(f"A{place}" for place in range(attributes))]
        rows: list[JsonValue] = [[str(house), *(["v"] * attributes)] for house in range(houses)]
        return task(protocol).output_tokens(item(solution={"header": header, "rows": rows}))

    assert (limit(2, 2), limit(4, 4), limit(6, 6)) == (7_168, 16_384, 31_744)
    assert limit(6, 6, "zeroeval") == 31_744
    assert limit(6, 6, "original") == 4_096


# ---- replies -------------------------------------------------------------------------------------------------------


@all_protocols
def test_an_answer_is_parsed_and_graded(protocol: str) -> None:
    prediction, tag, marks = both(protocol, said(reply(reasoning="because")))
    assert (prediction.kind, prediction.justification, prediction.note) == (PredictionKind.ANSWERED, "because", None)
    assert json.loads(prediction.answer or "") == GRID
    assert (tag, marks) == (None, {"puzzle_accuracy": 1.0, "cell_accuracy": 1.0})
    _, tag, marks = both(protocol, said(reply(WRONG)))
    assert (tag, marks) == ("wrong_answer", {"puzzle_accuracy": 0.0, "cell_accuracy": 5 / 6})


@pytest.mark.parametrize(
    ("protocol", "tag"), [("corrected", "truncated"), ("original", "no_answer"), ("zeroeval", "no_answer")]
)
def test_a_truncated_answer_says_so(protocol: str, tag: str) -> None:
    prediction, found, marks = both(protocol, said(reply()[:-9], FinishReason.LENGTH))
    assert (prediction.kind, found, set(marks.values())) == (PredictionKind.UNPARSED, tag, {0.0})
    assert str(prediction.note).startswith("truncated at the output limit")
    grade = task(protocol).grade(item(), prediction)
    assert str(grade.note).startswith("truncated at the output limit")


def test_a_cut_reply_counts_only_if_it_is_one_whole_object() -> None:
    assert both("corrected", said(f"```json\n{reply()}\n```", FinishReason.LENGTH))[1] is None
    assert both("corrected", said(f"<think>{reply(WRONG)}</think>{reply()}", FinishReason.LENGTH))[1] is None
    for text in (f"{reply()} As a ch", f"Perhaps {reply()}", f"<think>{reply()}", f"{reply()} Correction: {{"):
        prediction, tag, _ = both("corrected", said(text, FinishReason.LENGTH))
        assert (prediction.kind, tag) == (PredictionKind.UNPARSED, "truncated"), text
    assert both("original", said(f"```\n{reply()}\n``` As a ch", FinishReason.LENGTH))[1] is None


@pytest.mark.parametrize("response", [said(None, FinishReason.REFUSAL), said("", refusal="I will not.")])
def test_a_refusal_says_so(response: Response) -> None:
    prediction, tag, _ = both("corrected", response)
    assert (prediction.kind, tag) == (PredictionKind.UNPARSED, "refused")
    assert str(prediction.note).startswith("refused")
    assert both("original", response)[1] == "no_answer"
