"""``grade`` for a benchmark that an entry point adds: docs/example_plugin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import plug_in
from tests.support.cli_harness import call
from tests.support.graded_files import Row, board, lines, models, refused
from tests.support.lab import lab, manifest_text

ITEMS = plug_in.PLUGIN / "spelling_items.jsonl"
GIVEN = ["spelling", "--items", ITEMS, "--predictions"]


@pytest.fixture(autouse=True)
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    with plug_in.installed(tmp_path, monkeypatch):
        yield


def spelt(*said: str | None) -> list[Row]:
    return [{"item_id": f"w{number}", "response": text} for number, text in enumerate(said, 1)]


def test_one_file_gives_metrics_with_errors_and_a_row_a_prediction() -> None:
    path = lines("p.jsonl", spelt("nretnal", "DRAHCRO", "kestrel"))
    report = call("grade", *GIVEN, path, "--json").table()
    assert report["n"] == 3
    metrics = report["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["exact"]["mean"] == pytest.approx(2 / 3)
    assert metrics["exact"]["se"] == pytest.approx(1 / 3)
    assert report["rows"] == [
        {"item_id": "w1", "tag": None, "exact": 1.0},
        {"item_id": "w2", "tag": None, "exact": 1.0},
        {"item_id": "w3", "tag": "wrong", "exact": 0.0},
    ]
    assert re.search(r"^exact +66\.67 % ± 33\.33$", call("grade", *GIVEN, path).out, re.MULTILINE)


def test_several_are_a_board_with_the_tasks_own_kinds_of_failure() -> None:
    good = lines("good.jsonl", spelt("nretnal", "drahcro", "lertsek"))
    bad = lines("bad.jsonl", spelt("lantern", " ", None))
    document = board(*GIVEN, bad, "--predictions", good)
    assert (document["task"], document["protocol"], document["metric"]) == ("spelling", None, "exact")
    found = models(document)
    assert [found[name]["rank"] for name in ("good", "bad")] == [1, 2]
    assert found["bad"]["failures"] == {"wrong": 1, "unparsed": 1, "missing": 1}
    shown = call("grade", *GIVEN, bad, "--predictions", good).out
    assert "not right, by kind" in shown
    assert shown.startswith("Leaderboard · exact · graded by rule · 3 items")


def test_a_run_is_graded_again_by_the_items_and_settings_it_has(tmp_path: Path) -> None:
    text = manifest_text(("openai", "mistral")).replace('task = "layton"', 'task = "spelling"')
    text = text[: text.index("[jury]")] + text[text.index("[[prices]]") :]
    (tmp_path / "bench").mkdir()
    with lab(tmp_path / "bench") as bench:
        bench.finish(text)
        found = models(board("spelling", "--predictions", "lab", "--runs", bench.runs))
        rows = call("leaderboard", "lab", "--runs", bench.runs, "--format", "json").json
    assert isinstance(rows, list)
    assert {row["model"]: (row["score"], row["failures"]) for row in rows} == {
        name: (one["score"], one["failures"]) for name, one in found.items()
    }


def test_who_asks_for_something_else_is_told_what_there_is() -> None:
    path = lines("p.jsonl", spelt("nretnal"))
    known = "is not graded by rule; there are mcq_idk, zebralogic, rome, spelling"
    assert known in refused("layton", "--predictions", path)
    assert known in refused("spellin", "--predictions", path)
    assert "--items is needed" in refused("spelling", "--predictions", path)
    assert "task 'spelling' has no protocols" in refused(*GIVEN, path, "--protocol", "original")
    assert "spelling is ranked by exact" in refused(*GIVEN, path, "--metric", "accuracy")
    assert "--chart is for mcq_idk" in refused(*GIVEN, path, "--chart", "c.svg")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"item_id": "w9", "response": "x"}, "prediction 2: there is no item 'w9'; the items are"),
        ({"item_id": None, "response": "x"}, "prediction 2: column 'item_id' must be text or a whole number"),
        ({"item_id": "w2"}, "prediction 2 (item 'w2'): column 'response' is missing"),
        ({"item_id": "w2", "response": 5}, "column 'response' must be text or null, not int"),
    ],
)
def test_a_row_in_another_form_is_told(row: Row, told: str) -> None:
    path = lines("p.jsonl", [*spelt("nretnal"), row])
    said = refused(*GIVEN, path)
    assert "p.jsonl: " in said
    assert told in said


def test_items_that_are_none_are_told_as_such() -> None:
    path = lines("p.jsonl", spelt("nretnal"))
    wrong = lines("i.jsonl", [{"id": "w1", "word": ""}])
    assert "--items: row 1: column 'word' must be a word" in refused(
        "spelling", "--items", wrong, "--predictions", path
    )


def test_a_plug_in_that_does_not_load_hides_no_other(tmp_path: Path) -> None:
    info = tmp_path / "site-packages" / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[layton_batch.tasks]\nbroken = nothing_of_this_name:Task\n")
    path = lines("p.jsonl", spelt("nretnal"))
    assert "rome, spelling" in refused("layton", "--predictions", path)
    assert "task 'broken' (nothing_of_this_name:Task) cannot be loaded" in refused("broken", "--predictions", path)
    assert json.loads(call("grade", *GIVEN, path, "--json").out)["n"] == 1
