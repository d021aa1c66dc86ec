"""Files of answers that were given elsewhere: which column is the item, which the reply, and whose it is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from layton_batch.errors import DataError
from layton_batch.interchange.prediction_files import ImportedModel, item_rows, read_answers, with_ids
from layton_batch.interchange.prediction_files import models as models_of_rows
from layton_batch.records import JsonValue
from layton_batch.settings import Settings

ITEMS = ("a", "b")
REPLY = '{"answer": "7", "justification": "I counted."}'


def models(path: Path, items: Collection[str], settings: Settings, **options: Any) -> list[ImportedModel]:
    """Read a file, and the models of its rows."""
    return models_of_rows(read_answers(path, settings), items, **options)


def written(folder: Path, *rows: Mapping[str, JsonValue]) -> Path:
    path = folder / "finch.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "reply"),
    [
        ({"custom_id": "a", "answer": REPLY, "model": "finch"}, REPLY),  # layton-eval's result files
        ({"custom_id": "a", "answer": json.loads(REPLY)}, REPLY.replace(": ", ":").replace(", ", ",")),
        ({"id": "a", "custom_id": "req-1", "response": "seven"}, "seven"),
        ({"riddle_id": "a", "answer": "7", "justification": "so"}, '{"answer":"7","justification":"so"}'),
        ({"question_id": "a", "answer": "7"}, '{"answer":"7"}'),
        ({"item_id": "a", "answer": '=HYPERLINK("x")'}, '{"answer":"=HYPERLINK(\\"x\\")"}'),
    ],
)
def test_a_row_is_an_item_and_a_reply(tmp_path: Path, row: Mapping[str, JsonValue], reply: str) -> None:
    (imported,) = models(written(tmp_path, row), ITEMS, Settings(tmp_path, {}))
    assert (imported.spec.name, imported.spec.family) == ("finch", "finch")
    assert [(item, response.text) for item, response in imported.answers.items()] == [("a", reply)]


def test_a_column_says_whose_answers_they_are_and_who_made_the_model(tmp_path: Path) -> None:
    rows = [
        {"item_id": item, "response": "7", "model": model, **more}
        for item in ITEMS
        for model, more in (("finch", {"provider": "openai"}), ("wren", {"family": "gemini", "provider": "x"}))
    ]
    path, settings = written(tmp_path, *rows), Settings(tmp_path, {})
    found = [
        (one.spec.name, one.spec.provider, one.spec.family, len(one.answers)) for one in models(path, ITEMS, settings)
    ]
    assert found == [("finch", "openai", "openai", 2), ("wren", "x", "gemini", 2)]
    (wren,) = models(path, ITEMS, settings, name="wren", family="own")
    assert (wren.spec.name, wren.spec.provider, wren.spec.family) == ("wren", "x", "own")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"custom_id": "nowhere", "answer": "7"}], "line 1: there is no item 'nowhere'"),
        ([{"answer": "7"}], "line 1: has no id of an item"),
        ([{"item_id": "a"}], "line 1: there is no reply"),
        ([{"item_id": "a", "answer": ["7"]}], "line 1: 'answer' and 'justification' must be text"),
        ([{"item_id": "a", "answer": "7"}, {"item_id": "a", "answer": "8"}], "line 2: item 'a' is there twice"),
        (
            [{"item_id": "a", "answer": "7", "model": "finch"}, {"item_id": "b", "answer": "8"}],
            "line 2: column 'model' must be text",
        ),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, rows: list[Mapping[str, JsonValue]], reason: str) -> None:
    with pytest.raises(DataError) as caught:
        models(written(tmp_path, *rows), ITEMS, Settings(tmp_path, {}))
    assert f"finch.jsonl, {reason}" in str(caught.value)


def test_a_workbook_s_numbers_are_replies_too(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for cells in (["item_id", "answer", "sample"], ["a", 144, 1], ["b", 0.5, 1]):
        book.active.append(cells)
    book.save(tmp_path / "finch.xlsx")
    (imported,) = models(tmp_path / "finch.xlsx", ITEMS, Settings(tmp_path, {}))
    assert [response.text for response in imported.answers.values()] == ['{"answer":"144"}', '{"answer":"0.5"}']


def test_rows_with_their_question_need_no_id(tmp_path: Path) -> None:
    rows = [{"question": question, "expected": "7", "answer": "8", "model": model}
            for model in ("finch", "wren") for question in ("Six?", "Seven?")]  # fmt: skip
    file = with_ids(read_answers(written(tmp_path, *rows), Settings(tmp_path, {})))
    items = item_rows(file)
    assert [(item["question"], item["answer"]) for item in items] == [("Six?", "7"), ("Seven?", "7")]
    ids = {str(item["id"]) for item in items}
    assert [set(model.answers) for model in models_of_rows(file, ids)] == [ids, ids]
    longer = with_ids(read_answers(written(tmp_path, {**rows[0], "question": "Five?"}, *rows), Settings(tmp_path, {})))
    assert item_rows(longer)[1:] == items
