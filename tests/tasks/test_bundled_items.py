"""The bundled riddles keep the promises of their README, and each bundled file is the one that was checked."""

from __future__ import annotations

import base64
import io
import json
import re
from collections import Counter
from functools import cache
from hashlib import sha256

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "layton_batch" / "tasks" / "data" / "layton"
COLUMNS = [
    "id", "split", "category", "picarats", "url", "description", "first_hint", "second_hint", "third_hint",
    "special_hint", "solution", "answer", "justification",
]  # fmt: skip
HINTS = ("first_hint", "second_hint", "third_hint", "special_hint")
MAX_PICTURE_BYTES = 40_000

DIGESTS = {
    "layton/gold_llm.jsonl": "2a56726b4619f8640fd84af449f1794191c8218cbd71a5dcaba4e400ad29f72a",
    "layton/gold_vlm.jsonl": "c401114c7705c44b3d1616323a9198b0d325058a616812584424209856f52e46",
    "layton/riddles_llm.jsonl": "fa1f9ff9d9a3e99e065116ac919b88419ee5323a65f703b18af7332b98286e8c",
    "layton/riddles_vlm.jsonl": "c1b4c7a03f03f960c849c770982d2cbb653b3cd7ecfe126cf3011deae08252ae",
    "mcq_idk/demo.jsonl": "9645aa33aa3a41365537d98ce088bf32e4bfda139777284b2cd5329c129d06d5",
    "qa/questions.jsonl": "3d327b2c67f52c50920e0ab80d090bfd1159030ad04fd1a6ccfe592e0078636b",
    "rome/questions_llm.jsonl": "e6aa5a72d3eeb9f472e82364de18e658317f51674f9fb803104c4dccda7966ea",
    "rome/questions_vlm.jsonl": "f06a229a5cda30bc6fd0217a26c6e5ef76311aeb3eb7f9317169e8267dc7132c",
    "zebralogic/puzzles.jsonl": "b195705389d9b65106d03cfb00f0b15e0f1d42ed5e393909aec1f6cd6a260a6a",
}
"""SHA-256 of each file: its answers were computed, and each grid's one solution was found by two solvers."""

Row = dict[str, object]


def test_every_bundled_file_is_the_one_that_was_checked() -> None:
    data = FOLDER.parent
    assert {
        str(path.relative_to(data)): sha256(path.read_bytes()).hexdigest() for path in data.rglob("*.jsonl")
    } == DIGESTS


@cache
def rows(split: str) -> list[Row]:
    text = (FOLDER / f"riddles_{split}.jsonl").read_bytes().decode("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def text_of(row: Row, column: str) -> str:
    value = row[column]
    assert isinstance(value, str), f"{row['id']}: {column} is {value!r}"
    return value


def picture_of(row: Row) -> bytes:
    return base64.b64decode(text_of(row, "img"), validate=True)


both_splits = pytest.mark.parametrize("split", ["llm", "vlm"])


@pytest.mark.parametrize(("split", "least_rows", "least_categories"), [("llm", 42, 7), ("vlm", 16, 6)])
def test_there_are_enough_riddles_of_enough_kinds(split: str, least_rows: int, least_categories: int) -> None:
    assert len(rows(split)) >= least_rows
    assert len({row["category"] for row in rows(split)}) >= least_categories


@both_splits
def test_every_row_has_the_published_columns_in_their_order(split: str) -> None:
    wanted = [*COLUMNS, "img"] if split == "vlm" else COLUMNS
    assert all(list(row) == wanted for row in rows(split))
    assert all(row["split"] == split and row["url"] is None for row in rows(split))


@both_splits
def test_picarats_are_whole_numbers_from_10_to_70(split: str) -> None:
    assert all(isinstance(row["picarats"], int) and 10 <= row["picarats"] <= 70 for row in rows(split))


def test_ids_and_descriptions_are_unique_over_both_files() -> None:
    everything = [*rows("llm"), *rows("vlm")]
    for column in ("id", "description"):
        assert [value for value, count in Counter(row[column] for row in everything).items() if count > 1] == []
    assert all(re.fullmatch(r"lb-[tv]-\d{3}", text_of(row, "id")) for row in everything)


@both_splits
def test_every_riddle_has_two_to_four_different_hints_without_a_gap(split: str) -> None:
    for row in rows(split):
        given = [row[column] for column in HINTS if row[column] is not None]
        assert 2 <= len(given) <= 4, row["id"]
        assert given == [row[column] for column in HINTS[: len(given)]], f"{row['id']}: a hint is missing in between"
        assert len(set(given)) == len(given), row["id"]


@both_splits
def test_every_text_is_filled_in_and_tidy(split: str) -> None:
    for row in rows(split):
        for column in ("category", "description", "solution", "answer", "justification"):
            text = text_of(row, column)
            assert text.strip() == text, f"{row['id']}: {column} begins or ends with white space"
            assert text, f"{row['id']}: {column} is empty"
            assert not re.search(r"[{}]|  ", text), f"{row['id']}: {column} has an unfilled gap or two spaces"


@both_splits
def test_solutions_and_justifications_take_two_to_five_sentences(split: str) -> None:
    for row in rows(split):
        for column in ("solution", "justification"):
            sentences = len(re.findall(r"[.!?](?=\s|$)", text_of(row, column)))
            assert 2 <= sentences <= 5, f"{row['id']}: {column} has {sentences}"


@both_splits
def test_no_first_hint_gives_the_answer_away(split: str) -> None:
    for row in rows(split):
        answer, hint = text_of(row, "answer").lower(), text_of(row, "first_hint").lower()
        if len(answer) > 3:
            assert answer not in hint, row["id"]


@both_splits
def test_text_is_stored_as_utf8_and_not_as_escapes(split: str) -> None:
    assert b"\\u" not in (FOLDER / f"riddles_{split}.jsonl").read_bytes()


def test_every_picture_is_a_small_jpeg_and_no_two_are_the_same() -> None:
    pictures = [picture_of(row) for row in rows("vlm")]
    assert all(picture.startswith(b"\xff\xd8\xff") and picture.endswith(b"\xff\xd9") for picture in pictures)
    assert max(map(len, pictures)) <= MAX_PICTURE_BYTES
    assert len(set(pictures)) == len(pictures)


def test_every_picture_decodes_to_its_full_size() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow, a development dependency, is not installed")
    for row in rows("vlm"):
        with image.open(io.BytesIO(picture_of(row))) as picture:
            picture.load()
            assert (picture.format, picture.size, picture.mode) == ("JPEG", (640, 480), "RGB"), row["id"]
