"""Files of answers that were given elsewhere: which column is the item, which the reply, and whose it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl
import pytest

from layton_batch.records import JsonValue
from tests.support.cli_harness import Ending, call
from tests.support.harness_files import write_lines
from tests.support.lab import Lab, lab, manifest_text

TEXT = manifest_text((), limit=2)
FIRST, SECOND = "lb-t-001", "lb-t-002"
REPLY = '{"answer": "7", "justification": "I counted."}'


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with a manifest of two riddles and no model, whose run begins with the first import."""
    with lab(tmp_path_factory.mktemp("there")) as found:
        found.manifest(TEXT)
        yield found


def imported(there: Lab, file: Path, *words: str) -> Ending:
    """Import the model that the first word names from a file."""
    manifest = there.folder / "manifest.toml"
    return call("import", manifest, "--runs", there.runs, "--predictions", file, "--model", *words)


@pytest.mark.parametrize(
    ("model", "row", "reply"),
    [
        ("one", {"custom_id": FIRST, "answer": REPLY, "model": "one"}, REPLY),  # layton-eval's result files
        ("two", {"custom_id": FIRST, "answer": json.loads(REPLY)}, REPLY.replace(": ", ":").replace(", ", ",")),
        ("three", {"id": FIRST, "custom_id": "req-1", "response": "seven"}, "seven"),
        ("four", {"riddle_id": FIRST, "answer": "7", "justification": "so"}, '{"answer":"7","justification":"so"}'),
        ("five", {"question_id": FIRST, "answer": "7"}, '{"answer":"7"}'),
        ("six", {"item_id": FIRST, "answer": '=HYPERLINK("x")'}, '{"answer":"=HYPERLINK(\\"x\\")"}'),
    ],
)
def test_a_row_is_an_item_and_a_reply(there: Lab, model: str, row: Mapping[str, JsonValue], reply: str) -> None:
    ended = imported(there, write_lines(there.folder / "finch.jsonl", [row]), model)
    assert ended.code == 0, ended.err
    said = there.table(TEXT, "predictions").filter(pl.col("raw_text").is_not_null(), model=model)
    assert said.select("item_id", "raw_text", "family").rows() == [(FIRST, reply, model)]


def test_columns_say_whose_answers_they_are_and_who_made_the_model(there: Lab) -> None:
    file = write_lines(there.folder / "finch.jsonl", [
        {"item_id": item, "response": "7", "model": model, "provider": provider, **more}
        for item in (FIRST, SECOND)
        for model, provider, more in (("finch", "openai", {}), ("wren", "x", {"family": "gemini"}), ("lark", "x", {}))
    ])  # fmt: skip
    for words in (("finch",), ("wren",), ("lark", "--family", "own")):
        assert "2 answers" in imported(there, file, *words).err
    models = there.table(TEXT, "predictions").filter(pl.col("model").is_in(["finch", "wren", "lark"]))
    found = set(models.select("model", "provider", "family").iter_rows())
    assert found == {("finch", "openai", "openai"), ("wren", "x", "gemini"), ("lark", "x", "own")}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"custom_id": "nowhere", "answer": "7"}], "line 1: there is no item 'nowhere'"),
        ([{"answer": "7"}], "line 1: has no id of an item"),
        ([{"item_id": FIRST}], "line 1: there is no reply"),
        ([{"item_id": FIRST, "answer": ["7"]}], "line 1: 'answer' and 'justification' must be text"),
        (
            [{"item_id": FIRST, "answer": "7"}, {"item_id": FIRST, "answer": "8"}],
            f"line 2: item '{FIRST}' is there twice",
        ),
        (
            [{"item_id": FIRST, "answer": "7", "model": "crow"}, {"item_id": SECOND, "answer": "8"}],
            "line 2: column 'model' must be text",
        ),
    ],
)
def test_a_wrong_row_is_named(there: Lab, rows: list[Mapping[str, JsonValue]], reason: str) -> None:
    ended = imported(there, write_lines(there.folder / "finch.jsonl", rows), "crow")
    assert (ended.code, f"finch.jsonl, {reason}" in ended.err) == (2, True), ended.err


def test_a_workbook_s_numbers_are_replies_too(there: Lab) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for cells in (["item_id", "answer", "sample"], [FIRST, 144, 1], [SECOND, 0.5, 1]):
        book.active.append(cells)
    book.save(there.folder / "numbers.xlsx")
    assert imported(there, there.folder / "numbers.xlsx", "numbers").code == 0
    said = there.table(TEXT, "predictions").filter(model="numbers").sort("item_id")
    assert said["raw_text"].to_list() == ['{"answer":"144"}', '{"answer":"0.5"}']


def test_rows_with_their_question_need_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows: list[dict[str, JsonValue]] = [
        {"question": question, "expected": "7", "answer": "8", "model": model}
        for model in ("finch", "wren") for question in ("Six?", "Seven?")
    ]  # fmt: skip
    panel = '[[judges]]\nname = "j"\nprovider = "mistral"\nmodel = "sirocco-referee"\n'
    (tmp_path / "panel.toml").write_text(panel, encoding="utf-8")
    items = []
    longer_rows = [rows[0] | {"question": "Five?"}, *rows]
    for name, given, answered in (("short", rows, "4 of 8"), ("longer", longer_rows, "6 of 11")):
        file = write_lines(tmp_path / f"{name}.jsonl", given)
        ended = call("judge", file, "--panel", "panel.toml", "--sandbox", "--max-usd", "0")
        assert (ended.code, f"{answered} requests answered" in ended.err) == (3, True), ended.err
        items.append([json.loads(line) for line in (tmp_path / f"{name}-items.jsonl").read_text().splitlines()])
    short, longer = items
    assert [(item["question"], item["answer"]) for item in short] == [("Six?", "7"), ("Seven?", "7")]
    assert longer[1:] == short
