"""Replies made elsewhere: the report's form, the two sources of gold, and what a wrong row is told."""

from __future__ import annotations

from typing import Any

import pytest

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.mcq_idk.task import CORRECTED, METRICS, ORIGINAL
from tests.tasks import offline_rows

Row = dict[str, JsonValue]


def said(item_id: JsonValue, response: JsonValue, **more: JsonValue) -> Row:
    return {"item_id": item_id, "response": response, **more}


def report(items: list[Row] | None, rows: list[Row], protocol: str = CORRECTED) -> dict[str, Any]:
    return offline_rows.report(offline_rows.form("mcq_idk", protocol), items, rows)


def graded(items: list[Row] | None, rows: list[Row], protocol: str = CORRECTED) -> list[dict[str, Any]]:
    """The rows of the report."""
    return list(report(items, rows, protocol)["rows"])


def test_the_report_has_the_promised_form_and_the_predictions_order() -> None:
    rows = [said("b", "Answer: A", gold="A"), said("a", "Answer: E", gold="B"), said("c", None, gold="d")]
    assert report(None, rows, ORIGINAL) == {
        "metrics": {
            "trad_score": {"mean": 1 / 3, "se": pytest.approx(1 / 3)},
            "idk_score": {"mean": 0.0, "se": pytest.approx(3**-0.5)},
            "idk_freq": {"mean": 1 / 3, "se": pytest.approx(1 / 3)},
            "extract_fail": {"mean": 1 / 3, "se": pytest.approx(1 / 3)},
        },
        "n": 3,
        "rows": [
            {"item_id": "b", "letter": "A", "tag": None, **dict(zip(METRICS, (1, 1, 0, 0), strict=True))},
            {"item_id": "a", "letter": "E", "tag": "abstained", **dict(zip(METRICS, (0, 0, 1, 0), strict=True))},
            {"item_id": "c", "letter": None, "tag": "no_letter", **dict(zip(METRICS, (0, -1, 0, 1), strict=True))},
        ],
    }


LISTED: Row = {"id": "q", "question": "?", "Options": '["w", "x", "y", "z"]', "answer": "y"}
GPQA: Row = {"id": "q", "question": "?", "Correct Answer": "y", "Incorrect Answer 1": "w", "Incorrect Answer 2": "x"}


@pytest.mark.parametrize(
    ("item", "prediction", "right"),
    [
        (LISTED, {}, "C"),
        (LISTED, {"options": ["y", "w", "x", "z"]}, "A"),
        (LISTED, {"options": '["w", "y", "x", "z"]', "gold": "D"}, "B"),
        (LISTED, {"gold": "D"}, "D"),
        (GPQA, {"options": ["y", "w", "x"]}, "A"),
        (GPQA, {"gold": "B", "n_options": 3}, "B"),
    ],
)
def test_a_letter_means_the_order_of_the_prediction_else_of_the_file_of_items(
    item: Row, prediction: Row, right: str
) -> None:
    answers = [said("q", f"Answer: {letter}", **prediction) for letter in "ABCD"]
    assert "".join(row["letter"] for row in graded([item], answers) if row["trad_score"]) == right


@pytest.mark.parametrize(
    ("item", "prediction", "message"),
    [
        (
            GPQA,
            {},
            r"prediction 1 \(item 'q'\): the items' columns .* no order.*: give the predictions a column 'options'",
        ),
        (LISTED, {"options": ["w", "x", "y", "v"]}, "column 'options' has other options than the item has"),
        (LISTED, {"options": "w, x, y, z"}, "column 'options' is text that is not a list"),
    ],
)
def test_a_letter_without_a_meaning_is_refused(item: Row, prediction: Row, message: str) -> None:
    with pytest.raises(DataError, match=message):
        graded([item], [said("q", "Answer: A", **prediction)])
