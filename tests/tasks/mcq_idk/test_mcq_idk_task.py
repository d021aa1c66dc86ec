"""The mcq_idk task: rows to items, and items to prompts."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_uppercase

import pytest

from layton_batch.errors import DataError
from layton_batch.records import Item, JsonValue
from layton_batch.tasks.mcq_idk.task import CORRECTED, ORIGINAL, McqIdkTask, McqSettings
from layton_batch.tasks.protocol import TaskOptions

Row = dict[str, JsonValue]
GASES = ["argon", "helium", "neon", "xenon"]
ROW: Row = {"id": "q1", "question": "Which gas?", "options": [*GASES], "answer": "neon"}
INSTRUCTION = (
    "Before answering, think about the question step by step. Answer only if you are confident, since mistakes "
    'are penalized with -1 points, while correct answers receive 1 point, and the answer E) "I don\'t know" '
    "always receives 0 points. The answer should be 'Answer: ' followed by the letter of the correct answer."
)
V2 = (
    "Question:\nWhich gas?\n\nChoices:\n{options}\nE) I don't know\n\n"
    "Before answering, think about the question step by step.\nAnswer only if you are confident, since mistakes are "
    'penalized with -1 points, while correct answers receive 1 point, and the answer E) "I don\'t know" always '
    "receives 0 points.\n\nFormat your final answer as follows:\nFinal Answer: ###C###\n\nAnswer:\n"
)


def task(protocol: str = CORRECTED, split: str = "demo", **settings: object) -> McqIdkTask:
    return McqIdkTask(TaskOptions(split), McqSettings(protocol=protocol, **settings))  # type: ignore[arg-type]


def item(row: Row, protocol: str = CORRECTED, **settings: object) -> Item:
    (only,) = task(protocol, **settings).items([row])
    return only


def shown(item: Item) -> list[str]:
    options = item.payload["options"]
    assert isinstance(options, list)
    return [str(option) for option in options]


# ---- items ---------------------------------------------------------------------------------------------------------


def test_a_row_becomes_an_item_whose_payload_keeps_what_was_shown() -> None:
    made = item(ROW)
    assert (made.id, made.split, made.question, made.answer) == ("q1", "demo", "Which gas?", "neon")
    assert sorted(shown(made)) == GASES
    assert shown(made)["ABCD".index(str(made.payload["gold"]))] == "neon"
    assert made.payload["idk_letter"] == "E"
    assert [GASES[int(str(index))] for index in made.payload["order"]] == shown(made)  # type: ignore[union-attr]
    assert json.loads(json.dumps(dict(made.payload))) == made.payload


@pytest.mark.parametrize("answer", ["neon", "C", 2])
@pytest.mark.parametrize("column", ["answer", "gold", "Gold", "answer_index"])
def test_the_right_option_is_named_by_text_letter_or_index(column: str, answer: JsonValue) -> None:
    assert item({**ROW, "answer": None, column: answer}).answer == "neon"


ARC: Row = {"question": "Which gas?", "choices": {"text": ["2", "neon"], "label": ["1", "2"]}}
IDK_EVAL: Row = {
    "question_id": 70, "question": "Which gas?", "options": [*GASES, "radon"], "answer_index": 2,
    "options_4": ["xenon", "neon", "argon", "radon"], "answer_index_4": 1, "category": "chemistry",
}  # fmt: skip
GPQA: Row = {
    "Record ID": "rec1", "Question": "Which gas?\n", "Subdomain": "chemistry", "Correct Answer": "neon\n",
    "Incorrect Answer 1": "argon", "Incorrect Answer 2": "helium", "Incorrect Answer 3": "xenon",
}  # fmt: skip
LEXAM: Row = {
    "question": "Which gas?", "choices": "['argon', \"i and ii\", 'neon']", "gold": 2, "course": "Tax Law",
    "language": "de",
}  # fmt: skip
LETTERED: Row = {"question": "Which gas?", "answer": "C", "A": "argon", "b": "helium", "C": "neon", "D": None}
PREFIXED: Row = {"question": "Which gas?", "answer": "C", "option_a": "argon", "Option B": "helium", "optionC": "neon"}


@pytest.mark.parametrize(("row", "settings", "item_id", "category", "options"), [
    *(({**ARC, column: answer}, {}, "1", "", ["2", "neon"])
      for column in ("answerKey", "expected", "target", "correct") for answer in ("2", "2 ", 2)),
    ({**ARC, "choices": {"text": ["2", "neon"], "label": ["A", "B"]}, "answerKey": "B"}, {}, "1", "", ["2", "neon"]),
    (GPQA, {}, "rec1", "chemistry", GASES), (LEXAM, {}, "1", "Tax Law", ["argon", "i and ii", "neon"]),
    (LETTERED, {}, "1", "", GASES[:3]), (PREFIXED, {}, "1", "", GASES[:3]),
    (IDK_EVAL, {}, "70", "chemistry", ["argon", "helium", "neon", "radon", "xenon"]),
    (IDK_EVAL, {"n_options": 4}, "70", "chemistry", ["argon", "neon", "radon", "xenon"]),
])  # fmt: skip
def test_the_columns_of_other_data_sets_are_read(
    row: Row, settings: dict[str, object], item_id: str, category: str, options: list[str]
) -> None:
    made = item(row, **settings)
    assert (made.id, made.question, made.category, made.answer) == (item_id, "Which gas?", category, "neon")
    assert sorted(shown(made)) == options


@pytest.mark.parametrize(("row", "settings", "reason"), [
    ({**ARC, "answerKey": "C"}, {}, "the labels are"), ({**LETTERED, "b": None}, {}, "option 2 is blank"),
    (ROW, {"n_options": 4}, "column 'options_4' is missing"),
])  # fmt: skip
def test_columns_that_do_not_fit_together_are_named(row: Row, settings: dict[str, object], reason: str) -> None:
    with pytest.raises(DataError, match=f"row 1.*{reason}"):
        item(row, **settings)


def test_a_language_can_be_the_split() -> None:
    assert len(task(split="de").items([LEXAM, {**LEXAM, "language": "en"}])) == 1


# ---- prompts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_options", [2, 3, 10, 25])
def test_the_letter_of_i_dont_know_follows_the_number_of_options(n_options: int) -> None:
    made = item({**ROW, "options": [f"option {number}" for number in range(n_options)], "answer": 0})
    (prompt,) = task().prompt(made).parts
    letter = ascii_uppercase[n_options]
    assert str(prompt).endswith(f"\n{letter}) I don't know")
    assert f'the answer {letter}) "I don\'t know" always receives 0 points' in str(prompt)


def test_the_originals_prompt_is_the_published_one_byte_for_byte() -> None:
    made = item(ROW, ORIGINAL)
    options = "".join(f"{letter}) {option}\n" for letter, option in zip("ABCD", shown(made), strict=True))
    prompt = task(ORIGINAL).prompt(made)
    query = f"Answer the following multiple choice question.\n\nWhich gas?\n\n{options}E) I don't know\n\n"
    assert prompt.parts == (INSTRUCTION + query,)
    assert (prompt.system, prompt.response_schema) == ("", None)


def test_the_present_prompts_have_the_published_bytes_for_each_of_the_benchmarks(tmp_path: Path) -> None:
    own = tmp_path / "lexam.txt"
    own.write_text("Be an expert in {course_name}.\n- {Clarify}\n", encoding="utf-8")  # nothing but the slot is filled
    named, present = {"instruction_v2": own}, McqSettings(protocol="original_v2")
    made = {
        "Answer the following multiple choice question.": McqIdkTask(TaskOptions("demo"), present),
        "Be an expert in Tax Law.\n- {Clarify}\n": McqIdkTask(TaskOptions("demo", 0, named), present),
        "": task("original_v2", instruction=False),
    }
    for instruction, mcq in made.items():
        (asked,) = mcq.items([{**ROW, "course": "Tax Law"}])
        options = "\n".join(f"{letter}) {option}" for letter, option in zip("ABCD", shown(asked), strict=True))
        assert mcq.prompt(asked).parts == (instruction + V2.format(options=options),)
        assert mcq.prompt(asked).system == ""
