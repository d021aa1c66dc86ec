"""``grade`` with several models of zebralogic, and with the published forms of rome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_harness import call
from tests.support.graded_files import answers, board, lines, models
from tests.support.paths import SHARED_DATA

DATA = SHARED_DATA
real = pytest.mark.shared_data
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


# ---- zebralogic ----------------------------------------------------------------------------------------------------


@real
def test_grids_of_several_models_have_a_board_and_the_papers_columns() -> None:
    zebra = DATA / "zebra"
    outputs = zebra / "outputs__o1-mini-2024-09-12__final.parquet"
    given = [
        "--items",
        zebra / "puzzles.parquet",
        "--predictions",
        f"o1-mini={outputs}",
        "--predictions",
        f"x={outputs}",
    ]
    document = board("zebralogic", *given, "--protocol", "zeroeval")
    one = models(document)["o1-mini"]
    assert (one["score"], one["rank_box"], document["n_items"]) == (27.4, [1, 2], 463)
    assert one["failures"] == {"wrong_answer": 330, "no_answer": 6}
    shown = call("grade", "zebralogic", *given, "--protocol", "zeroeval").out
    row = next(line for line in reversed(shown.splitlines()) if line.startswith("o1-mini"))
    columns = ["27.43", "33.56", "1.30", "40.50", "22.81", "463", "963.91", "40.97", "31.25", "23.26", "3.37"]
    assert row.split()[1:] == columns
    cells = models(board("zebralogic", *given, "--metric", "cell_accuracy"))["o1-mini"]["score"]
    assert isinstance(cells, float)
    assert cells > 27.4


def test_puzzles_that_the_infrastructure_lost_are_outside_a_board_and_it_is_said() -> None:
    solution = {"header": ["House", "Name"], "rows": [["1", "Ann"], ["2", "Bob"]]}
    right = json.dumps({"solution": {"House 1": {"Name": "Ann"}, "House 2": {"Name": "Bob"}}})
    rows = [{"id": f"p{i}", "solution": solution, "output": right} for i in range(3)]
    whole = lines("whole.jsonl", rows)
    lost = lines("lost.jsonl", [*rows[:2], {"id": "p2", "solution": solution, "output": None, "error": "TimeoutError"}])
    document = board("zebralogic", "--predictions", whole, "--predictions", lost)
    assert (document["n_items"], models(document)["lost"]["score"]) == (2, 100.0)
    assert any("1 item without a reply" in str(note) for note in document["notes"])  # type: ignore[attr-defined]


# ---- rome ----------------------------------------------------------------------------------------------------------


def test_the_three_published_shapes_in_a_folder_are_models() -> None:
    Path("all").mkdir()
    rows = answers("A")
    Path("all/list.json").write_text(json.dumps(rows))
    Path("all/object.json").write_text(json.dumps(rows[0]))
    Path("all/mapping.json").write_text(json.dumps({"q0": {k: v for k, v in rows[0].items() if k != "question_id"}}))
    found = models(board("rome", "--predictions", "all"))
    assert {name: row["score"] for name, row in found.items()} == {"list": 100.0, "mapping": 100.0, "object": 100.0}


def test_no_answer_is_found_in_what_was_refused_or_cut_off_before_it() -> None:
    endings = ("stop", "length", "refusal")
    rows = [row | {"answer": "A", "finish_reason": why} for row, why in zip(answers("AAA"), endings, strict=True)]
    path = lines("p.jsonl", rows)
    for protocol, right in (("corrected", 1), ("original", 3)):
        report = call("grade", "rome", "--predictions", path, "--protocol", protocol, "--json").table()
        assert report["final_score"] == [right, 3]
    other = lines("o.jsonl", answers("AAA"))
    failures = models(board("rome", "--predictions", path, "--predictions", other))["p"]["failures"]
    assert failures == {"truncated": 1, "refused": 1}
