"""The corrected choice rule: which options' letters an answer names."""

from __future__ import annotations

import pytest

from layton_batch.tasks.rome_rules.letters import chosen_letters, label_letters
from layton_batch.tasks.rome_rules.statement import final_statement
from tests.tasks.rome.grading import grade_answer


def letters(reply: str, wanted: int = 1) -> str:
    return chosen_letters(final_statement(reply), wanted)


@pytest.mark.parametrize(
    "reply",
    [
        "B", "(B)", "B.", "B)", "[B]", "{B}", "<B>", "“B”", "‘B’", "$B$", "\\(B\\)", "**B**", "Ⓑ", "Ｂ",
        "b", "(b)", "b.",
        "option B", "option b", "Option B because Paris is in France", "B. Paris", "B: Paris", "B) Paris", "B - Paris",
        "B (Paris)", "B Paris", "The B", "I choose B", "I think the answer is B", "I'd go with B.", "My choice: B",
        "Paris is the capital of France, so B", "Therefore, B.", "It must be B", "B is correct", "all of the above (B)",
        "The correct option is B) Paris.", "Correct option: B", "\\mathrm{B}", "\\textbf{(B)}", "[INST] B [/INST]",
        "选B", "故选：B", "选择B", "因此，B", "<Img>B</Img>", "答案是B", "答案选B。", "正确选项为B", "因此选B",
        "Answer: B\n\nExplanation: A And C Fail",
        "Looking at A, B and C...\n\nB", "B\n\nBecause A and C are wrong.", "A. Paris is wrong\nC. Rome is wrong\nSo B",
        "The answer is B, not A.", "It is not A but B", "Option A is wrong, B is right", "Neither A nor C. B it is",
        "A is incorrect. The correct one is B.", "Final Answer: A\n\nWait. Final Answer: B", "B, I believe", "B!",
        '{"answer": "B"}', "The final answer is: $\\boxed{B}$", "Answer:B", "ANSWER B", "<answer>B</answer>",
    ],
)  # fmt: skip
def test_one_letter_is_found_however_it_is_put(reply: str) -> None:
    assert letters(reply) == "B"


@pytest.mark.parametrize(
    "reply",
    [
        "AC", "CA", "A,C", "A, C", "A and C", "A & C", "A+C", "A/C", "A;C", "A C", "A、C", "A和C", "(A), (C)", "(A)(C)",
        "A.C.", "a, c", "ac", "Both A and C", "options A and C", "Option A and Option C", "(A) Paris, (C) Rome",
        "A. Paris, C. Rome", "A) Paris\nC) Rome", "- A\n- C", "1. A\n2. C", "Final Answer:\nA\nC",
        "A and C are correct",
        "All except B: A, C", "\\boxed{A}, \\boxed{C}",
    ],
)  # fmt: skip
def test_several_letters_are_found_in_any_order_and_with_any_separator(reply: str) -> None:
    assert sorted(letters(reply, 2)) == ["A", "C"]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "None",
        "II",
        "A dog is shown in the picture",
        "I think so",
        "Bananas",
        "It is not B",
        "The answer is A big one",
    ],
)
def test_articles_pronouns_words_and_denied_letters_are_none(reply: str) -> None:
    assert letters(reply) == ""


@pytest.mark.parametrize("letter", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
def test_every_letter_of_the_alphabet_can_be_right(letter: str) -> None:
    for reply in (letter, f"({letter})", f"The answer is {letter}.", f"Final Answer: {letter}", f"答案: {letter}"):
        assert grade_answer("choices_matching", {"label": letter}, reply).score == 1


def test_more_or_fewer_letters_than_the_label_has_are_wrong() -> None:
    for label, reply in (("A", "A, C"), ("AC", "A"), ("BDE", "A, B, D, E"), ("A", "A or B")):
        assert grade_answer("choices_matching", {"label": label}, reply).score == 0


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("AC", "AC"),
        ("a, c", "AC"),
        ("A and C", "AC"),
        ("AA", "A"),
        ("B. Paris", "B"),
        ("(D)", "D"),
        ("7", ""),
        ("", ""),
    ],
)
def test_a_label_is_read_as_leniently_as_an_answer(label: str, found: str) -> None:
    assert label_letters(label) == frozenset(found)


def test_a_label_that_is_no_letter_is_compared_as_it_is() -> None:
    assert grade_answer("choices_matching", {"label": "7"}, "Final Answer: (7)").score == 1
    assert grade_answer("choices_matching", {"label": "7"}, "Final Answer: 17").score == 0


@pytest.mark.parametrize("label", ["", " ", 5, None])
def test_a_label_without_a_letter_cannot_be_graded_by(label: object) -> None:
    mark = grade_answer("choices_matching", {"label": label}, "A")  # type: ignore[dict-item]
    assert (mark.score, mark.error) == (0, "label must be a text with at least one letter")


@pytest.mark.parametrize("reply", ["Answer: d) all of them", "Answer: (d) all", "Final Answer: **d)** all"])
def test_a_small_letter_with_its_bracket_and_text_is_a_letter(reply: str) -> None:
    assert grade_answer("choices_matching", {"label": "D"}, reply).score == 1
    assert grade_answer("choices_matching", {"label": "B"}, reply).score == 0


def test_several_small_letters_with_texts_are_no_answer_to_a_question_with_one() -> None:
    assert grade_answer("choices_matching", {"label": "A"}, "Answer: a) one, c) two").score == 0
