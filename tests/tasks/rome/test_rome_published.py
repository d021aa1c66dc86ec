"""On the optional real data: the original protocol equals the published evaluator on every case, the corrected one
a sane grader wherever there is a verdict. (The published example, byte for byte: `tests/cli/test_grade.py`.)"""

from __future__ import annotations

import json

import pytest

from layton_batch.tasks.rome import published
from tests.support.paths import SHARED_DATA
from tests.tasks.rome.grading import grade_answer

REAL = SHARED_DATA / "rome"
EVALUATORS = ("key_items", "choices", "ordered_list", "number", "location")
pytestmark = pytest.mark.shared_data
every_evaluator = pytest.mark.parametrize("evaluator", EVALUATORS)


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


def test_the_judges_replies_are_read_as_published() -> None:
    for line in (REAL / "llm_judge_parsing.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        assert published.judgement(case["content"]) == case["expected_score"], case["id"]
