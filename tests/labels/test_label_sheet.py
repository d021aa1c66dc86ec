"""A label plan as a spreadsheet and back: everything that a person needs is in it, and nothing in it can do harm."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from layton_batch.reports.label_sheet import sheet_csv
from tests.labels.conftest import Copied
from tests.labels.label_desk import PLAIN, answers
from tests.support.cli_harness import call


def planned(root: Path, file: str) -> list[dict[str, str]]:
    ended = call("label", "plan", root.name, "--labels", "6", "--out", file)
    assert ended.code == 0, ended.err
    return list(csv.DictReader(io.StringIO(Path(file).read_text(encoding="utf-8-sig"))))


def written(file: str, rows: list[dict[str, str]], change: Callable[[str], str] = str) -> None:
    with Path(file).open("w", encoding="utf-8-sig", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(
            {name: change(cell) if name == "item_id" else cell for name, cell in row.items()} for row in rows
        )


def test_a_plan_is_labelled_in_a_spreadsheet_and_taken_back(copied: Copied) -> None:
    root = copied(PLAIN)
    rows, said = planned(root, "ask.csv"), {(one["item_id"], one["model"]): one for one in answers(root)}
    assert list(rows[0])[:5] == ["label_id", "item_id", "question", "reference", "answer"]
    for row in rows:
        assert row["question"]
        assert row["reference"]
        assert row["answer"] == said[row["item_id"], row["model"]]["answer"]
        assert (row["answer_correct"], row["justification_correct"]) == ("", "")
    rows[0] |= {"answer_correct": "TRUE", "justification_correct": "WAHR", "note": "'=2+2", "annotator": "ada"}
    rows[1] |= {"answer_correct": "no"}
    written("ask.csv", rows, change=lambda cell: f"{cell}.2026")  # what a spreadsheet makes of an id
    taken = call("label", "import", root.name, "ask.csv")
    assert (taken.code, "2 labels added" in taken.err, "4 rows without a label left out" in taken.err) == (
        0,
        True,
        True,
    )
    assert "all others say the same" not in taken.err
    again = call("label", "import", root.name, "ask.csv")
    assert "0 labels added, 0 changed, 2 unchanged" in again.err
    rows[1] |= {"answer_correct": ""}
    written("right.csv", rows)
    right = call("label", "import", root.name, "right.csv").err
    assert (
        "5 rows without a label left out; all others say the same: if an empty cell means the opposite, fill" in right
    )
    board = json.loads(call("leaderboard", root.name, "--format", "json", "--metric", "answer_correct").out)
    assert sum(row["own_labels"] for row in board) == 2
    (kept,) = [
        json.loads(line) for path in (root / "labels").glob("*.jsonl") for line in path.read_text().splitlines()
    ][:1]
    assert (kept["note"], kept["annotator"]) == ("=2+2", "ada")


def test_a_filled_file_is_not_replaced_by_the_next_plan(copied: Copied) -> None:
    root = copied(PLAIN)
    rows = planned(root, "ask.csv")
    assert planned(root, "ask.csv") == rows
    rows[2]["answer_correct"] = "yes"
    written("ask.csv", rows)
    before = Path("ask.csv").read_bytes()
    refused = call("label", "plan", root.name, "--labels", "6", "--out", "ask.csv")
    assert (refused.code, Path("ask.csv").read_bytes()) == (2, before)
    assert "ask.csv: 1 row filled in" in refused.err
    Path("quiz.csv").write_text("id,question\n1,What?\n", encoding="utf-8")
    other = call("label", "plan", root.name, "--labels", "6", "--out", "quiz.csv")
    assert (other.code, "quiz.csv: the file there is not of `label plan`" in other.err) == (2, True)
    Path("none.csv").write_bytes(sheet_csv([]))
    assert planned(root, "none.csv")


def test_a_wrong_row_is_named_and_nothing_is_imported(copied: Copied) -> None:
    root = copied(PLAIN)
    other = call("label", "plan", root.name, "--labels", "6", "--out", "ask.docx")
    assert (other.code, "--out ask.docx: name a file that ends in .csv or .jsonl" in other.err) == (2, True)
    rows = planned(root, "ask.csv")
    empty = call("label", "import", root.name, "ask.csv")
    assert (empty.code, "none of its 6 rows has a label: fill in answer_correct" in empty.err) == (2, True)
    for row in rows:
        row["answer_correct"] = "true"
    rows[3]["answer_correct"] = "perhaps"
    written("ask.csv", rows)
    refused = call("label", "import", root.name, "ask.csv")
    assert refused.code == 2
    assert "column 'answer_correct' must be true (yes) or false (no), not 'perhaps'; empty means" in refused.err
    for row in rows:
        del row["label_id"]
    written("ask.csv", rows)
    unknown = call("label", "import", root.name, "ask.csv")
    assert (unknown.code, "ask.csv: the column 'label_id' is gone" in unknown.err) == (2, True)
    assert not list((root / "labels").glob("*.jsonl"))


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "  =1", "＝1"])
def test_no_cell_is_a_formula(text: str) -> None:
    (row,) = csv.DictReader(io.StringIO(sheet_csv([{"answer": text, "note": None}]).decode("utf-8-sig")))
    assert row["answer"].startswith("'")
