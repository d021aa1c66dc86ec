"""On the optional real data: the original protocol equals the published evaluator on every case, the corrected one
a sane grader wherever there is a verdict, and the published example comes out byte for byte."""

from __future__ import annotations

import json

import pytest

from layton_batch.tasks.offline import json_text
from layton_batch.tasks.rome import published
from layton_batch.tasks.rome.files import read_predictions
from tests.support.paths import SHARED_DATA
from tests.tasks.rome.grading import grade_answer, graded

REAL = SHARED_DATA / "rome"
EXAMPLE = REAL / "example"
EVALUATORS = ("key_items", "choices", "ordered_list", "number", "location")
pytestmark = pytest.mark.shared_data
every_evaluator = pytest.mark.parametrize("evaluator", EVALUATORS)

WRAPPINGS = {
    "bare": "{}",
    "final": "Final Answer: {}",
    "bold_final": "**Final Answer: {}**",
    "bold_label": "**Final Answer:** {}",
    "bold_colon_out": "**Final Answer**: {}",
    "lower": "final answer: {}",
    "is": "The answer is {}.",
    "reason_final": "Let me think. The image shows several things.\n\nFinal Answer: {}",
    "cn": "最终答案：{}",
    "cn2": "答案: {}",
    "boxed": "\\boxed{{{}}}",
    "dollar_boxed": "The result is $\\boxed{{{}}}$.",
    "boxed_text": "$\\boxed{{\\text{{{}}}}}$",
    "final_boxed": "Final Answer: $\\boxed{{{}}}$",
    "caps": "FINAL ANSWER: {}",
    "newline": "Answer:\n{}\n",
    "trail": "Final Answer: {}\n\nI hope this helps!",
    "twice": "Answer: something else\n\nAnswer: {}",
    "answered_after": "Final Answer: {}\n(Answered with high confidence)",
    "code": "```\n{}\n```",
    "think": "<think>hmm</think>\n{}",
}
"""How the cases dress an answer up, by their tags."""
MORE_WRAPPINGS = (
    "## Final Answer\n\n{}",
    "Some reasoning about A and 7.\n\n### Answer\n{}",
    "Reasoning: 1) look 2) think.\n\n**Answer:**\n\n**{}**",
    "The correct answer is: {}",
    "So my final answer is {}.",
    "因此，答案是：{}",
    "正确答案：{}。",
    "<answer>{}</answer>",
    "Answer: {}\n\nExplanation: The first picture shows it.",
    "Reason.\r\n\r\nFinal Answer: {}\r\n",
    "\\fbox{{{}}}",
    "Final Answer: **$ {} $**",
)
"""Other usual ways, in which the same answer must count the same."""


def cases(evaluator: str) -> list[dict]:
    return [json.loads(line) for line in (REAL / f"{evaluator}_matching.jsonl").read_text("utf-8").splitlines()]


@every_evaluator
def test_the_original_equals_the_published_evaluator_on_every_case(evaluator: str) -> None:
    for case in cases(evaluator):
        mark = grade_answer(case["evaluator"], case["kwargs"], case["answer"], "original")
        assert published.prepare(case["answer"]) == case["extracted"], case["id"]
        if case["expected_error"]:
            assert mark.score == 0, case["id"]
            assert (mark.error or "").startswith(case["expected_error"]), case["id"]
        else:
            got = (json.dumps(mark.score), mark.read, mark.error)
            assert got == (json.dumps(case["expected_score"]), case["final_answer_field"], None), case["id"]


def test_the_corrected_rules_agree_with_a_sane_grader_in_98_of_100_cases() -> None:
    judged = [case for evaluator in EVALUATORS for case in cases(evaluator) if case["ideal_score"] is not None]
    marks = [grade_answer(case["evaluator"], case["kwargs"], case["answer"], "corrected") for case in judged]
    assert all(mark.error is None for mark in marks)
    right = [mark.score == case["ideal_score"] for mark, case in zip(marks, judged, strict=True)]
    assert sum(right) / len(right) >= 0.98


def answers_of(evaluator: str) -> dict[tuple[str, str], float]:
    """Every case's answer without its dressing, and what it is worth."""
    found: dict[tuple[str, str], float] = {}
    for case in cases(evaluator):
        before, dressed, after = WRAPPINGS.get(case["tag"].partition("|")[0], "").partition("{}")
        start, end = before.format(), after.format()
        answer = case["answer"]
        if dressed and case["ideal_score"] is not None and answer.startswith(start) and answer.endswith(end):
            inner = answer[len(start) : len(answer) - len(end)]
            if inner.strip():
                found[json.dumps(case["kwargs"]), inner] = case["ideal_score"]
    return found


@every_evaluator
def test_how_an_answer_is_dressed_up_makes_no_difference(evaluator: str) -> None:
    answers = answers_of(evaluator)
    assert len(answers) > 15
    right = [
        grade_answer(f"{evaluator}_matching", json.loads(arguments), wrapping.format(inner), "corrected").score == ideal
        for (arguments, inner), ideal in answers.items()
        for wrapping in (*WRAPPINGS.values(), *MORE_WRAPPINGS)
    ]
    assert sum(right) / len(right) >= 0.98


def test_the_example_is_reproduced_byte_for_byte() -> None:
    report = graded(
        read_predictions(EXAMPLE / "annotation.json"), read_predictions(EXAMPLE / "predictions.json"), "original"
    )
    assert json_text(report.scores).encode() == (EXAMPLE / "scores.json").read_bytes()
    assert json_text(report.rows).encode() == (EXAMPLE / "updated_predictions.json").read_bytes()


def test_the_judges_replies_are_read_as_published() -> None:
    for line in (REAL / "llm_judge_parsing.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        assert published.judgement(case["content"]) == case["expected_score"], case["id"]
