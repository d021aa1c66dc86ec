"""Questions of one's own: columns, what models and judges are shown, and what their replies say."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sources import RowLocation, Rows
from layton_batch.records import Image, Item, JsonValue, Prediction, Prompt, Response
from layton_batch.states import PredictionKind, RequestOutcome
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
    row["images"] += [{"bytes": None, "path": "cat.PNG"}, {"bytes": BASE64, "path": "x.png"}]  # type: ignore[operator]
    (only,) = task().items(Rows((row,), (RowLocation(str(tmp_path / "quiz.jsonl"), 1),)))
    assert only.images == task().prompt(only).parts[1:] == (PICTURE,) * 5
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


@pytest.mark.parametrize("column", ["answer", "reference", "expected", "Target"])
def test_what_is_right_is_found_under_its_usual_names(column: str) -> None:
    assert [item.answer for item in items({"question": "Why?", "answer": " ", column: "So."})] == ["So."]
    assert [item.answer for item in items({"question": "Why?", "target": ["So."], "correct": True})] == [None]


@pytest.mark.parametrize("justification", [False, True])
def test_judges_are_asked_why_before_they_decide_where_the_manifest_asks_for_reasons(*, justification: bool) -> None:
    mine = QaTask(TaskOptions("llm", reasons=True), QaSettings(justification=justification))
    (only,) = mine.items([{"question": "Why?", "answer": "So."}])
    prompt = mine.judge_prompt(Candidate(only, Prediction("1", "m", PredictionKind.ANSWERED, "Such.", "As.")))
    assert prompt.response_schema is not None
    properties = prompt.response_schema.schema["properties"]
    fields = ["is_answer_correct", "is_justification_correct"][: 1 + justification]
    assert list(properties) == ["reason", *fields]  # type: ignore[call-overload, arg-type]
    marks = ", ".join(f'"{field}": true' for field in fields)
    reply = Response("r", RequestOutcome.SUCCEEDED, f'{{"reason": "<b>is_answer_correct: false</b>", {marks}}}')
    verdict = mine.parse_verdict("1", "m", "judge", reply)
    assert (verdict.is_answer_correct, verdict.reason) == (True, "<b>is_answer_correct: false</b>")
    assert task(justification=justification).parse_verdict("1", "m", "judge", reply).reason is None


def test_a_prompt_of_ones_own_asks_for_the_reason_too(tmp_path: Path) -> None:
    own = tmp_path / "judge.txt"
    own.write_text("Judge it.{% if with_justification %}{% endif %}")
    with pytest.raises(ManifestError, match=r"must use .*with_reason"):
        QaTask(TaskOptions("llm", prompts={"judge_system": own}, reasons=True))
    own.write_text("Judge it{% if with_reason %}, and say why{% endif %}.")
    QaTask(TaskOptions("llm", prompts={"judge_system": own}, reasons=True))
