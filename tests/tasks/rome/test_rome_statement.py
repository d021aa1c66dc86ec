"""Where a reply states its answer."""

from __future__ import annotations

import pytest

from layton_batch.tasks.rome_rules.characters import folded, spelled
from layton_batch.tasks.rome_rules.statement import Source, boxes, final_statement, plain


@pytest.mark.parametrize(
    ("reply", "source", "text"),
    [
        ("Final Answer: x", Source.LABEL, "x"),
        ("**Final Answer**: x", Source.LABEL, "x"),
        ("answer (in km): x", Source.LABEL, "x"),
        ("最终答案：x", Source.LABEL, "x"),
        ("### Answer\n\nx", Source.LABEL, "x"),
        ("<answer>x</answer>", Source.LABEL, "x"),
        ("Answer: y\n\nAnswer: x", Source.LABEL, "x"),
        ("Answer: x\n\nFinal Answer:", Source.LABEL, "x\n\nFinal Answer:"),
        ("Answer: see\n\n$\\boxed{x}$", Source.LABEL, "x"),
        ("y \\boxed{z}\nthus \\boxed{\\text{x}}.", Source.BOX, "{x}"),
        ("\\boxed{x} and \\boxed{y}", Source.BOX, "x, y"),
        ("The answer is x.", Source.CUE, "x."),
        ("the answer would be x", Source.CUE, "x"),
        ("答案是x", Source.CUE, "x"),
        ("x", Source.WHOLE, "x"),
        ("x. (Answered with care)", Source.WHOLE, "x. (Answered with care)"),
        ("x. The answer is clear", Source.WHOLE, "x. The answer is clear"),
        ("<think>Answer: y</think>x", Source.WHOLE, "x"),
        ("", Source.WHOLE, ""),
    ],
)
def test_a_label_comes_before_a_box_a_box_before_a_cue(reply: str, source: Source, text: str) -> None:
    statement = final_statement(reply)
    assert (statement.source, statement.text.strip()) == (source, text)


def test_the_first_paragraph_is_the_answer_unless_it_only_announces_one() -> None:
    assert final_statement("Answer: x\n(a remark)\n\nMore.").paragraph == "x"
    assert final_statement("Answer:\n\nIt is:\n\nx").paragraph == "It is:\n\nx"
    assert final_statement("Answer: (x)").paragraph == "(x)"


def test_dressing_is_taken_off_and_what_numbers_need_is_kept() -> None:
    assert plain("**a** `b` \\text{c} $d$ <b>e</b>").split() == ["a", "b", "{c}", "d", "e"]
    assert plain("10**6 and 2*3 and x_1 and _y_") == "10^6 and 2×3 and x_1 and y"
    assert plain("* a\n# b\n\\frac{1}{2} \\times \\%") == "- a\nb\n\\frac{1}{2} × %"


def test_boxes_may_hold_braces_and_empty_ones_do_not_count() -> None:
    text = "\\boxed{} \\boxed{a\\frac{1}{2}} \\boxed{b \\boxed{c}} \\boxed{open"
    assert [text[start:end] for start, end in boxes(text)] == ["a\\frac{1}{2}", "b \\boxed{c}"]


def test_one_spelling_stands_for_many() -> None:
    assert spelled("１２ 10⁶ ½ Ａ\r\n“x” − ٤") == '12 10^6  1/2 A\n"x" - 4'
    assert folded("  São\u00a0 Paulo, Zu\u0308rich, Łódź ") == "Sao Paulo, Zurich, Lodz"
    assert folded("が ガ") == "が ガ"
