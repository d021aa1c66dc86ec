"""The mcq_idk task: rows to items, items to prompts, replies to predictions and grades."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.errors import DataError, LaytonBatchError, ManifestError
from layton_batch.records import Item, JsonValue, Prediction, Response
from layton_batch.states import FinishReason, PredictionKind, RequestOutcome
from layton_batch.tasks.mcq_idk import CORRECTED, ORIGINAL, ORIGINAL_V2, McqIdkTask
from layton_batch.tasks.protocol import Task, TaskOptions, juried

Row = dict[str, JsonValue]
INSTRUCTION = (
    "Before answering, think about the question step by step. Answer only if you are confident, since mistakes "
    'are penalized with -1 points, while correct answers receive 1 point, and the answer E) "I don\'t know" '
    "always receives 0 points. The answer should be 'Answer: ' followed by the letter of the correct answer."
)


def task(protocol: str = CORRECTED, split: str = "demo", seed: int = 0, **prompts: Path) -> McqIdkTask:
    return McqIdkTask(TaskOptions(split, 0, prompts or None), protocol, seed)


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


def test_the_order_follows_the_seed_and_the_item_not_its_neighbours() -> None:
    rows = [row(id=f"q{i}") for i in range(20)]
    together = [shown(one) for one in task().items(rows)]
    assert together == [shown(task().items([one])[0]) for one in rows]
    assert together != [shown(one) for one in task(seed=1).items(rows)]
    assert len({tuple(order) for order in together}) > 5


@pytest.mark.parametrize("answer", ["neon", "C", 2])
@pytest.mark.parametrize("column", ["answer", "gold", "Gold", "answer_index"])
def test_the_right_option_is_named_by_text_letter_or_index(column: str, answer: JsonValue) -> None:
    (one,) = task().items([{**row(answer=None), column: answer}])
    assert one.answer == "neon"


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
    four = McqIdkTask(TaskOptions("demo"), n_options=4)
    (one,) = four.items([IDK_EVAL])
    assert (one.id, one.answer, one.category, sorted(shown(one))) == (
        "70", "neon", "chemistry", ["argon", "neon", "radon", "xenon"],
    )  # fmt: skip
    with pytest.raises(DataError, match="row 1: column 'options_4' is missing; n_options in"):
        four.items([row()])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"n_options": 1}, "n_options 1: a whole number from 2 to 25"),
        ({"n_options": "4"}, "n_options '4'"),
        ({"instruction": False}, "instruction = false is for protocol 'original_v2'"),
    ],
)
def test_settings_that_do_not_fit_are_told(settings: dict[str, JsonValue], reason: str) -> None:
    with pytest.raises(ManifestError) as caught:
        McqIdkTask(TaskOptions("demo"), **settings)  # type: ignore[arg-type]
    assert reason in str(caught.value)


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
    made = {
        "Answer the following multiple choice question.": McqIdkTask(TaskOptions("demo"), ORIGINAL_V2),
        "Be an expert in Tax Law.\n- {Clarify}\n": McqIdkTask(TaskOptions("demo", 0, named), ORIGINAL_V2),
        "": McqIdkTask(TaskOptions("demo"), ORIGINAL_V2, instruction=False),
    }
    for instruction, one in made.items():
        (asked,) = one.items([row(course="Tax Law")])
        options = "\n".join(f"{letter}) {option}" for letter, option in zip("ABCD", shown(asked), strict=True))
        assert one.prompt(asked).parts == (instruction + V2.format(options=options),)
        assert one.prompt(asked).system == ""


def test_the_present_prompts_are_read_and_scored_as_published() -> None:
    two = task(ORIGINAL_V2)
    (asked,) = two.items([row()])
    gold = str(asked.payload["gold"])
    for text, kind in ((f"Final Answer: ###{gold}###", PredictionKind.ANSWERED), ("###E###", PredictionKind.ABSTAINED)):
        prediction = two.parse(asked, "m", reply(text))
        assert prediction.kind is kind
        assert two.grade(asked, prediction).marks == task(ORIGINAL).grade(asked, prediction).marks


def test_rows_of_another_split_are_passed_over() -> None:
    assert [one.id for one in task().items([row(split="demo"), row(id="q2", split="test"), row(id="q3")])] == [
        "q1",
        "q3",
    ]


@pytest.mark.parametrize("n_options", [2, 3, 10, 25])
def test_the_letter_of_i_dont_know_follows_the_number_of_options(n_options: int) -> None:
    one = item(options=[f"option {i}" for i in range(n_options)], answer=0)
    (prompt,) = task().prompt(one).parts
    letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[n_options]
    assert isinstance(prompt, str)
    assert prompt.endswith(f"\n{letter}) I don't know")
    assert f'the answer {letter}) "I don\'t know" always receives 0 points' in prompt


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question": " "}, "column 'question' is missing or blank"),
        ({"question": 7}, "column 'question' must be text"),
        ({"options": None}, "no column 'options'"),
        ({"options": ["only"]}, "1 options; there must be 2 to 25"),
        ({"options": [str(i) for i in range(26)]}, "26 options"),
        ({"options": ["a", " "]}, "option 2 is blank"),
        ({"options": ["a", None]}, "option 2 must be text"),
        ({"options": {"a": 1}}, "must be a list of options"),
        ({"options": "no list"}, "is text that is not a list"),
        ({"options": "[" * 5_000}, "is text that is not a list"),
        ({"answer": None}, "which option is right"),
        ({"answer": "krypton"}, "column 'answer' is 'krypton'"),
        ({"answer": 4}, "column 'answer' is '4'"),
        ({"answer": True}, "column 'answer' is 'True'"),
    ],
)
def test_a_row_that_is_no_item_is_named_with_what_is_wrong(changes: Row, message: str) -> None:
    with pytest.raises(DataError, match=r"row 2 \(item 'q2'\)") as caught:
        task().items([row(), row(id="q2", **changes)])
    assert message in str(caught.value)


# ---- prompts -------------------------------------------------------------------------------------------------------


def test_the_originals_prompt_is_the_published_one_byte_for_byte() -> None:
    one = item(ORIGINAL)
    options = "".join(f"{letter}) {option}\n" for letter, option in zip("ABCD", shown(one), strict=True))
    prompt = task(ORIGINAL).prompt(one)
    query = f"Answer the following multiple choice question.\n\nWhich gas?\n\n{options}E) I don't know\n\n"
    assert prompt.parts == (INSTRUCTION + query,)
    assert (prompt.system, prompt.response_schema) == ("", None)


def test_the_corrected_prompt_says_the_same_with_a_blank_line_after_the_instruction() -> None:
    (text,) = task().prompt(item()).parts
    (original,) = task(ORIGINAL).prompt(item()).parts
    assert isinstance(text, str)
    assert isinstance(original, str)
    assert text.startswith(INSTRUCTION + "\n\nAnswer the following")
    assert "".join(text.split()) == "".join(original.split())


def test_a_question_is_shown_as_it_is_even_if_it_looks_like_a_template() -> None:
    (text,) = task().prompt(item(question="{{ 7 * 7 }} {% raw %}\nAnswer: B")).parts
    assert "{{ 7 * 7 }} {% raw %}\nAnswer: B" in str(text)


def test_a_manifest_can_put_its_own_words_in_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("{{ question }}\n{{ options }}\nEnd with ###C###, or ###{{ idk_letter }}### if unsure.")
    (text,) = task(corrected=path).prompt(item()).parts
    assert str(text).endswith("End with ###C###, or ###E### if unsure.")


# ---- replies -------------------------------------------------------------------------------------------------------

GOLD, REST = str(item().payload["gold"]), [letter for letter in "ABCD" if letter != item().payload["gold"]]


@pytest.mark.parametrize(
    ("response", "kind", "answer", "note"),
    [
        (reply(f"Because.\n\nAnswer: {GOLD}"), PredictionKind.ANSWERED, GOLD, None),
        (reply("Answer: E"), PredictionKind.ABSTAINED, "E", None),
        (reply("I don't know."), PredictionKind.ABSTAINED, "E", None),
        (reply("It depends."), PredictionKind.UNPARSED, None, "no letter"),
        (reply("Answer: F"), PredictionKind.UNPARSED, None, "no letter"),
        (reply(""), PredictionKind.UNPARSED, None, "no letter"),
        (reply(None), PredictionKind.UNPARSED, None, "no letter"),
        (reply("Answer: A or B"), PredictionKind.UNPARSED, None, "names several letters"),
        (reply("B is", finish_reason=FinishReason.LENGTH), PredictionKind.UNPARSED, None, "truncated"),
        (reply("Answer: B", finish_reason=FinishReason.LENGTH), PredictionKind.ANSWERED, "B", "truncated"),
        (reply("Answer: B", refusal="No."), PredictionKind.UNPARSED, None, "refused"),
        (Response("c", RequestOutcome.EXPIRED), PredictionKind.MISSING, None, "expired"),
        (Response("c", RequestOutcome.MISSING), PredictionKind.MISSING, None, "missing"),
    ],
)
def test_a_reply_becomes_a_prediction(
    response: Response, kind: PredictionKind, answer: str | None, note: str | None
) -> None:
    found = task().parse(item(), "m", response)
    assert (found.kind, found.answer, found.note, found.raw_text) == (kind, answer, note, response.text)


@pytest.mark.parametrize(
    ("response", "marks", "tag"),
    [
        (reply(f"Answer: {GOLD}"), (1, 1, 0, 0), None),
        (reply(f"Answer: {REST[0]}"), (0, -1, 0, 0), "wrong"),
        (reply("Answer: E"), (0, 0, 1, 0), "abstained"),
        (reply("Hm."), (0, -1, 0, 1), "no_letter"),
        (reply("Perhaps the answer is", finish_reason=FinishReason.LENGTH), (0, -1, 0, 1), "truncated"),
        (reply(f"The answer is {GOLD}.", finish_reason=FinishReason.LENGTH), (0, -1, 0, 1), "truncated"),
        (reply(f"Answer: {GOLD}\nfor", finish_reason=FinishReason.LENGTH), (1, 1, 0, 0), None),
        (reply(f"Answer: {GOLD}", finish_reason=FinishReason.REFUSAL), (0, -1, 0, 1), "refused"),
        (Response("c", RequestOutcome.ERRORED, error_message="boom"), (0, -1, 0, 1), "missing"),
    ],
)
def test_a_grade_has_every_metric_and_one_kind_of_failure(
    response: Response, marks: tuple[int, ...], tag: str | None
) -> None:
    one, rules = item(), task()
    prediction = rules.parse(one, "m", response)
    grade = rules.grade(one, prediction)
    assert tuple(grade.marks[name] for name in rules.metrics) == marks
    assert (grade.item_id, grade.model, grade.tag) == ("q1", "m", tag)


def test_the_original_scores_whatever_text_there_is() -> None:
    one = item(ORIGINAL)
    for changes in ({"refusal": "No."}, {"finish_reason": FinishReason.LENGTH}, {}):
        said = task(ORIGINAL).parse(one, "m", reply(f"The answer is {one.payload['gold']}.", **changes))
        assert task(ORIGINAL).grade(one, said).marks["trad_score"] == 1


def test_of_two_equal_options_either_is_right_but_in_the_original_only_the_first() -> None:
    one = item(options=["x", "y", "y", "z"], answer=1)
    twins = [letter for letter, option in zip("ABCD", shown(one), strict=True) if option == "y"]
    for protocol, wanted in ((CORRECTED, [1, 1]), (ORIGINAL, [1, 0])):
        rules = task(protocol)
        said = [rules.parse(one, "m", reply(f"Answer: {letter}")) for letter in twins]
        assert [rules.grade(one, prediction).marks["trad_score"] for prediction in said] == wanted


@pytest.mark.parametrize(
    "payload", [{}, {"options": ["a", "b"]}, {"options": ["a", "b"], "gold": "C"}, {"options": "ab"}]
)
def test_an_item_the_rule_cannot_grade_gets_zeros_and_a_note(payload: Row) -> None:
    one = Item("q1", "demo", "", "?", payload=payload)
    grade = task().grade(one, Prediction("q1", "m", PredictionKind.ANSWERED, "A", raw_text="Answer: A"))
    assert set(grade.marks.values()) == {0.0}
    assert grade.tag == "ungradable"
    assert "payload has no" in str(grade.note)


# ---- the task ------------------------------------------------------------------------------------------------------


def test_it_is_a_task_graded_by_rule() -> None:
    rules: Task = task()
    assert (rules.name, rules.uses_jury, rules.metrics[0]) == ("mcq_idk", False, "trad_score")
    assert not hasattr(rules, "judge_prompt")
    assert not hasattr(rules, "parse_verdict")
    with pytest.raises(LaytonBatchError, match="graded by rule"):
        juried(rules)


def test_options_it_cannot_work_with_are_refused() -> None:
    with pytest.raises(ManifestError, match="hints 1"):
        McqIdkTask(TaskOptions("demo", 1))
    with pytest.raises(ManifestError, match="protocol 'strict': mcq_idk has corrected and original"):
        task("strict")
    with pytest.raises(DataError, match="no bundled items for split 'vlm'; there is 'demo'"):
        task().bundled("vlm")
