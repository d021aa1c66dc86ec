"""What every task refuses: rows that are no items, pictures that are none, settings that do not go together."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Image, JsonValue
from layton_batch.tasks import BUILT_IN, load_task
from layton_batch.tasks.protocol import TaskOptions

Row = dict[str, JsonValue]
BLANKED: JsonValue = {"header": ["House", "Name"], "rows": [["1", "___"]]}


@cache
def first_row(name: str) -> str:
    task = load_task(name, TaskOptions("llm"))
    return task.bundled("llm").read_text(encoding="utf-8").splitlines()[0]


def good(name: str) -> Row:
    """A row of the task's bundled items."""
    row: Row = json.loads(first_row(name))
    return row


WRONG: list[tuple[str, str, Any]] = [
    *(("layton", "id", value) for value in ([5], None, "a\nb", "x" * 201)),
    *(("layton", column, value) for column, value in (("description", ["a"]), ("first_hint", 3), ("answer", True))),
    *((name, column, " ") for name, column in (("layton", "description"), ("qa", "question"), ("rome", "question"))),
    ("qa", "id", "a\nb"), ("qa", "answer", ["a"]), ("mcq_idk", "question", 7),
    *(("mcq_idk", "options", value) for value in (
        None, ["only"], [str(i) for i in range(26)], ["a", " "], ["a", None], {"a": 1}, "no list", "[" * 5_000)),
    *(("mcq_idk", "answer", value) for value in (None, "krypton", 4, True)),
    ("zebralogic", "puzzle", None), ("zebralogic", "solution", None), ("zebralogic", "solution", BLANKED),
    ("rome", "question_id", None), ("rome", "evaluator", ""), ("rome", "evaluator_kwargs", "[" * 100_000),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column", "value"), WRONG)
def test_a_wrong_row_names_its_place_and_column(name: str, column: str, value: JsonValue) -> None:
    task = load_task(name, TaskOptions("demo" if name == "mcq_idk" else "llm"))
    row = good(name)
    item = row["question_id" if name == "rome" else "id"]
    with pytest.raises(DataError) as caught:
        task.items([row, row | ({} if column.endswith("id") else {"id": item}) | {column: value}])
    said = str(caught.value)
    assert "row 2" in said
    assert column in said or "option" in said
    assert column.endswith("id") or str(item) in said


# ---- pictures --------------------------------------------------------------------------------------------------------

KINDS = {
    "image/jpeg": b"\xff\xd8\xff\xdb....", "image/png": b"\x89PNG\r\n\x1a\n....", "image/gif": b"GIF89a....",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBPVP8 ",
}  # fmt: skip
COLUMN = {"layton": "img", "rome": "img", "qa": "images"}


def pictured(name: str, picture: JsonValue) -> tuple[Image, ...]:
    split = "llm" if name == "qa" else "vlm"
    row = good(name) | {COLUMN[name]: picture} | ({"split": "vlm"} if name == "layton" else {})
    (item,) = load_task(name, TaskOptions(split)).items([row])
    return tuple(item.images)


@pytest.mark.parametrize("name", COLUMN)
def test_pictures_are_known_by_their_first_bytes_in_each_form(name: str) -> None:
    for media_type, content in KINDS.items():
        plain = base64.b64encode(content).decode()
        forms: list[JsonValue] = [plain, f"data:image/x;base64,{plain}", plain[:8] + "\n" + plain[8:]]
        if name != "qa":
            forms.append({"bytes": plain, "path": "x"})
        for form in forms:
            assert pictured(name, form) == (Image(media_type, plain),)


@pytest.mark.parametrize(("name", "picture"), [
    *((name, base64.b64encode(b"<html>").decode()) for name in COLUMN),
    *((name, 7) for name in COLUMN), *((name, "abc") for name in ("layton", "rome")),
    ("layton", None), ("layton", "not base64!"), ("layton", "é"), ("layton", ""), ("rome", [KINDS["image/gif"].hex()]),
])  # fmt: skip
def test_what_is_no_picture_is_refused_with_the_items_column(name: str, picture: JsonValue) -> None:
    with pytest.raises(DataError, match=COLUMN[name]):
        pictured(name, picture)


# ---- settings --------------------------------------------------------------------------------------------------------

UNFIT: list[tuple[str, TaskOptions, dict[str, JsonValue], str]] = [
    *((name, TaskOptions("xlm"), {}, "split 'xlm'") for name in ("layton", "zebralogic", "rome")),
    ("layton", TaskOptions("llm", 5), {}, "hints 5"),
    *((name, TaskOptions("llm", 1), {}, "hints") for name in ("qa", "mcq_idk", "zebralogic", "rome")),
    *((name, TaskOptions("llm"), {"protocol": "zero"}, "zero") for name in BUILT_IN if name != "qa"),
    *((name, TaskOptions("llm"), {"protocol": ["original"]}, "protocol") for name in ("zebralogic", "rome")),
    ("layton", TaskOptions("llm", reasons=True), {}, "jury.reasons"),
    ("layton", TaskOptions("llm"), {"fence": False}, "prompts"),
    ("layton", TaskOptions("llm"), {"protocol": "original"}, "participant_system and judge_system"),
    ("qa", TaskOptions("llm"), {"fence": False}, "templates"),
    ("mcq_idk", TaskOptions("demo"), {"n_options": 1}, "task_options.n_options: "),
    ("mcq_idk", TaskOptions("demo"), {"instruction": False}, "instruction"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "settings", "named"), UNFIT)
def test_settings_that_do_not_fit_are_refused_by_name(
    name: str, options: TaskOptions, settings: dict[str, JsonValue], named: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        load_task(name, options, settings)
    assert named in str(caught.value)


def test_an_unknown_task_prompt_or_split_of_bundled_items_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"did you mean 'layton'\?"):
        load_task("leyton", TaskOptions("llm"))
    for name in BUILT_IN:
        with pytest.raises(ManifestError, match="'nothing'"):
            load_task(name, TaskOptions("llm", 0, {"nothing": tmp_path / "x"}))
        with pytest.raises(DataError, match="'x'"):
            load_task(name, TaskOptions("llm")).bundled("x")
