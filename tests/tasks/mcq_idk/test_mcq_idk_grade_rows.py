"""Replies made elsewhere: the report's form, the two sources of gold, and what a wrong row is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import JsonValue
from layton_batch.tasks.mcq_idk import CORRECTED, ORIGINAL
from layton_batch.tasks.mcq_idk_rules.model_report import AbstentionReport
from tests.tasks import offline_rows

Row = dict[str, JsonValue]


def said(item_id: JsonValue, response: JsonValue, **more: JsonValue) -> Row:
    return {"item_id": item_id, "response": response, **more}


def grade_rows(items: list[Row] | None, rows: list[Row], protocol: str = CORRECTED) -> AbstentionReport:
    found = offline_rows.grade_rows(offline_rows.form("mcq_idk", protocol), items, rows)
    assert isinstance(found, AbstentionReport)
    return found


def published(report: AbstentionReport) -> Row:
    """The document without what stands beside the published figures."""
    document = report.document()
    del document["abstention"]
    return document


def test_the_report_has_the_promised_form_and_the_predictions_order() -> None:
    rows = [said("b", "Answer: A", gold="A"), said("a", "Answer: E", gold="B"), said("c", None, gold="d")]
    assert published(grade_rows(None, rows, ORIGINAL)) == {
        "metrics": {
            "trad_score": {"mean": 1 / 3, "se": pytest.approx(1 / 3)},
            "idk_score": {"mean": 0.0, "se": pytest.approx(3**-0.5)},
            "idk_freq": {"mean": 1 / 3, "se": pytest.approx(1 / 3)},
            "extract_fail": {"mean": 1 / 3, "se": pytest.approx(1 / 3)},
        },
        "n": 3,
        "rows": [
            {"item_id": "b", "letter": "A", "trad_score": 1, "idk_score": 1, "idk_freq": 0, "extract_fail": 0},
            {"item_id": "a", "letter": "E", "trad_score": 0, "idk_score": 0, "idk_freq": 1, "extract_fail": 0},
            {"item_id": "c", "letter": None, "trad_score": 0, "idk_score": -1, "idk_freq": 0, "extract_fail": 1},
        ],
    }


def test_one_prediction_has_no_standard_error_and_none_has_no_metrics() -> None:
    one = published(grade_rows(None, [said("a", "Answer: A", gold="A")]))
    assert one["metrics"]["trad_score"] == {"mean": 1.0, "se": None}  # type: ignore[index,call-overload]
    assert published(grade_rows(None, [])) == {"metrics": {}, "n": 0, "rows": []}


def test_the_letter_that_abstains_follows_the_number_of_options() -> None:
    rows = [said("a", "Answer: E", gold="E", n_options=10), said("b", "Answer: K", gold="E", n_options=10)]
    assert [row.marks.values() for row in grade_rows(None, rows).rows] == [(1, 1, 0, 0), (0, 0, 1, 0)]


def test_gold_comes_from_the_items_where_they_are_given() -> None:
    items: list[Row] = [
        {"id": "a", "gold": "B", "options": ["x", "y", "z"]},
        {"item_id": 2, "gold": "A", "n_options": 2.0},
    ]
    report = grade_rows(items, [said("2", "Answer: C"), said("a", "Answer: B", gold="A")])
    assert [(row.item_id, row.marks.values()) for row in report.rows] == [("2", (0, 0, 1, 0)), ("a", (1, 1, 0, 0))]


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
    report = grade_rows([item], answers)
    assert "".join(str(row.letter) for row in report.rows if row.marks.trad_score) == right


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
        grade_rows([item], [said("q", "Answer: A", **prediction)])


def test_of_several_replies_to_an_item_the_best_counts() -> None:
    rows = [
        said("a", ["Answer: A", "Answer: B", "hm"], gold="B"),
        said("b", ["hm", ""], gold="B"),
        said("c", [], gold="B"),
    ]
    report = grade_rows(None, rows)
    assert [(row.letter, row.marks.trad_score, row.marks.extract_fail) for row in report.rows] == [
        ("A,B", 1, 0),
        (None, 0, 1),
        (None, 0, 1),
    ]


def test_the_protocol_decides_who_wins_prose_or_the_requested_form() -> None:
    rows = [said("a", "A company did it.\n###D###", gold="D")]
    assert [grade_rows(None, rows, name).rows[0].letter for name in (ORIGINAL, CORRECTED)] == ["A", "D"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"response": "A", "gold": "A"}, "prediction 2: column 'item_id' or 'id' or 'sample_id' is missing"),
        (said(True, "A", gold="A"), "prediction 2: column 'item_id' must be text"),
        (said("x", "A"), r"prediction 2 \(item 'x'\): nothing says which letter is right: give .* --items FILE"),
        (said("x", "A", gold="E"), "gold is 'E'; it must be a letter from A to D"),
        (said("x", "A", gold="AB"), "gold is 'AB'"),
        (said("x", "A", gold=1), "gold is '1'"),
        (said("x", "A", gold="A", n_options=1), "n_options is 1; it must be 2 to 25"),
        (said("x", "A", gold="A", n_options=26), "n_options is 26"),
        (said("x", "A", gold="A", n_options="4"), "n_options is '4'"),
        (said("x", 5, gold="A"), "column 'response' must be text or null, not int"),
        (said("x", [5], gold="A"), "column 'response' must be text or null, not int"),
        ({"item_id": "x", "gold": "A"}, "column 'response' is missing; the columns are item_id, gold: rename"),
    ],
)
def test_a_wrong_prediction_is_named_with_what_is_wrong(row: Row, message: str) -> None:
    with pytest.raises(DataError, match=message):
        grade_rows(None, [said("ok", "A", gold="A"), row])


def test_predictions_need_an_item_and_items_need_one_gold() -> None:
    with pytest.raises(DataError, match=r"prediction 1: there is no item 'b'; the items are a"):
        grade_rows([{"id": "a", "gold": "A"}], [said("b", "A")])
    with pytest.raises(DataError, match="item 'a' is there twice, with different gold"):
        grade_rows([{"id": "a", "gold": "A"}, {"id": "a", "gold": "B"}], [])
    with pytest.raises(ManifestError, match="protocol 'zeroeval'"):
        grade_rows(None, [], "zeroeval")


def test_rows_are_graded_as_they_come() -> None:
    seen: list[int] = []

    def rows() -> Iterator[Row]:
        for i in range(3):
            seen.append(i)
            yield said(str(i), "Answer: A", gold="A")

    stream = offline_rows.graded(offline_rows.form("mcq_idk"), None, rows())
    assert next(stream).item.id == "0"
    assert seen == [0]


def test_the_abstention_aware_figures_stand_beside_the_report() -> None:
    rows = [said(str(i), f"Answer: {letter}", gold="A") for i, letter in enumerate("AAAAAABBEE")]
    found = grade_rows(None, rows).abstention(seed=1)
    assert (found["coverage"], found["accuracy_answered"], found["break_even_penalty"]) == (0.8, 0.75, 3.0)
    assert found["intervals"]["trad_score"]["lower"] < 0.6 < found["intervals"]["trad_score"]["upper"]  # type: ignore[index,call-overload,operator]


@pytest.mark.parametrize(("protocol", "right"), [("corrected", 1), ("original", 2)])
def test_a_refusal_answers_nothing_in_the_corrected_protocol_alone(protocol: str, right: int) -> None:
    rows = [
        {"item_id": f"q{i}", "gold": "A", "response": "Answer: A", "finish_reason": reason}
        for i, reason in enumerate(("stop", "refusal"))
    ]
    assert offline_rows.grade_rows(offline_rows.form("mcq_idk", protocol), None, rows).tally.sums[0] == right


@pytest.mark.parametrize(("protocol", "right"), [("corrected", 2), ("original", 1)])
def test_of_two_options_of_one_text_the_original_knows_one(protocol: str, right: int) -> None:
    items = [{"item_id": "q", "gold": "A", "options": ["same", "other", "same"]}]
    rows = [{"item_id": "q", "response": f"Answer: {letter}"} for letter in "ABC"]
    assert offline_rows.grade_rows(offline_rows.form("mcq_idk", protocol), items, rows).tally.sums[0] == right
