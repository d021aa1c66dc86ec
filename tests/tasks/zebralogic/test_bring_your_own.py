"""Predictions made elsewhere: rows in, the report out."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from tests.tasks import offline_rows
from tests.tasks.offline_rows import form

from .grids import SOLUTION, WRONG, reply

Row = dict[str, JsonValue]


def items(*ids: str, **more: JsonValue) -> list[Row]:
    return [{"id": name, "size": "3*2", "solution": SOLUTION, **more} for name in ids]


def report(predictions: list[Row], protocol: str = "corrected", given: list[Row] | None = None) -> dict[str, JsonValue]:
    known = items("a", "b", "c", "d") if given is None else given
    found = offline_rows.report(form("zebralogic", protocol), known, predictions)
    assert json.loads(json.dumps(found)) == found
    return found


def rows(found: Mapping[str, JsonValue]) -> list[Row]:
    value = found["rows"]
    assert isinstance(value, list)
    return [dict(row) for row in value if isinstance(row, Mapping)]


def test_the_report_has_the_documented_fields_in_the_predictions_order() -> None:
    found = report([{"id": "b", "output": reply(WRONG)}, {"id": "a", "output": reply()}, {"id": "c", "output": "?"}])
    assert (found["score"], found["n_cases"], found["n_scored"], found["n_errored"]) == (1 / 3, 3, 3, 0)
    assert found["failure_counts"] == {"wrong_answer": 1, "none": 1, "no_answer": 1}
    assert rows(found)[0] == {
        "item_id": "b", "tag": "wrong_answer", "score": 0.0, "cells_correct": 5, "cells_total": 6,
        "cell_accuracy": 5 / 6, "wrong_cells": ["house 1:Name"], "note": None,
    }  # fmt: skip
    assert [row["item_id"] for row in rows(found)] == ["b", "a", "c"]


@pytest.mark.parametrize("protocol", ["original", "corrected"])
def test_infrastructure_errors_are_counted_but_not_scored(protocol: str) -> None:
    found = report(
        [
            {"id": "a", "output": reply()},
            {"id": "b", "output": None},
            {"id": "c", "error": "APITimeoutError: slow"},
            {"id": "d", "output": None, "error": "KeyError: 'x'"},
        ],
        protocol,
    )
    assert (found["score"], found["n_cases"], found["n_scored"], found["n_errored"]) == (1.0, 4, 1, 3)
    assert found["failure_counts"] == {"none": 1, "adapter_error": 2, "harness_error": 1}


def test_the_summary_has_zeroevals_fields_and_null_where_no_puzzle_is() -> None:
    found = report([{"id": "a", "output": reply(reasoning="four")}, {"id": "b", "output": reply(WRONG)}], "zeroeval")
    assert found["summary"] == {
        "Puzzle Acc": "50.00", "Cell Acc": "91.67", "No answer": "0.00", "Easy": "50.00", "Hard": None, "Total": 2,
        "Reason Lens": "2.00", "Small": "50.00", "Medium": None, "Large": None, "XL": None,
    }  # fmt: skip
    empty = report([], "zeroeval")["summary"]
    assert isinstance(empty, Mapping)
    assert (empty["Puzzle Acc"], empty["Reason Lens"], empty["Total"]) == (None, None, 0)


def test_sets_tell_items_of_one_id_apart() -> None:
    other: JsonValue = {"header": ["House", "Name"], "rows": [["1", "Zoe"]]}
    given: list[Row] = [
        *items("a", set="june"),
        {"id": "a", "set": "final", "solution": other},
        *items("b", set="june"),
    ]
    predictions: list[Row] = [
        {"id": "a", "set": "final", "output": reply()}, {"id": "a", "set": "june", "output": reply()},
        {"id": "b", "output": reply()},
    ]  # fmt: skip
    found = report(predictions, given=given)
    assert [row["cells_total"] for row in rows(found)] == [1, 6, 6]
    with pytest.raises(DataError, match="'set' is None, but the items of this id are of the sets 'final', 'june'"):
        report([{"id": "a", "output": reply()}], given=given)
