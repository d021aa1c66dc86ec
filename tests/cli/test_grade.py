"""``grade``: predictions made elsewhere, graded by a benchmark's rules and ranked; all is written, or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.cli_harness import call
from tests.support.graded_files import Row, answers, board, lines, models, replies
from tests.support.paths import SHARED_DATA

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "a\x1b[31m<b>[red]|x\n"


@pytest.fixture(autouse=True)
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def test_several_models_are_ranked_with_intervals_and_kinds_of_failure_as_each_is_graded_alone() -> None:
    good, bad = lines("good.jsonl", replies("AAAAAAAAAB")), lines("bad.jsonl", replies("BBBBBBBBE-"))
    document = board("mcq_idk", "--predictions", bad, "--predictions", f"best={good}")
    found = models(document)
    assert list(found) == ["bad", "best"]  # in the order given
    assert (found["best"]["rank"], found["best"]["rank_box"], found["best"]["score"]) == (1, [1, 1], 80.0)
    assert (found["bad"]["rank"], found["bad"]["score"]) == (2, -90.0)
    assert found["bad"]["failures"] == {"wrong": 8, "abstained": 1, "no_letter": 1}
    assert found["best"]["interval"][0] < 80 < found["best"]["interval"][1]  # type: ignore[index]
    assert (document["metric"], document["n_items"], document["notes"]) == ("idk_score", 10, [])
    report = call("grade", "mcq_idk", "--predictions", good, "--json").table()
    assert (found["best"]["report"], found["best"]["source"]) == (report, good)
    (line,) = (
        line for line in call("grade", "mcq_idk", "--predictions", good).out.splitlines() if "CI (new items)" in line
    )
    ends = [float(end) for end in line.split()[-2].split("–")]
    assert ends == pytest.approx(found["best"]["interval"], abs=2.5)  # drawn with another number of models beside it


def test_a_board_needs_one_prediction_an_item_and_one_file_may_have_more() -> None:
    twice, other = lines("twice.jsonl", replies("A") * 2), lines("a=b.jsonl", replies("A"))  # a path with a sign is one
    assert call("grade", "mcq_idk", "--predictions", twice, "--json").table()["n"] == 2
    assert call("grade", "mcq_idk", "--predictions", twice, "--predictions", other).code == 2


def test_a_folder_and_a_pattern_are_a_model_a_file_and_names_are_made_unique() -> None:
    for folder in ("x", "y"):
        Path(folder).mkdir()
        lines(f"{folder}/same.jsonl", replies("AB"))
    Path("x/b.json").write_text(json.dumps(replies("BB")), encoding="utf-8")
    Path("x/notes.txt").write_text("not predictions", encoding="utf-8")
    for given, names in (
        (["x"], ["b", "same"]),
        (["x/*.js*"], ["b", "same"]),
        (["x/same.jsonl", "y/same.jsonl"], ["x/same", "y/same"]),
        (["x/same.jsonl", "x/same.jsonl"], ["x/same", "x/same (2)"]),
    ):
        words = [word for source in given for word in ("--predictions", source)]
        assert list(models(board("mcq_idk", *words))) == names


def test_a_name_from_outside_can_neither_act_nor_break_a_table_and_text_without_an_encoding_ends_well() -> None:
    both = ["--predictions", lines(f"{EVIL}.jsonl", replies("AB")), "--predictions", lines("p.jsonl", replies("BB"))]
    end = call("grade", "mcq_idk", *both, "--chart", "c.svg")
    assert (end.code, "\x1b" in end.out, "<b>[red]|x" in end.out) == (0, False, True)
    ElementTree.parse("c.svg")
    table = call("grade", "mcq_idk", *both, "--table", "-").out.splitlines()
    assert [line.replace("\\|", "").count("|") for line in table] == [6] * 4
    assert not any("<b>" in line or "\x1b" in line for line in table)
    path = lines("r.jsonl", answers("A"))
    name = os.fsdecode(b"\xff")
    assert len(models(board("rome", "--predictions", f"{name}={path}", "--predictions", f"b={path}"))) == 2


def test_everything_is_written_where_everything_can_be_made() -> None:
    given = ("mcq_idk", "--predictions", lines("p.jsonl", replies("AAB")))
    assert call("grade", *given, "--chart", "c.svg").code == call("grade", *given, "--chart", "c.PNG").code == 0
    assert ElementTree.parse("c.svg").getroot().tag == f"{SVG}svg"
    assert Path("c.PNG").read_bytes().startswith(b"\x89PNG\r\n")
    end = call("grade", "rome", "--predictions", lines("r.jsonl", answers("AB")), "--updated", "u", "--json")
    assert (end.code, end.table()["final_score"][1], Path("u").stat().st_size > 0) == (0, 2, True)  # type: ignore[index]


def test_named_ensembles_vote_with_the_models_they_name() -> None:
    given = []
    for name, letters in {"a": "BBA", "b": "BAA", "c": "ABB"}.items():
        given += ["--predictions", lines(f"{name}.jsonl", replies(letters))]
    named = ("--ensemble", "cheap=a,b", "--ensemble", "all three = a, b, c", "--protocol", "original")
    rows: list[Row] = board("mcq_idk", *given, *named)["ensembles"]  # type: ignore[assignment]
    assert [row["name"] for row in rows] == ["cheap", "all three"]
    assert [round(row["metrics"]["trad_score"]["mean"], 3) for row in rows] == [0.333, 0.333]  # type: ignore[index]


def test_items_without_a_prediction_are_named_and_bundled_items_are_those_of_their_file() -> None:
    path = lines("p.jsonl", [{"item_id": "demo-001", "response": "Answer: A"}])
    end = call("grade", "mcq_idk", "--predictions", path, "--items", "bundled", "--json")
    assert end.code == 0
    assert "items have no prediction (demo-002, " in end.err
    for task, row in (
        ("zebralogic", {"id": "lb-zebra-2x2-1", "output": "{}"}),
        ("rome", {"question_id": "lb-rt-001", "answer": "A"}),
    ):
        assert call("grade", task, "--predictions", lines(f"{task}.jsonl", [row]), "--items", "bundled").code == 0


# ---- published values ------------------------------------------------------------------------------------------------


@pytest.mark.shared_data
def test_rome_reproduces_its_files_byte_for_byte_beside_the_predictions() -> None:
    example = SHARED_DATA / "rome" / "example"
    Path("predictions.json").write_bytes((example / "predictions.json").read_bytes())
    files = ("rome", "--items", example / "annotation.json", "--predictions", "predictions.json")
    published = (example / "scores.json").read_bytes()
    end = call("grade", *files, "--protocol", "original", "--updated", "updated.json")
    assert (end.code, Path("scores.json").read_bytes(), end.out.encode()) == (0, published, published + b"\n")
    assert Path("updated.json").read_bytes() == (example / "updated_predictions.json").read_bytes()
    Path("scores.json").unlink()
    for more in ((), ("--protocol", "original", "--json")):
        assert call("grade", *files, *more).code == 0
        assert not Path("scores.json").exists()
