"""``grade`` with several models: one board, whatever they are called and wherever they lie; and what mcq_idk draws."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.cli_harness import Ending, call
from tests.support.graded_files import Row, board, lines, models, refused, replies
from tests.support.paths import SHARED_DATA

DATA = SHARED_DATA
real = pytest.mark.shared_data
SVG = "{http://www.w3.org/2000/svg}"
EVIL = "a\x1b[31m<b>[red]|x\n"


@pytest.fixture(autouse=True)
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


# ---- the board -----------------------------------------------------------------------------------------------------


def test_several_models_are_ranked_with_boxes_intervals_and_kinds_of_failure() -> None:
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
    assert found["best"]["report"] == report
    assert found["best"]["source"] == good


def test_one_file_has_the_interval_that_it_would_have_on_a_board() -> None:
    alone, other = lines("alone.jsonl", replies("AAAAAAABBE")), lines("other.jsonl", replies("AAAAAAABBE"))
    found = models(board("mcq_idk", "--predictions", alone, "--predictions", other))["alone"]["interval"]
    low, high = found  # type: ignore[misc]
    printed = call("grade", "mcq_idk", "--predictions", alone).out
    (line,) = (line for line in printed.splitlines() if "CI (new items)" in line)
    ends = [float(end) for end in line.split()[-2].split("–")]
    assert ends == pytest.approx([low, high], abs=2.5)  # drawn with another number of models beside it


def test_what_is_printed_is_a_leaderboard_of_at_most_80_columns() -> None:
    files = [lines(f"model-with-quite-a-long-name-{i}.jsonl", replies("A" * (9 - i) + "BE-")) for i in range(4)]
    names = ",".join(file.removesuffix(".jsonl") for file in files[1:])
    end = call(
        "grade",
        "mcq_idk",
        *(word for file in files for word in ("--predictions", file)),
        "--ensemble",
        f"all-but-one={names}",
    )
    assert end.code == 0
    title, *heads = end.out.splitlines()[:3]
    assert title == "Leaderboard · idk score · graded by rule · 9 items · for new items of this kind"
    assert heads[-1].split() == ["rank", "model", "score", "95", "%", "CI", "range", "alike"]
    for title in ("not right, by kind", "reports", "all-but-one"):
        assert title in end.out
    assert "model-with-quite-a-long-name-0: ranked on the 9 items that all models have; it has 12." in end.out
    assert max(map(len, end.out.splitlines())) <= 80 or "ranked on" in max(end.out.splitlines(), key=len)


def test_models_are_ranked_on_the_items_they_share_and_it_is_said() -> None:
    one, other = lines("one.jsonl", replies("AAAA")), lines("other.jsonl", replies("BBAA", start=2))
    document = board("mcq_idk", "--predictions", one, "--predictions", other)
    assert document["n_items"] == 2
    assert models(document)["other"]["score"] == -100.0
    assert models(document)["other"]["report"]["n"] == 4  # type: ignore[index]
    assert len(document["notes"]) == 2  # type: ignore[arg-type]
    apart = lines("apart.jsonl", replies("AA", start=50))
    assert "no item is in the predictions of all models" in refused(
        "mcq_idk", "--predictions", one, "--predictions", apart
    )


@pytest.mark.parametrize(
    "changed", [{"gold": "B"}, {"prompt_sha1": "two"}, {"n_options": 3}], ids=["gold", "prompt", "options"]
)
def test_items_that_only_share_their_ids_are_not_ranked_together(changed: Row) -> None:
    rows = replies("AA")
    extra: Row = {"prompt_sha1": "one"} if "prompt_sha1" in changed else {}
    one = lines("one.jsonl", [row | extra for row in rows])
    other = lines("other.jsonl", [row | changed for row in rows])
    assert "item 'q0' is not the same in one.jsonl and other.jsonl" in refused(
        "mcq_idk", "--predictions", one, "--predictions", other
    )


def test_a_board_needs_one_prediction_an_item_and_one_file_may_have_more() -> None:
    twice = lines("twice.jsonl", replies("A") * 2)
    assert call("grade", "mcq_idk", "--predictions", twice, "--json").table()["n"] == 2
    other = lines("other.jsonl", replies("A"))
    assert "item 'q0' is there twice" in refused("mcq_idk", "--predictions", twice, "--predictions", other)


def test_names_are_made_unique_and_asked_ones_have_to_be() -> None:
    for folder in ("x", "y"):
        Path(folder).mkdir()
        lines(f"{folder}/same.jsonl", replies("AB"))
    document = board("mcq_idk", "--predictions", "x/same.jsonl", "--predictions", "y/same.jsonl")
    assert list(models(document)) == ["x/same", "y/same"]
    same = ["--predictions", "x/same.jsonl"]
    assert list(models(board("mcq_idk", *same, *same))) == ["x/same", "x/same (2)"]
    named = ["--predictions", "m=x/same.jsonl"]
    assert "two of --predictions are called 'm'" in refused("mcq_idk", *named, *named)


def test_a_folder_and_a_pattern_are_a_model_a_file() -> None:
    Path("all").mkdir()
    lines("all/a.jsonl", replies("AB"))
    Path("all/b.json").write_text(json.dumps(replies("BB")), encoding="utf-8")
    Path("all/notes.txt").write_text("not predictions", encoding="utf-8")
    assert list(models(board("mcq_idk", "--predictions", "all"))) == ["a", "b"]
    assert list(models(board("mcq_idk", "--predictions", "all/*.js*"))) == ["a", "b"]
    Path("none").mkdir()
    assert "is a folder without predictions" in refused("mcq_idk", "--predictions", "none")


def test_a_path_with_an_equals_sign_is_a_path() -> None:
    lines("a=b.jsonl", replies("A"))
    assert call("grade", "mcq_idk", "--predictions", "a=b.jsonl", "--json").table()["n"] == 1


def test_a_name_from_outside_can_neither_act_nor_break_a_table() -> None:
    evil, plain = lines(f"{EVIL}.jsonl", replies("AB")), lines("plain.jsonl", replies("BB"))
    both = ["--predictions", evil, "--predictions", plain]
    end = call("grade", "mcq_idk", *both, "--chart", "c.svg")
    assert end.code == 0
    assert "\x1b" not in end.out
    assert "<b>[red]|x" in end.out
    ElementTree.parse("c.svg")
    table = call("grade", "mcq_idk", *both, "--table", "-").out.splitlines()
    assert [line.replace("\\|", "").count("|") for line in table] == [6] * 4
    assert not any("<b>" in line or "\x1b" in line for line in table)


def test_text_that_no_encoding_has_ends_well() -> None:
    rows = [{"question_id": "q", "task": "\ud800", "evaluator": "choices_matching", "evaluator_kwargs": {"label": "A"},
             "answer": "A"}]  # fmt: skip
    path = Path("r.json")
    path.write_text(json.dumps(rows), encoding="utf-8")
    assert call("grade", "rome", "--predictions", path, "--json").table()["accuracy"] == 100.0
    assert call("grade", "rome", "--predictions", path).code == 0
    name = os.fsdecode(b"\xff")
    assert len(models(board("rome", "--predictions", f"{name}=r.json", "--predictions", "b=r.json"))) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["mcq_idk", "--predictions", "=p.jsonl"], "NAME=FILE needs a name and a file"),
        (["mcq_idk", "--predictions", "a="], "NAME=FILE needs a name and a file"),
        (["mcq_idk", "--predictions", "x" * 5000], "no such file or folder, and there is no run"),
        (["mcq_idk", "--predictions", "~nobody-of-this-name/p"], "no such file or folder"),
        (["mcq_idk", "--predictions", "empty.jsonl"], "there is no row"),
        (["mcq_idk", "--predictions", "empty.json"], "the list is empty"),
        (["rome", "--predictions", "empty.jsonl"], "there are no predictions in it"),
        (["rome", "--predictions", "empty.json", "--predictions", "p.jsonl"], "there are no predictions in it"),
        (["mcq_idk", "--predictions", "junk.parquet"], "not a readable Parquet file"),
        (["mcq_idk", "--predictions", "p.jsonl", "--chart", "c.gif"], "ends in .svg or .png"),
        (["mcq_idk", "--predictions", "p.jsonl", "--chart", "folder.svg"], "is a folder"),
        (["mcq_idk", "--predictions", "p.jsonl", "--table", "p.jsonl"], "is read"),
        (["mcq_idk", "--predictions", "p.jsonl", "--table", "o.svg", "--chart", "o.svg"], "written twice"),
        (["mcq_idk", "--predictions", "p.jsonl", "--table", "-", "--json"], "both write on stdout"),
        (["mcq_idk", "--predictions", "p.jsonl", "--metric", "accuracy"], "ranked by idk_score or trad_score"),
        (["zebralogic", "--predictions", "p.jsonl", "--chart", "c.svg"], "--chart is for mcq_idk"),
        (["rome", "--predictions", "p.jsonl", "--table", "t.md"], "--table is for mcq_idk"),
        (["rome", "--predictions", "p.jsonl", "--predictions", "q=p.jsonl", "--updated", "u"], "here are 2"),
    ],
)  # fmt: skip
def test_wrong_use_is_told_before_anything_is_written(arguments: list[str], told: str) -> None:
    Path("empty.jsonl").touch()
    Path("empty.json").write_text("[]")
    Path("junk.parquet").write_bytes(b"PAR1 is not enough")
    Path("folder.svg").mkdir()
    lines("p.jsonl", replies("A"))
    before = sorted(Path().iterdir())
    assert told in refused(*arguments)
    assert sorted(Path().iterdir()) == before


# ---- mcq_idk -------------------------------------------------------------------------------------------------------


def pictures(*arguments: str) -> Callable[[str], Ending]:
    path = lines("p.jsonl", replies("AAB"))

    def draw(name: str) -> Ending:
        return call("grade", "mcq_idk", "--predictions", path, *arguments, name, "--json")

    return draw


def test_a_picture_is_what_its_name_says() -> None:
    draw = pictures("--chart")
    assert draw("c.svg").code == draw("c.PNG").code == 0
    assert ElementTree.parse("c.svg").getroot().tag == f"{SVG}svg"
    assert Path("c.PNG").read_bytes().startswith(b"\x89PNG\r\n")


@real
def test_the_published_table_comes_out_as_markdown() -> None:
    published = [
        row for row in json.loads((DATA / "idk" / "published_table.json").read_text()) if row["benchmark"] == "gpqa"
    ]
    files = {row["model"]: next((DATA / "idk" / "samples").glob(f"gpqa__{row['model']}__*")) for row in published}
    given = [word for name, path in files.items() for word in ("--predictions", f"{name}={path}")]
    end = call("grade", "mcq_idk", *given, "--protocol", "original", "--table", "table.md", "--json")
    assert end.code == 0
    text = Path("table.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text]
    assert cells[0] == ["Model", *(f"{name} ± se" for name in ("trad_score", "idk_score", "idk_freq", "extract_fail"))]
    best = sorted(published, key=lambda row: -float(row["trad_score"].split()[0]))
    assert cells[2:] == [
        [row[name] for name in ("model", "trad_score", "idk_score", "idk_freq", "extract_fail")] for row in best
    ]
    assert len(set(map(len, text))) == 1


def test_named_ensembles_vote_with_the_models_they_name() -> None:
    given = []
    for name, letters in {"a": "BBA", "b": "BAA", "c": "ABB"}.items():
        given += ["--predictions", lines(f"{name}.jsonl", replies(letters))]
    named = ("--ensemble", "cheap=a,b", "--ensemble", "all three = a, b, c", "--protocol", "original")
    rows = board("mcq_idk", *given, *named)["ensembles"]
    assert isinstance(rows, list)
    assert [row["name"] for row in rows] == ["cheap", "all three"]
    assert [round(row["metrics"]["trad_score"]["mean"], 3) for row in rows] == [0.333, 0.333]
    assert "there are no replies of d, only of a, b, c" in refused("mcq_idk", *given, "--ensemble", "x=a,d")
    for wrong in ("a,b", "x=a", "=a,b"):
        assert "a new NAME=MODEL,MODEL" in refused("mcq_idk", *given, "--ensemble", wrong)
    assert "--ensemble is for mcq_idk" in refused("rome", "--predictions", "a.jsonl", "--ensemble", "x=a,b")
