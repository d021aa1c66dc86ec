"""Letters out of replies: the original's odd order, and the corrected reader for any number of options."""

from __future__ import annotations

from string import ascii_uppercase

import pytest

from layton_batch.tasks.mcq_idk.published_letters import read_original, without_think_blocks
from layton_batch.tasks.mcq_idk.task import CORRECTED, ORIGINAL, read_corrected, read_letter, shuffled_order

# ---- thoughts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>A?</think>Answer: B", "Answer: B"),
        ("x<think>1</think>y<think>2</think>z", "xyz"),
        ("<think>a<think>b</think>c</think>d", "c</think>d"),
        ("<think>Answer: A", "<think>Answer: A"),
        ("</think>Answer: A<think>", "</think>Answer: A<think>"),
        ("</think>a<think>b</think>c", "</think>ac"),
        ("<thi<think>x</think>nk>hidden</think>seen", "seen"),
        ("<THINK>a</THINK>b", "<THINK>a</THINK>b"),
    ],
)
def test_think_blocks_go_from_the_first_open_tag_to_the_first_close_tag(text: str, left: str) -> None:
    assert without_think_blocks(text) == left


# ---- original ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The final answer is A. I hope it is correct. Final answer is B", "A"),
        ("Final answer to this question is: (C), but Answer: D", "C"),
        ("The answer is B, since ...\n###D###", "B"),
        ("Answer: C\nOn reflection, Answer: A", "A"),
        ("\nA company sued.\nB company won.", "B"),
        ("B. Because", "B"),
        ("Answer: E) I don't know", "E"),
        ("answer: e.g. water", "E"),
        ("answer a problem", "A"),
        ("###A### then ###B###", "B"),
        ("\\boxed{\\text{A}} and \\boxed{B}", "B"),
        ("I would take optionB", "B"),
        ("Answer: F", "F"),
        ("Answer: A\n", "A"),
        ("option A" + "." * 200, None),
        ("Choice: B", None),
        ("Answer: L", None),
        ("I don't know", None),
        ("", None),
    ],
)
def test_the_original_reads_in_its_odd_order(text: str, letter: str | None) -> None:
    assert read_original(text) == letter


# ---- corrected -----------------------------------------------------------------------------------------------------

FORMS = (
    "Answer: {}", "**Answer: {}**", "**Answer:** {}", "answer:\n\n{}", "Answer: {}) nitrogen", "Final Answer is {}.",
    "Final Answer: ###{}###", "The final answer is $\\boxed{{{}}}$.",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_options", [2, 4, 10, 25])
def test_every_letter_of_every_number_of_options_is_read_in_every_form(form: str, n_options: int) -> None:
    for letter in ascii_uppercase[: n_options + 1]:
        assert read_corrected(f"One of A and B.\n\n{form.format(letter)}", n_options) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is A substantial one.\nA company did it.\nFinal Answer: ###D###", "D"),
        ("Answer: B then ###A###", "A"),
        ("###C###\n\nWait, that is wrong.\n\n###E###", "E"),
        ("Answer: A\n\nLet me check again.\n\nAnswer: B", "B"),
        ("Answer: A. So in the asked form $\\boxed{D}$", "D"),
        ("Answer: B\nThe answer: A company must pay.", "B"),
        ("**Answer:**\n\nAnswer: C", "C"),
        ("answer: E.g. water\nAnswer: A", "A"),
        ("Answer: F\nAnswer: C", "C"),
        ("Answer: E) I don't know", "E"),
        ("Answer: A or B", None),
        ("Answer: A, B", None),
        ("Answer: A/B", None),
        ("Answer: F", None),
        ("The final answer is $\\boxed{6}$.", None),
        ("The answer cannot be A.", None),
        ("This is **CORRECT**. The optional", None),
        ("", None),
    ],
)
def test_the_requested_form_wins_and_hedging_does_not(text: str, letter: str | None) -> None:
    assert read_corrected(text, 4) == letter


def test_a_letter_in_a_thought_is_no_answer() -> None:
    assert read_letter("<think>Is it Answer: A? Then Answer: B", CORRECTED, 4) is None
    assert read_letter("<think>A?</think>Answer: B <think>Or Answer: C", CORRECTED, 4) == "B"
    assert read_letter("<think>Is it Answer: A? Then", ORIGINAL, 4) == "A"


# ---- letters -------------------------------------------------------------------------------------------------------


def test_the_order_of_options_depends_on_seed_and_item_alone() -> None:
    assert (
        shuffled_order("q1", 4, 0) == shuffled_order("q1", 4, 0) == (3, 2, 0, 1)
    )  # pinned: it names what was paid for
    assert len({shuffled_order(f"q{i}", 4, 0) for i in range(400)}) == 24
    assert any(shuffled_order(f"q{i}", 4, 0) != shuffled_order(f"q{i}", 4, 1) for i in range(10))
