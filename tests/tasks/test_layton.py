"""The layton task: rows to items, items to prompts, replies to predictions and verdicts."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.records import Image, Item, JsonValue, Prediction, Prompt
from layton_batch.states import PredictionKind
from layton_batch.tasks.layton import LaytonTask
from layton_batch.tasks.protocol import Candidate, TaskOptions

JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(60)).decode()
Row = dict[str, JsonValue]


def row(**changes: JsonValue) -> Row:
    base: Row = {
        "id": "001", "split": "llm", "category": "Write Answer", "description": "How many?\n",
        "first_hint": "H-one", "second_hint": "H-two", "third_hint": None, "special_hint": "H-special",
        "solution": "It is seven.", "answer": "7", "justification": "Count them.",
    }  # fmt: skip
    return {**base, **changes}


def task(split: str = "llm", hints: int = 0, **prompts: Path) -> LaytonTask:
    return LaytonTask(TaskOptions(split, hints, prompts or None))


def item(**changes: JsonValue) -> Item:
    split = "vlm" if "img" in changes else "llm"
    (only,) = task(split).items([row(split=split, **changes)])
    return only


def text(prompt: Prompt) -> str:
    return "\n".join(part for part in prompt.parts if isinstance(part, str))


# ---- items ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, "", " \n"])
def test_a_missing_reference_falls_back_on_the_solution_and_back(nothing: str | None) -> None:
    found = item(answer=nothing, justification=nothing)
    assert (found.answer, found.justification) == ("It is seven.", "It is seven.")
    assert item(solution=nothing).solution == "Count them."
    found = item(answer=nothing, justification=nothing, solution=nothing)
    assert (found.answer, found.justification, found.solution) == (None, None, None)


# ---- prompts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "shown"),
    [(0, []), (1, ["H-one"]), (2, ["H-one", "H-two"]), (3, ["H-one", "H-two"]), (4, ["H-one", "H-two", "H-special"])],
)
def test_hint_levels_add_up_as_far_as_the_item_has_them(level: int, shown: list[str]) -> None:
    prompt = text(task(hints=level).prompt(item()))
    assert [hint for hint in ("H-one", "H-two", "H-special") if hint in prompt] == shown


def test_a_participant_sees_question_image_hints_in_this_order_and_no_reference() -> None:
    prompt = task("vlm", hints=1).prompt(item(img=JPEG))
    question, image, hints = prompt.parts
    assert isinstance(question, str)
    assert isinstance(hints, str)
    assert "How many?" in question
    assert image == Image("image/jpeg", JPEG)
    assert "H-one" in hints
    assert not any(secret in text(prompt) + prompt.system for secret in ("seven", "Count them."))
    assert "picture" in prompt.system
    assert "picture" not in task().prompt(item()).system
    assert len(task("vlm").prompt(item(img=JPEG)).parts) == 2


@pytest.mark.parametrize("changes", [{}, {"img": JPEG}], ids=["text", "picture"])
def test_a_judges_prompts_about_an_item_differ_from_the_submission_on(changes: dict[str, str]) -> None:
    """Providers cache what prompts begin with: instructions, item and reference, whoever is judged."""
    shown = item(**changes)
    first, second = (
        task(shown.split).judge_prompt(
            Candidate(shown, Prediction(shown.id, "m", PredictionKind.ANSWERED, answer, "w"))
        )
        for answer in ("first words", "other words")
    )
    assert (first.system, first.parts[:-1]) == (second.system, second.parts[:-1])
    common, words, _ = str(first.parts[-1]).partition("first words")
    assert words
    assert str(second.parts[-1]).startswith(f"{common}other words")
    for reference in ("It is seven.", "Count them.", "H-special"):
        assert reference in common


def test_a_judge_sees_everything_whatever_the_participant_saw() -> None:
    said = Prediction("001", "m", PredictionKind.ANSWERED, "about 7", "I counted")
    prompt = task("vlm", hints=0).judge_prompt(Candidate(item(img=JPEG), said))
    seen = text(prompt)
    wanted = [
        "How many?",
        "H-one",
        "H-two",
        "H-special",
        "\n7\n",
        "It is seven.",
        "Count them.",
        '"about 7"',
        '"I counted"',
    ]
    assert [seen.find(part) for part in wanted] == sorted(seen.find(part) for part in wanted)
    assert -1 not in [seen.find(part) for part in wanted]
    assert prompt.parts[1] == Image("image/jpeg", JPEG)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("participant_question", b"no slot", r"must use \{\{ question \}\}"),
        ("participant_question", b"{{ question }} {{ solution }}", "uses solution"),
        ("participant_question", b"{{ question ", "line 1: "),
        ("participant_question", b"\xff", "is not UTF-8"),
        ("participant_question", b"{{ question.__class__.__mro__ }}{{ question }}", "participant_question .* fails"),
        ("participant_qestion", b"", "did you mean 'participant_question'"),
    ],
)
def test_a_prompt_file_that_cannot_work_is_refused_at_once(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    with pytest.raises(ManifestError, match=reason):
        task(**{name: path}).prompt(item())
