"""`check` names what is wrong with a file of items, and CSV files and numbers as ids are items like others."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.files.sources import read_rows
from layton_batch.settings import Settings
from tests.support.cli_harness import ROOT, Ending, call

DATA = ROOT / "layton_batch" / "tasks" / "data"
TEXT = "A baker sells nine loaves before noon and keeps the last for the fox that waits at the mill"


def item(number: int, **more: object) -> dict[str, object]:
    texts = {"answer": f"because of reason {number}", "justification": "it follows", "solution": "so it is"}
    return {"id": f"i{number}", "description": f"{TEXT} {number}", "category": "Lateral", **texts, **more}


def checked(tmp_path: Path, rows: Sequence[Mapping[str, object]], *more: str) -> Ending:
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return call("check", path, "--json", *more)


def kinds(ending: Ending) -> list[tuple[str, str]]:
    found = ending.table()["findings"]
    assert isinstance(found, list)
    return [(one["kind"], one["item"]) for one in found]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([item(0), item(1, description=None)], [("row", "i1")]),
        ([item(0), item(1, split="vlm")], [("row", "i1")]),
        ([item(0), item(1, split="vlm", img="bm8gcGljdHVyZQ==")], [("row", "i1")]),
        ([item(0), item(1, answer=None, justification=None, solution=None)], [("no reference", "i1")]),
        ([item(0), item(1, description=TEXT.upper() + "  0")], [("duplicate", "i1")]),
    ],
)
def test_each_kind_of_fault_is_found_and_errors_end_with_2(
    tmp_path: Path, rows: list[dict[str, object]], expected: list[tuple[str, str]]
) -> None:
    ended = checked(tmp_path, rows)
    assert kinds(ended) == expected
    errors = {"row"} & {kind for kind, _ in expected}
    assert ended.code == (2 if errors else 0)
    found = ended.table()["findings"]
    assert isinstance(found, list)
    assert [one["level"] for one in found] == ["error" if errors else "warning"] * len(expected)


def test_a_picture_that_was_cut_off_is_found(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (DATA / "layton" / "riddles_vlm.jsonl").read_text().splitlines()[:2]]
    rows[1]["img"] = b64encode(b64decode(rows[1]["img"])[:-20]).decode()
    ended = checked(tmp_path, rows)
    assert kinds(ended) == [("picture", rows[1]["id"])]
    assert ended.table()["fits"] == {"vlm": 2}


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mcq_idk", "mcq_idk/demo"),
        ("zebralogic", "zebralogic/puzzles"),
        ("rome", "rome/questions_llm"),
        ("qa", "qa/questions"),
    ],
)
def test_the_bundled_items_are_clean_and_their_task_is_found_without_a_name(name: str, file: str) -> None:
    ended = call("check", DATA / f"{file}.jsonl", "--json")
    assert (ended.code, kinds(ended)) == (0, []), ended.out
    assert ended.table()["task"] == name


# ---- CSV and numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,description\n1,a,b\n", "line 2: 3 cells; the header has 2"),
        ("id,id\n1,2\n", "names a column twice: 'id'"),
        ("id,,b\n1,2,3\n", "a column without a name"),
        ('id,description\n1,a\n2,"b\n3,c\n', "line 3: not CSV"),
        ("\n,\nid,description\n1,a,b\n", "line 4: 3 cells; the header has 2"),
        ("", "there is no row"),
        ("id,description\n1,\xff\n", "not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_said_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(text.encode("latin-1"))
    ended = call("check", path)
    assert ended.code == 2
    assert words in ended.err


# ---- as spreadsheet programs write them ------------------------------------------------------------------------------

CELLS = [["id", "question", "answer"], ["1", "Größe; in cm?", "1,5"], ["2", "Why?", ""]]
ROWS = [{"id": "1", "question": "Größe; in cm?", "answer": "1,5"}, {"id": "2", "question": "Why?", "answer": None}]


def written(separator: str, before: str = "") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(CELLS)
    return before + text.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", written(",").encode("utf-8-sig")),
        ("a.csv", 'id, question, answer\n1, "Größe; in cm?", "1,5"\n2, Why?, \n'.encode()),
        ("a.csv", written(";").encode("utf-8-sig")),
        ("a.csv", written(";", "sep=;\r\n").encode()),
        ("a.csv", written(";", "\r\n").encode()),
        ("a.csv", written("\t").encode("utf-16")),
        ("a.tsv", written("\t").encode("utf-16")),
        ("a.jsonl", b"\xef\xbb\xbf" + "".join(json.dumps(row) + "\n" for row in ROWS).encode()),
        ("a.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in ROWS).encode()),
    ],
)
def test_what_spreadsheet_programs_write_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    read = read_rows(name, tmp_path, Settings(tmp_path))
    assert list(read) == ROWS
    line = 1 if name.endswith("jsonl") else 3 if content.startswith((b"sep=", b"\r\n")) else 2
    assert str(read.locations[0]).endswith(f"line {line}")


def test_a_workbook_s_first_sheet_is_read_and_its_first_row_is_the_header(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")

    def saved(name: str, *rows: list[object]) -> None:
        book = openpyxl.Workbook()
        for cells in rows:
            book.active.append(cells)
        book.create_sheet("notes").append(["nothing of ours"])
        book.save(tmp_path / name)

    head = ["question", "answer", "images", None]
    saved("quiz.xlsx", [], head, ["How many?", 7, '["a.png"]'], [], ["When?", 1.5])
    read = read_rows("quiz.xlsx", tmp_path, Settings(tmp_path))
    assert list(read) == [
        {"question": "How many?", "answer": 7, "images": ["a.png"]},
        {"question": "When?", "answer": 1.5, "images": None},
    ]
    assert [location.line for location in read.locations] == [3, 5]
    saved("cover.xlsx", ["My quiz"])
    saved("titled.xlsx", ["My quiz"], ["question", "answer"])
    saved("formula.xlsx", ["question", "answer"], ["Why?", "=A2"])  # by a program that computes no values
    (tmp_path / "none.xlsx").write_bytes(b"PK\x03\x04 and nothing else")
    for name in ("cover", "titled", "formula", "none"):
        with pytest.raises(DataError, match=rf"{name}\.xlsx"):
            read_rows(f"{name}.xlsx", tmp_path, Settings(tmp_path))


def test_a_workbook_that_unpacks_to_more_than_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openpyxl")
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(3 << 20))
    monkeypatch.setattr(limits.LIMITS, "unpacked_mib", 1)
    with pytest.raises(DataError, match=r"bomb\.xlsx: unpacked, the file has more than 1 MiB"):
        read_rows("bomb.xlsx", tmp_path, Settings(tmp_path))
