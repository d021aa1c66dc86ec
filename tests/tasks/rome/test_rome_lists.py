"""The corrected list rule: all the things, in their order, and nothing else."""

from __future__ import annotations

import pytest

from layton_batch.tasks.rome_rules.sequence import things_in_order
from tests.tasks.rome.grading import grade_answer

CDAB = ["C", "D", "A", "B"]
COLOURS = ["red", "green", "blue"]


def right(reply: str, order: object) -> bool:
    mark = grade_answer("ordered_list_matching", {"order": order}, reply)  # type: ignore[dict-item]
    assert mark.error is None
    return bool(mark.score)


@pytest.mark.parametrize(
    "reply",
    [
        "CDAB", "C D A B", "C,D,A,B", "C, D, A, B", "C, D, A, and B", "C; D; A; B", "C > D > A > B", "C->D->A->B",
        "C → D → A → B", "C \\to D \\to A \\to B", "C-D-A-B", "C/D/A/B", "C | D | A | B", "C，D，A，B。",
        "C、D、A、B", "C\nD\nA\nB",
        "C\n\nD\n\nA\n\nB", "- C\n- D\n- A\n- B", "1. C\n2. D\n3. A\n4. B", "1) C 2) D 3) A 4) B", "① C ② D ③ A ④ B",
        "1st: C, 2nd: D, 3rd: A, 4th: B", "Step 1: C\nStep 2: D\nStep 3: A\nStep 4: B", "(C), (D), (A), (B)",
        "c, d, a, b",
        '["C", "D", "A", "B"]', "**C**, **D**, **A**, **B**", "Frame C, Frame D, Frame A, Frame B",
        "First C, then D, then A and finally B", "The correct order is C, D, A, B.",
        "The order is as follows: C, D, A, B",
        "Looking at A and B, the order should be C, D, A, B.", "I think\n\nC, D, A, B", "C, D, A, B because it moves",
        "C, D, A, B\n\nC comes first.", "C, D, A, B\nThe bird moves right.", "C, D, A, B (with high confidence)",
        "正确顺序为CDAB", "Final Answer:\n\n1. C\n\n2. D\n\n3. A\n\n4. B", "\\boxed{C, D, A, B}", "ＣＤＡＢ",
    ],
)  # fmt: skip
def test_the_right_order_is_recognised_in_any_form(reply: str) -> None:
    assert right(reply, CDAB)
    assert right(reply, "CDAB")
    assert right(reply, "C,D,A,B")


@pytest.mark.parametrize(
    "reply",
    [
        "", "B, A, D, C", "BADC", "C, D, A", "C, D, A, B, E", "C, D, A, B, asparagus", "E, C, D, A, B",
        "C D A B E", "CDABE", "C\nD\nA\nB\nE",
        "I cannot tell, maybe dawn, noon after, but", "First compare, then decide, and, finally, B, A",
        "The order is not C, D, A, B", "B, A, D, C. The order is not C, D, A, B", "C < D < A < B",
        "The wrong order is: C, D, A, B. The right order is: A, B, C, D", "Final Answer: A, B, C, D\n\nNot C, D, A, B",
    ],
)  # fmt: skip
def test_other_orders_missing_and_extra_things_and_prose_are_wrong(reply: str) -> None:
    assert not right(reply, CDAB)


def test_things_may_be_words_with_anything_in_them() -> None:
    assert right("red green blue", COLOURS)
    assert right("Red (R), Green (G), Blue (B)", COLOURS)
    assert not right("reddish, green, blue", COLOURS)
    assert not right("red, green, blue, yellow", COLOURS)
    assert right("Paris, France; Rome, Italy", ["Paris, France", "Rome, Italy"])
    assert right("new york -> LOS ANGELES", ["New York", "Los Angeles"])
    assert right("5–6, 7", ["5-6", "7"])
    assert right("Zu\u0308rich, Genève", ["Zürich", "Geneve"])
    assert right("first second third", ["first", "second", "third"])
    assert right("甲→乙→丙", ["甲", "乙", "丙"])
    assert right("先甲，然后乙，最后丙", ["甲", "乙", "丙"])


def test_numbered_lines_do_not_run_into_things_that_are_numbers() -> None:
    assert right("1. 10\n2. 2\n3. 33", ["10", "2", "33"])
    assert right("10, 2, 33", [10, 2, 33])
    assert not right("1, 2, 3", ["12", "3"])
    assert not right("2, 1", [1, 2])


def test_one_thing_alone_is_a_list() -> None:
    assert right("A.", ["A"])
    assert not right("I have no idea about it", ["A"])


@pytest.mark.parametrize(
    ("order", "things"),
    [
        ("BAC", ["B", "A", "C"]),
        ("B, A", ["B", "A"]),
        ("B-A", ["B", "A"]),
        ("x > y", ["x", "y"]),
        ([1, "b"], ["1", "b"]),
    ],
)
def test_an_order_may_be_a_text_or_a_list(order: object, things: list[str]) -> None:
    assert things_in_order(order) == things


@pytest.mark.parametrize("order", [[], "", [""], None, 5, [None], [True], [["a"]]])
def test_an_order_of_nothing_cannot_be_graded_by(order: object) -> None:
    mark = grade_answer("ordered_list_matching", {"order": order}, "A")  # type: ignore[dict-item]
    assert mark.score == 0
    assert (mark.error or "").startswith("order ")


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("The order is C, D, A, B because D comes after C.", 1),
        ("The order is C, D, A, B as shown by the dates.", 1),
        ("The correct sequence is CDAB as the flower opens.", 1),
        ("The correct sequence is CDBA as the flower opens.", 0),
        ("In ascending order: C, D, A, B", 1),
        ("The order is D, C, A, B. No: it is C, D, A, B because of the dates.", 1),
        ("The order is C, D, A, B. No: it is D, C, A, B because of the dates.", 0),
    ],
)
def test_words_behind_a_list_do_not_hide_it_and_a_list_taken_back_does_not_count(reply: str, score: int) -> None:
    assert grade_answer("ordered_list_matching", {"order": ["C", "D", "A", "B"]}, reply).score == score
