"""Files of predictions and items with something wrong in them: each task names the row and the column."""

from __future__ import annotations

import pytest

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from tests.tasks import offline_rows
from tests.tasks.offline_rows import form

from .zebralogic.grids import SOLUTION, reply

Row = dict[str, JsonValue]
ROME: Row = {"question_id": "a", "evaluator": "number_matching", "evaluator_kwargs": {"value_to_match": 3}}
ITEMS: dict[str, list[Row]] = {
    "mcq_idk": [{"id": "a", "gold": "A"}], "zebralogic": [{"id": "a", "solution": SOLUTION}], "rome": [ROME],
}  # fmt: skip
GOOD: dict[str, Row] = {
    "mcq_idk": {"item_id": "a", "response": "Answer: A"}, "zebralogic": {"id": "a", "output": reply()},
    "rome": {"question_id": "a", "answer": "3"},
}  # fmt: skip


@pytest.mark.parametrize(("name", "wrong", "column"), [
    ("mcq_idk", {"response": "A"}, "item_id"),
    ("mcq_idk", {"item_id": True, "response": "A"}, "item_id"),
    ("mcq_idk", {"item_id": "zz", "response": "A"}, "there is no item 'zz'"),
    ("mcq_idk", {"item_id": "a", "response": 5}, "response"),
    ("mcq_idk", {"item_id": "a"}, "response"),
    ("zebralogic", {"output": "x"}, "id"),
    ("zebralogic", {"id": "a"}, "output"),
    ("zebralogic", {"id": "a", "output": 5}, "output"),
    ("rome", {"answer": "3"}, "question_id"),
])  # fmt: skip
def test_a_wrong_prediction_is_named_by_its_row_and_column(name: str, wrong: Row, column: str) -> None:
    with pytest.raises(DataError) as caught:
        offline_rows.report(form(name), ITEMS[name], [GOOD[name], wrong])
    assert "prediction 2" in str(caught.value)
    assert column in str(caught.value)
