"""Gold sets: read as published, refused with place and column where they are not."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from layton_batch.errors import DataError
from layton_batch.scoring.gold import HUMAN, VERDICT, GoldSet, labels_of, read_gold
from layton_batch.settings import Settings

Cell = str | int | float | bool | None | list[int]


def row(**changes: Cell) -> dict[str, Cell]:
    base: dict[str, Cell] = {
        "riddle_id": "r1", "provider": "openai", "model": "m", "n_hints": 0, "answer": "7", "justification": "because",
        "is_answer_correct_b": True, "is_answer_correct_a": None,
        "is_justification_correct_b": False, "is_justification_correct_a": None,
        "both_correct_b": False, "both_correct_a": None,
        "human_answer_correct": True, "human_justification_correct": True, "human_both_correct": True,
    }  # fmt: skip
    return {**base, **changes}


def without(*columns: str) -> dict[str, Cell]:
    return {column: value for column, value in row().items() if column not in columns}


def decided(found: GoldSet, row: int, judge: str) -> tuple[bool | None, ...]:
    """On answer, justification and both."""
    return tuple(found.rows[row, prefix + judge] for prefix in VERDICT.values())


def labelled(found: GoldSet, row: int) -> tuple[bool | None, ...]:
    return found.rows.select(HUMAN.values()).row(row)


NOTHING = (None, None, None)


def gold(tmp_path: Path, *rows: dict[str, Cell]) -> GoldSet:
    path = tmp_path / "gold.jsonl"
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in rows))
    return read_gold("gold.jsonl", tmp_path, Settings(tmp_path))


def test_a_row_is_read_with_its_judges_in_column_order(tmp_path: Path) -> None:
    found = gold(tmp_path, row())
    assert found.judges == ("b", "a")
    named = found.rows.select("item_id", "provider", "model", "n_hints", "answer", "justification")
    assert named.rows() == [("r1", "openai", "m", 0, "7", "because")]
    assert [decided(found, 0, judge) for judge in "ba"] == [(True, False, False), NOTHING]
    assert labelled(found, 0) == (True, True, True)


@pytest.mark.parametrize(
    ("answer", "justification", "both"),
    [(True, False, False), (True, True, True), (True, None, None), (False, None, None)],
)
def test_both_is_derived_where_the_file_leaves_it_out(
    tmp_path: Path, answer: bool, justification: bool | None, both: bool | None
) -> None:
    bare = without("both_correct_a", "both_correct_b", "human_both_correct")
    found = gold(tmp_path, bare | {"is_answer_correct_b": answer, "is_justification_correct_b": justification})
    assert [decided(found, 0, judge) for judge in "ba"] == [(answer, justification, both), NOTHING]
    assert labelled(found, 0) == (True, True, True)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        *(
            ((column,), rf"gold\.jsonl: not a gold set, it has no column {column}")
            for column in ("riddle_id", "provider", "model", "human_answer_correct", "human_justification_correct")
        ),
        (tuple(name for name in row() if name.endswith(("_a", "_b"))), "no column is_answer_correct_<judge>"),
        (("is_justification_correct_a",), "judge 'a' has only one of the columns"),
    ],
)
def test_a_missing_column_is_named(tmp_path: Path, columns: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        gold(tmp_path, without(*columns))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("riddle_id", 5.5), ("riddle_id", True), ("riddle_id", ""),
        ("provider", None), ("model", [1]), ("n_hints", "0"), ("n_hints", True),
        ("n_hints", -1), ("n_hints", None), ("answer", 7), ("is_answer_correct_b", 1), ("both_correct_b", "true"),
        ("is_justification_correct_b", "no"), ("human_answer_correct", 0), ("both_correct_b", 1),
    ],
)  # fmt: skip
def test_a_wrong_type_names_line_and_column(tmp_path: Path, column: str, value: Cell) -> None:
    with pytest.raises(DataError, match=rf"gold\.jsonl, line 2: column '{column}' must be"):
        gold(tmp_path, row(), row(**{"riddle_id": "r2", column: value}))


def test_the_same_prediction_twice_is_refused_with_both_places_and_another_hint_level_is_not(tmp_path: Path) -> None:
    first, other = row(), row(riddle_id="r2")
    assert len(gold(tmp_path, first, row(n_hints=1)).rows) == 2
    with pytest.raises(DataError, match=r"line 3: item 'r1' of model 'm' stands already in .*gold\.jsonl, line 1"):
        gold(tmp_path, first, other, first, other)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"judge_model_b": "x"}, {"judge_model_b": "y"}, "one gold set has one jury"),
        ({"judge_model_b": 5}, {}, "must be text or null"),
        ({"judge_settings_b": "[]"}, {}, "must be a JSON object"),
    ],
)
def test_records_of_a_judge_that_contradict_each_other_are_refused(
    tmp_path: Path, first: dict[str, Cell], second: dict[str, Cell], reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        gold(tmp_path, row(**first), row(**{"riddle_id": "r2", **second}))


def test_a_label_that_a_later_sample_brings_is_not_lost(tmp_path: Path) -> None:
    unlabelled = dict.fromkeys(("human_answer_correct", "human_justification_correct", "human_both_correct"))
    found = gold(tmp_path, row(sample=1, **unlabelled), row(sample=2), row(sample=3))
    assert labels_of(found, "both_correct")["correct"].to_list() == [True]
