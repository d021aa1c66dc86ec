"""Questions of one's own: columns, what models and judges are shown, and what their replies say."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from layton_batch.errors import DataError
from layton_batch.files.sources import RowLocation, Rows
from layton_batch.records import Image, Item, JsonValue, Prediction, Prompt
from layton_batch.states import PredictionKind
from layton_batch.tasks.protocol import Candidate, TaskOptions
from layton_batch.tasks.qa import QaSettings, QaTask

PNG = b"\x89PNG\r\n\x1a\n...."
BASE64 = base64.b64encode(PNG).decode()
PICTURE = Image("image/png", BASE64)
Row = dict[str, JsonValue]


def task(*, justification: bool = False, split: str = "llm") -> QaTask:
    return QaTask(TaskOptions(split), QaSettings(justification=justification))


def items(*rows: Row) -> list[Item]:
    return list(task().items(rows))


def text(prompt: Prompt) -> str:
    return "\n".join([prompt.system, *(part for part in prompt.parts if isinstance(part, str))])


def test_a_question_alone_is_an_item_called_by_its_row() -> None:
    first, second = items({"question": "Why?"}, {" Question ": "How?", "ANSWER": 7, "id": 9, "category": "c"})
    assert (first.id, first.question, first.answer, first.category, first.images) == ("1", "Why?", None, "", ())
    assert (second.id, second.question, second.answer, second.category) == ("9", "How?", "7", "c")


def test_pictures_are_base64_or_files_beside_the_items_file(tmp_path: Path) -> None:
    (tmp_path / "cat.PNG").write_bytes(PNG)
    row: Row = {"question": "What is it?", "images": ["cat.PNG", BASE64, f"data:image/png;base64,{BASE64}"]}
    (only,) = task().items(Rows((row,), (RowLocation(str(tmp_path / "quiz.jsonl"), 1),)))
    assert only.images == (PICTURE,) * 3
    assert task().prompt(only).parts[1:] == (PICTURE,) * 3
    assert "picture" in task().prompt(only).system
    with pytest.raises(DataError, match=r"'images': picture '../cat.png' is not a plain path"):
        task().items(Rows(({**row, "images": "../cat.png"},), (RowLocation(str(tmp_path / "quiz.jsonl"), 1),)))


@pytest.mark.parametrize(
    ("justification", "asked", "judged", "metrics"),
    [
        (False, ["answer"], ["is_answer_correct"], ("answer_correct",)),
        (
            True,
            ["justification", "answer"],
            ["is_answer_correct", "is_justification_correct"],
            ("both_correct", "answer_correct", "justification_correct"),
        ),
    ],
)
def test_a_justification_is_asked_for_and_judged_only_on_demand(
    justification: bool, asked: list[str], judged: list[str], metrics: tuple[str, ...]
) -> None:
    mine = task(justification=justification)
    (only,) = mine.items([{"question": "Why?", "answer": "So."}])
    said = Prediction("1", "m", PredictionKind.ANSWERED, "Such.", "It follows.")
    prompts = mine.prompt(only), mine.judge_prompt(Candidate(only, said))
    schemas = [prompt.response_schema.schema for prompt in prompts if prompt.response_schema]
    assert [list(schema["properties"]) for schema in schemas] == [asked, judged]  # type: ignore[call-overload, arg-type]
    assert tuple(mine.metrics) == metrics
    assert all(("ustification" in text(prompt)) is justification for prompt in prompts)
    assert ("It follows." in text(prompts[1])) is justification
    assert "So." not in text(prompts[0])
    assert "So." in text(prompts[1])
