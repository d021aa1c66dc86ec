"""The mcq_idk task: rows to items, items to prompts, replies to predictions and grades."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.errors import DataError
from layton_batch.records import Item, JsonValue, Response
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks.mcq_idk.task import CORRECTED, ORIGINAL, McqIdkTask, McqSettings
from layton_batch.tasks.protocol import TaskOptions

Row = dict[str, JsonValue]
INSTRUCTION = (
    "Before answering, think about the question step by step. Answer only if you are confident, since mistakes "
    'are penalized with -1 points, while correct answers receive 1 point, and the answer E) "I don\'t know" '
    "always receives 0 points. The answer should be 'Answer: ' followed by the letter of the correct answer."
)


def task(protocol: str = CORRECTED, split: str = "demo", seed: int = 0, **prompts: Path) -> McqIdkTask:
    return McqIdkTask(TaskOptions(split, 0, prompts or None), McqSettings(protocol=protocol, seed=seed))  # type: ignore[arg-type]


def row(**changes: JsonValue) -> Row:
    base: Row = {
        "id": "q1",
        "question": "Which gas?",
        "options": ["argon", "helium", "neon", "xenon"],
        "answer": "neon",
    }
    return {**base, **changes}


def item(protocol: str = CORRECTED, seed: int = 0, **changes: JsonValue) -> Item:
    (only,) = task(protocol, seed=seed).items([row(**changes)])
    return only


def shown(one: Item) -> list[str]:
    options = one.payload["options"]
    assert isinstance(options, list)
    return [str(option) for option in options]


def reply(text: str | None, **changes: object) -> Response:
    return Response("c", RequestOutcome.SUCCEEDED, text, **changes)  # type: ignore[arg-type]


# ---- items ---------------------------------------------------------------------------------------------------------


def test_a_row_becomes_an_item_whose_payload_keeps_what_was_shown() -> None:
    one = item()
    assert (one.id, one.split, one.question, one.answer) == ("q1", "demo", "Which gas?", "neon")
    assert sorted(shown(one)) == ["argon", "helium", "neon", "xenon"]
    assert shown(one)["ABCD".index(str(one.payload["gold"]))] == "neon"
    assert one.payload["idk_letter"] == "E"
    assert [["argon", "helium", "neon", "xenon"][int(str(i))] for i in one.payload["order"]] == shown(one)  # type: ignore[union-attr]
    assert json.loads(json.dumps(dict(one.payload))) == one.payload


@pytest.mark.parametrize("answer", ["neon", "C", 2])
@pytest.mark.parametrize("column", ["answer", "gold", "Gold", "answer_index"])
def test_the_right_option_is_named_by_text_letter_or_index(column: str, answer: JsonValue) -> None:
    (one,) = task().items([{**row(answer=None), column: answer}])
    assert one.answer == "neon"


@pytest.mark.parametrize("column", ["answerKey", "expected", "target", "correct"])
@pytest.mark.parametrize(("labels", "answer"), [(["1", "2"], 2), ([1, 2], "2"), (["A", "B"], "B ")])
def test_the_nested_choices_of_arc_are_read(labels: list[JsonValue], answer: JsonValue, column: str) -> None:
    nested: Row = {"question": "Which gas?", "choices": {"text": ["2", "neon"], "label": labels}, column: answer}
    (only,) = task().items([nested])
    assert (sorted(shown(only)), only.answer) == (["2", "neon"], "neon")
    numbers: Row = {**nested, "choices": {"text": [3, 1], "label": labels}}
    assert [item.answer for item in task().items([numbers])] == ["1"]
    with pytest.raises(DataError, match="the labels are"):
        task().items([{**nested, column: "C"}])


def test_the_columns_of_gpqa_are_read() -> None:
    gpqa: Row = {
        "Record ID": "rec1", "Question": "Which gas?\n", "Subdomain": "Chemistry", "Correct Answer": "neon\n",
        "Incorrect Answer 1": "argon", "Incorrect Answer 2": "helium", "Incorrect Answer 3": "xenon",
    }  # fmt: skip
    (one,) = task().items([gpqa])
    assert (one.id, one.question, one.category, one.answer) == ("rec1", "Which gas?", "Chemistry", "neon")
    assert len(shown(one)) == 4


def test_the_columns_of_lexam_are_read_and_a_language_can_be_the_split() -> None:
    lexam: Row = {
        "question": "Which statute?", "choices": "['i', 'ii', \"iii and iv\", 'none']", "gold": 2, "course": "Tax Law",
        "language": "en",
    }  # fmt: skip
    found = task(split="en").items([lexam, {**lexam, "language": "de"}])
    assert [(one.id, one.answer, one.category) for one in found] == [("1", "iii and iv", "Tax Law")]


@pytest.mark.parametrize("names", [("A", "b", "C", "D"), ("option_a", "Option B", "optionC", "option_d")])
def test_options_with_a_column_each_are_read(names: tuple[str, ...]) -> None:
    options = dict(zip(names, ["argon", "helium", "neon", None], strict=True))
    lettered: Row = {"question": "Which gas?", "answer": "C", **options}
    (one,) = task().items([lettered])
    assert (one.answer, sorted(shown(one))) == ("neon", ["argon", "helium", "neon"])
    with pytest.raises(DataError, match="option 2 is blank"):
        task().items([{**lettered, names[1]: None}])


IDK_EVAL: Row = {
    "question_id": 70,
    "question": "Which gas?",
    "options": ["argon", "helium", "neon", "xenon", "radon"],
    "answer_index": 2,
    "options_4": ["xenon", "neon", "argon", "radon"],
    "answer_index_4": 1,
    "category": "chemistry",
}


def test_the_columns_of_idk_eval_are_read_with_as_many_options_as_asked_for() -> None:
    (whole,) = task().items([IDK_EVAL])
    assert (whole.id, whole.answer, len(shown(whole))) == ("70", "neon", 5)
    four = McqIdkTask(TaskOptions("demo"), McqSettings(n_options=4))
    (one,) = four.items([IDK_EVAL])
    assert (one.id, one.answer, one.category, sorted(shown(one))) == (
        "70", "neon", "chemistry", ["argon", "neon", "radon", "xenon"],
    )  # fmt: skip
    with pytest.raises(DataError, match="row 1 .*column 'options_4' is missing"):
        four.items([row()])


V2 = (
    "Question:\nWhich gas?\n\nChoices:\n{options}\nE) I don't know\n\n"
    "Before answering, think about the question step by step.\nAnswer only if you are confident, since mistakes are "
    'penalized with -1 points, while correct answers receive 1 point, and the answer E) "I don\'t know" always '
    "receives 0 points.\n\nFormat your final answer as follows:\nFinal Answer: ###C###\n\nAnswer:\n"
)


def test_the_present_prompts_have_the_published_bytes_for_each_of_the_benchmarks(tmp_path: Path) -> None:
    own = tmp_path / "lexam.txt"
    own.write_text("Be an expert in {course_name}.\n- {Clarify}\n", encoding="utf-8")  # nothing but the slot is filled
    named = {"instruction_v2": own}
    present, bare = McqSettings(protocol="original_v2"), McqSettings(protocol="original_v2", instruction=False)
    made = {
        "Answer the following multiple choice question.": McqIdkTask(TaskOptions("demo"), present),
        "Be an expert in Tax Law.\n- {Clarify}\n": McqIdkTask(TaskOptions("demo", 0, named), present),
        "": McqIdkTask(TaskOptions("demo"), bare),
    }
    for instruction, one in made.items():
        (asked,) = one.items([row(course="Tax Law")])
        options = "\n".join(f"{letter}) {option}" for letter, option in zip("ABCD", shown(asked), strict=True))
        assert one.prompt(asked).parts == (instruction + V2.format(options=options),)
        assert one.prompt(asked).system == ""


@pytest.mark.parametrize("n_options", [2, 3, 10, 25])
def test_the_letter_of_i_dont_know_follows_the_number_of_options(n_options: int) -> None:
    one = item(options=[f"option {i}" for i in range(n_options)], answer=0)
    (prompt,) = task().prompt(one).parts
    letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n_options]
    assert isinstance(prompt, str)
    assert prompt.endswith(f"\n{letter}) I don't know")
    assert f'the answer {letter}) "I don\'t know" always receives 0 points' in prompt


# ---- prompts -------------------------------------------------------------------------------------------------------


def test_the_originals_prompt_is_the_published_one_byte_for_byte() -> None:
    one = item(ORIGINAL)
    options = "".join(f"{letter}) {option}\n" for letter, option in zip("ABCD", shown(one), strict=True))
    prompt = task(ORIGINAL).prompt(one)
    query = f"Answer the following multiple choice question.\n\nWhich gas?\n\n{options}E) I don't know\n\n"
    assert prompt.parts == (INSTRUCTION + query,)
    assert (prompt.system, prompt.response_schema) == ("", None)


# ---- replies -------------------------------------------------------------------------------------------------------

GOLD, REST = str(item().payload["gold"]), [letter for letter in "ABCD" if letter != item().payload["gold"]]


NO, WRONG = (0, -1, 0, 1), (0, -1, 0, 0)
CUT, REFUSED = {"finish_reason": FinishReason.LENGTH}, {"finish_reason": FinishReason.REFUSAL}
READ: list[tuple[Response, str, str | None, str | None, tuple[int, ...], str | None]] = [
    (reply(f"Because.\n\nAnswer: {GOLD}"), "answered", GOLD, None, (1, 1, 0, 0), None),
    (reply(f"Answer: {REST[0]}"), "answered", REST[0], None, WRONG, "wrong"),
    (reply("Answer: E"), "abstained", "E", None, (0, 0, 1, 0), "abstained"),
    *((reply(text), "unparsed", None, "no letter", NO, "no_letter")
      for text in ("It depends.", "Answer: F", "", None, "Answer: A or B")),
    (reply("The answer is", **CUT), "unparsed", None, "truncated", NO, "truncated"),
    (reply(f"Answer: {GOLD}\nfor", **CUT), "answered", GOLD, "truncated", (1, 1, 0, 0), None),
    (reply(f"Answer: {GOLD}", refusal="No."), "unparsed", None, "refused", NO, "refused"),
    (reply(f"Answer: {GOLD}", **REFUSED), "unparsed", None, "refused", NO, "refused"),
    (Response("c", RequestOutcome.EXPIRED), "missing", None, "expired", NO, "missing"),
    (Response("c", RequestOutcome.ERRORED, error_message="boom"), "missing", None, "errored: boom", NO, "missing"),
]  # fmt: skip


@pytest.mark.parametrize(("response", "kind", "answer", "note", "marks", "tag"), READ)
def test_a_reply_is_one_prediction_and_one_grade(
    response: Response, kind: str, answer: str | None, note: str | None, marks: tuple[int, ...], tag: str | None
) -> None:
    one, rules = item(), task()
    found = rules.parse(one, "m", response)
    assert (found.kind, found.answer, found.note, found.raw_text) == (kind, answer, note, response.text)
    grade = rules.grade(one, found)
    assert tuple(grade.marks[name] for name in rules.metrics) == marks
    assert (grade.item_id, grade.model, grade.tag) == ("q1", "m", tag)


def test_the_original_scores_whatever_text_there_is() -> None:
    one = item(ORIGINAL)
    for changes in ({"refusal": "No."}, {"finish_reason": FinishReason.LENGTH}, {}):
        said = task(ORIGINAL).parse(one, "m", reply(f"The answer is {one.payload['gold']}.", **changes))
        assert task(ORIGINAL).grade(one, said).marks["trad_score"] == 1
