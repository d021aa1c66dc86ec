"""label plan and label import: all or nothing, twice changes nothing, a later word takes the place of an earlier, and
nothing in a spreadsheet can do harm."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl

import layton_batch as lb
from layton_batch.files import tables
from tests.labels.conftest import Copied
from tests.labels.label_runs import ANNOTATED, Row, answers, board, board_and_notes, label, write_rows
from tests.support.cli_harness import call, refused


def imported(root: Path, name: str, rows: list[Row]) -> Row:
    (row,) = lb.label_import(root, write_rows(root.parent / name, rows)).frame.to_dicts()
    return row


def folder(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_importing_twice_changes_nothing_and_a_later_label_takes_the_place_of_an_earlier(copied: Copied) -> None:
    root = copied(ANNOTATED)
    said = answers(root)
    first = [label(one, False, annotator="ann", time="2026-11-20T10:00:00Z") for one in said]
    taken = imported(root, "first.jsonl", first)
    assert taken == {"run": root.name, "added": len(said), "changed": 0, "unchanged": 0, "strangers": 0, "replaced": 0,
                     "stranger_rows": [], "outdated": 0, "unnamed": 0}  # fmt: skip
    rows, notes = board_and_notes(root, "--this-set")
    assert {row["score"] for row in rows} == {0.0}
    assert f"+{len(said)} labels since" in notes
    before = folder(root)
    assert imported(root, "first.jsonl", first) == taken | {"added": 0, "unchanged": len(said)}
    assert folder(root) == before
    later = imported(root, "later.jsonl", [label(said[0], True, annotator="ann", time="2026-11-21T10:00:00Z")])
    assert (later["added"], later["changed"]) == (0, 1)
    again = imported(root, "first.jsonl", first)
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, len(said))
    assert max(row["score"] for row in board(root, "--this-set")) > 0
    both = [label(said[1], says, annotator="bob") for says in (False, True)]
    assert imported(root, "both.jsonl", both)["added"] == 1
    nameless = imported(root, "nameless.jsonl", [label(one, True) for one in said[:3]])
    assert (nameless["added"], nameless["unnamed"]) == (3, 3)


def test_a_file_with_a_bad_row_changes_nothing_and_labels_on_what_the_run_lacks_are_kept_and_told(
    copied: Copied, tmp_path: Path
) -> None:
    root = copied(ANNOTATED)
    said, before = answers(root), folder(root)
    bad = [label(one, True) for one in said]
    bad[4]["justification_correct"] = "no"
    files = write_rows(tmp_path / "good.jsonl", bad[:3]), write_rows(tmp_path / "bad.jsonl", bad)
    words = "bad.jsonl, line 5: column 'justification_correct' must be true, false or null"
    assert words in refused("label", "import", root.name, *files)
    assert folder(root) == before
    typo = f"{said[0]['model']}e"
    rows = [label(said[0], True), label(said[0], True) | {"model": typo}]
    rows += [label(said[0], True) | {"item_id": f"none-{number}"} for number in range(5)]
    suggestion = f"the run has no model '{typo}'; did you mean '{said[0]['model']}'?"
    alone = refused("label", "import", root.name, write_rows(tmp_path / "none.jsonl", rows[1:2]))
    assert "nothing was imported" in alone
    assert f"line 1: {suggestion}" in alone
    shown = call("label", "import", root.name, write_rows(tmp_path / "some.jsonl", rows))
    assert shown.code == 0
    for told in (
        "7 labels added, 0 changed, 0 unchanged", "6 of them on answers that the run does not have (yet):",
        f"line 2: {suggestion}", "line 6: there is no item 'none-3'", "1 more such label",
    ):  # fmt: skip
        assert told in shown.err
    assert "none-4" not in shown.err
    assert "1 label not used: of a model that has no answers here" in board_and_notes(root)[1]


# ---- a plan as a spreadsheet -----------------------------------------------------------------------------------------


def planned(root: Path, file: str = "ask.csv") -> list[dict[str, str]]:
    ended = call("label", "plan", root.name, "--labels", "6", "--out", file)
    assert ended.code == 0, ended.err
    return list(csv.DictReader(io.StringIO(Path(file).read_text(encoding="utf-8-sig"))))


def written(rows: list[Any], file: str = "ask.csv") -> str:
    """Write the rows as a spreadsheet does: other separators, and ids that look like numbers."""
    with Path(file).open("w", encoding="utf-8-sig", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(row | {"item_id": f"{row['item_id']}.2026"} for row in rows)
    return file


def test_a_plan_is_labelled_in_a_spreadsheet_and_taken_back(copied: Copied) -> None:
    root = copied(ANNOTATED)
    rows, said = planned(root), {(one["item_id"], one["model"]): one for one in answers(root)}
    assert list(rows[0])[:5] == ["label_id", "item_id", "question", "reference", "answer"]
    for row in rows:
        assert row["question"]
        assert row["reference"]
        assert row["answer"] == said[row["item_id"], row["model"]]["answer"]
        assert (row["answer_correct"], row["justification_correct"]) == ("", "")
    rows[0] |= {"answer_correct": "TRUE", "justification_correct": "WAHR", "note": "'=2+2", "annotator": "ada"}
    rows[1] |= {"answer_correct": "no"}
    taken = call("label", "import", root.name, written(rows))
    assert (taken.code, "all others say the same" in taken.err) == (0, False)
    assert all(told in taken.err for told in ("2 labels added", "4 rows without a label left out"))
    assert "0 labels added, 0 changed, 2 unchanged" in call("label", "import", root.name, "ask.csv").err
    rows[1] |= {"answer_correct": ""}
    right = call("label", "import", root.name, written(rows)).err
    assert "5 rows without a label left out; all others say the same: if an empty cell means the opposite" in right
    assert sum(row["own_labels"] for row in board(root, "--metric", "answer_correct")) == 2
    kept = [json.loads(line) for path in (root / "labels").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert (kept[0]["note"], kept[0]["annotator"]) == ("=2+2", "ada")
    rows = planned(root, "more.csv")
    assert "--out" not in call("label", "plan", root.name, "--labels", "12", "--out", "all.csv").out
    other = rows[0] | {"answer_correct": "no", "adjudicated": "ja", "Checked by": "eve"}
    decided = {name.title() if name == "annotator" else name: value for name, value in other.items()}
    taken = call("label", "import", root.name, written([decided | {"Annotator": "chair"}], "decided.csv"))
    assert (taken.code, "adjudicated" in taken.err, "checked by" in taken.err) == (0, False, True)
    (path,) = set((root / "labels").glob("000002-*"))
    (decision,) = map(json.loads, path.read_text().splitlines())
    assert (decision["annotator"], decision["adjudicated"]) == ("chair", True)


def test_a_filled_file_is_not_replaced_and_a_wrong_row_is_named_and_nothing_is_imported(copied: Copied) -> None:
    root = copied(ANNOTATED)
    plan, take = ("label", "plan", root.name, "--labels", "6", "--out"), ("label", "import", root.name)
    rows = planned(root)
    assert "none of its 6 rows has a label: fill in answer_correct" in refused(*take, "ask.csv")
    assert planned(root) == rows
    rows[3] |= {"answer_correct": "perhaps"}
    written([row | {"answer_correct": row["answer_correct"] or "true"} for row in rows])
    assert "column 'answer_correct' must be true, false or null, not 'perhaps'" in refused(*take, "ask.csv")
    before = Path("ask.csv").read_bytes()
    assert "ask.csv: 6 rows filled in" in refused(*plan, "ask.csv")
    assert Path("ask.csv").read_bytes() == before
    Path("quiz.csv").write_text("id,question\n1,What?\n", encoding="utf-8")
    assert "quiz.csv: the file there is not of `label plan`" in refused(*plan, "quiz.csv")
    assert "name a file that ends in .csv or .jsonl" in refused(*plan, "ask.docx")
    Path("none.csv").write_bytes(before.partition(b"\n")[0] + b"\n")
    assert planned(root, "none.csv")
    for row in rows:
        del row["label_id"]
    assert "ask.csv: the column 'label_id' is gone" in refused(*take, written(rows))
    assert not list((root / "labels").glob("*.jsonl"))


def test_no_cell_is_a_formula(copied: Copied) -> None:
    root, texts = copied(ANNOTATED), ["=HYPERLINK(1)", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "  =1", "＝1"]
    for path in (root / "tables" / "predictions").rglob("*.parquet"):
        table = tables.read_part(path)
        tables.write(path, table.with_columns(answer=pl.Series(texts * table.height).head(table.height)))
    assert call("label", "plan", root.name, "--labels", "99", "--out", "all.csv").code == 0
    with Path("all.csv").open(encoding="utf-8-sig", newline="") as handle:
        cells = {row["answer"] for row in csv.DictReader(handle)}
    assert (len(cells), {cell[0] for cell in cells}) == (len(texts), {"'"})
