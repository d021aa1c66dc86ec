"""The bundled questions keep the promises of their README, their answers are right, and they can be drawn again."""

from __future__ import annotations

import base64
import json
from collections import Counter
from functools import cache

import pytest

from layton_batch.tasks.protocol import TaskOptions
from layton_batch.tasks.rome import RomeTask
from layton_batch.tasks.rome_rules.corrected_evaluators import EVALUATORS
from tests.tasks.rome.grading import grade_answer

COLUMNS = ["question_id", "question", "reference", "evaluator", "evaluator_kwargs", "task"]
MAX_PICTURE_BYTES = 40_000
both_splits = pytest.mark.parametrize("split", ["llm", "vlm"])


@cache
def rows(split: str) -> list[dict]:
    path = RomeTask(TaskOptions(split)).bundled(split)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def pictures(row: dict) -> list[bytes]:
    listed = row["img"] if isinstance(row["img"], list) else [row["img"]]
    return [base64.b64decode(one, validate=True) for one in listed]


def test_there_are_enough_questions_of_every_evaluator_in_words_and_pictures() -> None:
    assert len(rows("llm")) + len(rows("vlm")) >= 28
    for split, least in (("llm", 3), ("vlm", 2)):
        counts = Counter(row["evaluator"] for row in rows(split))
        assert set(counts) == set(EVALUATORS)
        assert min(counts.values()) >= least


@both_splits
def test_every_row_has_the_columns_in_their_order_and_becomes_an_item(split: str) -> None:
    assert all(list(row) == ([*COLUMNS, "img"] if split == "vlm" else COLUMNS) for row in rows(split))
    items = RomeTask(TaskOptions(split)).items(rows(split))
    assert len(items) == len(rows(split))
    assert len({item.id for item in items}) == len(items)


@both_splits
@pytest.mark.parametrize("form", ["{}", "Final Answer: {}", "Let me see.\n\n**Final Answer:** {}", "最终答案：{}"])
def test_the_reference_is_worth_full_marks_and_an_empty_reply_none(split: str, form: str) -> None:
    for row in rows(split):
        mark = grade_answer(row["evaluator"], row["evaluator_kwargs"], form.format(row["reference"]))
        assert (mark.score, mark.error) == (1, None), row["question_id"]
        assert grade_answer(row["evaluator"], row["evaluator_kwargs"], "").score == 0


@both_splits
def test_no_reference_answers_another_question_of_its_evaluator(split: str) -> None:
    for row in rows(split):
        others = [other for other in rows(split) if other["evaluator"] == row["evaluator"] and other is not row]
        wrong = [other["question_id"] for other in others if other["reference"] != row["reference"]]
        scored = {
            other["question_id"]: grade_answer(row["evaluator"], row["evaluator_kwargs"], other["reference"]).score
            for other in others
        }
        assert not any(scored[name] for name in wrong), row["question_id"]


def test_the_sums_in_the_texts_are_right() -> None:
    gold = {row["question_id"]: row["evaluator_kwargs"] for row in rows("llm")}
    painted = [step for step in range(1, 41) if (step % 3 == 0) != (step % 5 == 0)]
    assert gold["lb-rt-005"]["value_to_match"] == len(painted)
    assert gold["lb-rt-006"]["value_to_match"] == pytest.approx(3.14159265 * 1.5**2 * 2, abs=1e-3)
    assert gold["lb-rt-007"]["value_to_match"] == -4 - 6 * 1.5 + 7
    assert gold["lb-rt-008"]["value_to_match"] == 12 * 60 * 24 * 7
    assert gold["lb-rt-009"]["value_to_match"] == pytest.approx(2 * 3 / 5 * 2 / 4)
    shares = {"A": 5 / 8, "B": 0.6, "C": 2 / 3, "D": 0.59}
    assert gold["lb-rt-011"]["order"] == sorted(shares, key=lambda letter: shares[letter])
    assert gold["lb-rt-012"]["order"] == sorted(["lamp", "tree", "dock", "fig"], key=lambda word: word[-1])
    numbers = {"A": 84, "B": 90, "C": 132, "D": 180, "E": 156}
    fit = [letter for letter, number in numbers.items() if number % 12 == 0 and number % 5]
    assert gold["lb-rt-002"]["label"] == "".join(fit)
    assert gold["lb-rt-003"]["label"] == "ABCDEFGHI"[(2 + 5 - 8 + 9) % 9]
    assert gold["lb-rt-004"]["label"] == {5: "A", 8: "B", 3: "C", 10: "D"}[18 + 15 - (30 - 5)]


def test_text_is_stored_as_utf8_and_not_as_escapes() -> None:
    for split in ("llm", "vlm"):
        assert b"\\u" not in RomeTask(TaskOptions(split)).bundled(split).read_bytes()


def test_every_picture_is_a_small_jpeg_and_no_two_are_the_same() -> None:
    found = [picture for row in rows("vlm") for picture in pictures(row)]
    assert all(picture.startswith(b"\xff\xd8\xff") and picture.endswith(b"\xff\xd9") for picture in found)
    assert max(map(len, found)) <= MAX_PICTURE_BYTES
    assert len(set(found)) == len(found)
