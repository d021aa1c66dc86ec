"""Predictions made elsewhere: every shape of file, the published totals, and rows that cannot be graded."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from layton_batch.errors import DataError
from layton_batch.settings import Settings
from layton_batch.tasks.offline import json_text
from layton_batch.tasks.rome.published import PROTOCOLS
from tests.tasks.offline_rows import form
from tests.tasks.rome.grading import graded

QUESTIONS = [
    {"question_id": "a", "question": "?", "evaluator": "number_matching",
    "evaluator_kwargs": {"value_to_match": 3}, "task": "t"},
    {"question_id": 2, "evaluator": "choices_matching", "evaluator_kwargs": {"label": "B"}, "task": "u", "kind": "x"},
    {
        "question_id": "c",
        "evaluator": "location_matching",
        "evaluator_kwargs": {"location_fine_grained": ["Oslo"], "location_coarse_grained": ["Norway"]},
        "kind": "y",
    },
]  # fmt: skip
ANSWERS = [
    {"question_id": "c", "answer": "Norway", "mine": 1},
    {"question_id": "a", "answer": "Final Answer: 3"},
    {"question_id": "2", "answer": "A"},
]
read_predictions = partial(form("rome").rows, settings=Settings(Path.cwd()))
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def written(folder: Path, text: str, name: str = "rows.json") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@both_protocols
def test_scores_are_summed_by_the_questions_field_and_rows_gain_its_fields(protocol: str) -> None:
    report = graded(QUESTIONS, ANSWERS, protocol)
    rows = report.rows
    assert json_text(report.scores) == json_text(
        {
            "final_score": [1.5, 3],
            "accuracy": 50.0,
            "all": [0.5, 1, 0.5, {"all": [0.5, 1, 0.5]}],
            "t": [1, 1, 1.0, {"t": [1, 1, 1.0]}],
            "u": [0, 1, 0.0, {"u": [0, 1, 0.0]}],
        }
    )
    assert [row["correct"] for row in rows] == [0.5, 1, 0]
    assert rows[0] == {
        "question_id": "c", "answer": "Norway", "mine": 1, "raw_answer": "Norway",
        "evaluator": "location_matching", "evaluator_kwargs": QUESTIONS[2]["evaluator_kwargs"], "kind": "y",
        "correct": 0.5, "judgement_response": None,
    }  # fmt: skip
    assert (rows[1]["raw_answer"], rows[1]["answer"]) == ("Final Answer: 3", "3")
    assert list(rows[1])[:3] == ["question_id", "answer", "raw_answer"]


@both_protocols
def test_a_row_that_cannot_be_graded_gets_zero_and_an_error_and_the_others_count(protocol: str) -> None:
    questions = [*QUESTIONS, {"question_id": "d", "task": "t"}, {**QUESTIONS[0], "question_id": "e", "evaluator": "x"}]
    answers = [*ANSWERS, {"question_id": "d", "answer": "3"}, {"question_id": "e", "answer": "3"}, {"question_id": "a"}]
    report = graded(questions, answers, protocol)
    assert report.scores["final_score"] == [1.5, 6]
    assert [row["correct"] for row in report.rows[3:]] == [0, 0, 0]
    assert all(row["error"] for row in report.rows[3:])
    assert not any("error" in row for row in report.rows[:3])


# ---- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ANSWERS),
        json.dumps(ANSWERS, indent=2),
        "\ufeff" + json.dumps(ANSWERS),
        "\n".join(map(json.dumps, ANSWERS)),
        "\n\n".join(map(json.dumps, ANSWERS)) + "\n",
        json.dumps({row["question_id"]: {k: v for k, v in row.items() if k != "question_id"} for row in ANSWERS}),
        json.dumps({row["question_id"]: row for row in ANSWERS}, indent=1),
    ],
    ids=["list", "indented list", "byte order mark", "lines", "gaps", "by id", "indented by id"],
)
def test_predictions_come_in_three_shapes_and_as_lines(text: str, tmp_path: Path) -> None:
    rows = list(read_predictions(written(tmp_path, text)))
    assert [(row["question_id"], row["answer"]) for row in rows] == [
        (row["question_id"], row["answer"]) for row in ANSWERS
    ]


def test_tables_keep_a_null_for_every_other_evaluators_argument(tmp_path: Path) -> None:
    pl.DataFrame(QUESTIONS[:1] + QUESTIONS[2:], strict=False).write_parquet(tmp_path / "questions.parquet")
    pl.DataFrame(ANSWERS[:2]).write_parquet(tmp_path / "answers.parquet")
    questions = read_predictions(tmp_path / "questions.parquet")
    report = graded(questions, read_predictions(tmp_path / "answers.parquet"))
    assert report.scores["final_score"] == [1.5, 2]
    assert not any("error" in row for row in report.rows)
    as_text = [{**QUESTIONS[0], "evaluator_kwargs": '{"value_to_match": 3}'}]
    assert graded(as_text, ANSWERS[1:2]).scores["accuracy"] == 100.0


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{", "line 1"), ("[1]", "element 1"), ('"x"', "line 1"), ("[" * 100_000, "rows.json"),
        ('{"question_id": "a"}\n[]', "line 2"), ('{"question_id": "a"}\n{', "line 2"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_rows_is_refused_with_its_place(text: str, place: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=place):
        list(read_predictions(written(tmp_path, text)))
