"""Rows of labels: the columns that are known, what is refused and where, whose labels they are, what several say."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from layton_batch.errors import DataError
from layton_batch.files.sources import RowLocation
from layton_batch.scoring.annotations import (
    Annotation,
    join,
    parse_annotation,
    with_annotations,
)
from layton_batch.scoring.evidence import Entrant, content_key
from tests.support.evidence import Ballot, Label, labels_frame, votes_frame

A, B = Entrant("a", "p", 0), Entrant("b", "p", 0)
ROW: dict[str, Any] = {"item_id": "i1", "model": "a", "answer_correct": True, "justification_correct": False}


def parsed(**row: Any) -> Annotation:
    return parse_annotation({**ROW, **row}, RowLocation("labels.jsonl", 7))


def test_the_columns_of_layton_eval_s_annotations_are_known() -> None:
    theirs = {
        "riddle_id": "088-294", "model": "gemini-3-flash-preview", "provider": "gemini", "custom_id": "088-294",
        "source_file": "benchmark_gemini_gemini-3-flash_llm_hints_2_thinking_32k.jsonl",
        "is_answer_correct": True, "is_justification_correct": False, "notes": "",
    }  # fmt: skip
    one = parse_annotation(theirs, RowLocation("llm.jsonl", 1))
    assert (one.item_id, one.model, one.provider, one.n_hints) == ("088-294", "gemini-3-flash-preview", "gemini", 2)
    assert (one.answer_correct, one.justification_correct, one.both_correct) == (True, False, False)
    assert one.also == "gemini-3-flash_thinking_32k"


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"item_id": None}, "column 'item_id' must be text"),
        ({"item_id": 3.5}, "column 'item_id' must be text or null, not 3.5"),
        ({"model": ""}, "column 'model' must be text"),
        ({"answer_correct": "yes"}, "column 'answer_correct' must be true, false or null, not 'yes'"),
        ({"answer_correct": None, "justification_correct": None}, "has no label"),
        ({"both_correct": True}, "'both_correct' contradicts"),
        ({"n_hints": -1}, "column 'n_hints' must be a whole number"),
        ({"time": "yesterday"}, "column 'time' must be a time"),
        ({"annotator": 5}, "column 'annotator' must be text or null"),
    ],
)
def test_a_row_that_is_no_label_is_named_by_file_and_line(row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError) as refused:
        parsed(**row)
    assert str(refused.value).startswith("labels.jsonl, line 7: ")
    assert complaint in str(refused.value)


def votes() -> pl.DataFrame:
    return votes_frame(
        [
            Ballot(A, "i1", 1, 3, content_key("x", None)),
            Ballot(A, "i2", 0, 3, content_key("y", None)),
            Ballot(B, "i1", 3, 3, content_key("z", "because")),
        ]
    )


def present(item_id: str) -> str:
    """The digest of an item as it is now."""
    return f"{item_id} now"


@pytest.mark.parametrize(("annotations", "joined", "apart"), [
    # a label with text joins only that answer, whatever the model is called
    ([{"answer": "x"}], {("a", "i1"): [""]}, {}),
    ([{"model": "renamed", "answer": "z", "justification": "because"}], {("b", "i1"): [""]}, {}),
    ([{"answer": "another"}], {}, {"another answer": 1}),
    ([{"model": "c"}, {"item_id": "i9"}, {"provider": "q"}, {"n_hints": 2}], {},
     {"another model": 3, "another item": 1}),
    ([{"item_digest": "i1 now"}, {"item_digest": "i1 then", "annotator": "ann"},
      {"item_digest": "i1 then", "answer_correct": False}], {("a", "i1"): [""]}, {"changed item": 2}),
    # a label without a name may be that of the person who gave a name
    ([{"annotator": "ann"}, {"answer_correct": False}, {"item_id": "i2"}],
     {("a", "i1"): ["ann"], ("a", "i2"): [""]}, {"no name": 1}),
])  # fmt: skip
def test_labels_on_what_is_not_here_or_was_another_are_left_out_and_counted(
    annotations: list[dict[str, Any]], joined: dict[tuple[str, str], list[str]], apart: dict[str, int]
) -> None:
    found = join([parsed(**row) for row in annotations], votes(), {A: "a-2026", B: "shared-id"}, present)
    assert {(key.model, key.item_id): sorted(given) for key, given in found.by_prediction.items()} == joined
    assert found.apart == apart


def labelled(*annotations: Annotation, gold: list[Label] | None = None) -> dict[tuple[str, str], tuple[int, int, bool]]:
    joined = join(annotations, votes(), {}, present)
    found = with_annotations(votes(), labels_frame(gold or []), joined, "answer_correct")
    rows = found.select("model", "item_id", "yes", "total", "correct").iter_rows()
    return {(model, item_id): (yes, total, correct) for model, item_id, yes, total, correct in rows}


def test_the_gold_set_is_one_of_the_annotators() -> None:
    gold = [Label(A, "i1", 1, 3, False, content_key("x", None)), Label(B, "i1", 3, 3, True, content_key("q", None))]
    others = {("b", "i1"): (3, 3, True)}
    assert labelled(gold=gold) == {("a", "i1"): (1, 3, False)} | others
    assert labelled(parsed(annotator="ann"), gold=gold) == others  # a tie
    twice = (parsed(annotator="ann"), parsed(annotator="bob"))
    assert labelled(*twice, gold=gold) == {("a", "i1"): (1, 3, True)} | others
