"""Charts are drawn from what the tables hold, stand alone as files, and say nothing that they do not know."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring import history
from layton_batch.site.board_charts import pareto
from layton_batch.site.build import build_site
from layton_batch.site.comparison import comparison_data
from layton_batch.site.item_rates import item_rates
from tests.support.fabricated_run import FabricatedRun, fabricated, hostile
from tests.support.read_html import read_page


def drawn(run: FabricatedRun) -> set[str]:
    site = build_site(run.folder, run.status()).parent
    return {path.name for path in (site / "charts").glob("*.svg")}


def test_the_front_holds_models_that_none_cheaper_beats() -> None:
    assert pareto([(1, 10), (2, 5), (3, 20), (3, 30), (4, 30)]) == [(1, 10), (3, 30)]


def test_a_run_has_the_charts_that_its_tables_have_something_for(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    assert drawn(run) == {"scores.svg", "cost.svg", "tokens.svg", "categories.svg", "items.svg"}
    run.table("cost", [])
    assert drawn(run) == {"scores.svg", "categories.svg", "items.svg"}


def test_hints_picarats_categories_and_history_are_drawn_where_they_are(tmp_path: Path) -> None:
    run = fabricated(tmp_path, items=15)
    rows = run.leaderboard_rows()
    run.table("leaderboard", [*rows, *({**row, "n_hints": 2, "score": 90.0} for row in rows)])
    items = run.items_rows()
    worth = [f'{{"_picarats": {20 + place // 2}}}' for place in range(len(items))]
    told = zip(items, worth, strict=True)
    run.table("items", [{**row, "category": f"c{place % 3}", "payload": one} for place, (row, one) in enumerate(told)])
    for at, score in enumerate((40.0, 50.0), 1_795_000_000):
        earlier = tables.frame("leaderboard", [{**rows[0], "score": score, "method": "hierarchical"}])
        history.keep(run.folder.history, earlier, float(at))
    assert {"hints.svg", "difficulty.svg", "radar.svg", "history.svg"} <= drawn(run)
    run.table("items", [{**row, "category": f"c{place % 4}"} for place, row in enumerate(items)])
    assert "radar.svg" not in drawn(run)  # of the categories only three have four items, and one has three


def test_categories_count_votes_as_people_do_and_a_labelled_answer_by_its_label(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    metric = "answer_correct"
    run.table("scores", [{**row, "metric": metric} for row in run.scores_rows()])
    (record,) = run.judges_rows()
    document = json.loads(str(record["document"]))
    votes = [(2, 2, 3, 3), (1, 2, 3, 0), (0, 2, 0, 0)]
    document["diagnosis"] |= {
        "metric": metric,
        "bins": [dict(zip(("yes", "total", "labels", "positives"), vote, strict=True), lower=0, upper=1)
                 for vote in votes],
    }  # fmt: skip
    run.table("judges", [{"document": json.dumps(document)}])
    label = {"item_id": run.item_id(2), "model": "alpha-9", "n_hints": 0, "sample": 1, metric: True, "people": 1}
    run.table("labels", [label])
    rates = item_rates(run.folder, metric)
    assert rates.corrected_judge == "the jury, corrected by people’s labels"
    yes, split = 3.5 / 4, 0.5 / 4  # three of three and none of three, by Jeffreys
    logic, other = rates.by_category["Logic"], rates.by_category["Logic, other"]
    assert logic == pytest.approx([yes, (yes + split) / 3])  # a vote nobody labelled, and a reply nobody could judge
    assert other == pytest.approx([1 / 3, (yes + split) / 3])
    assert sorted(rates.by_item) == pytest.approx([0, 0.5, 0.5, 1])
    assert rates.by_model["alpha-9"] == pytest.approx({"Logic": yes, "Logic, other": (1 + yes) / 2})


def test_without_labels_categories_are_by_the_jury_alone(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.table("judges", [])
    rates = item_rates(run.folder, "both_correct")
    assert (rates.judge, rates.corrected_judge) == ("the jury", "the jury")
    assert rates.by_category["Logic"] == pytest.approx([1, 0.5])


def test_names_that_are_alike_when_shortened_are_no_hint_levels(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.table(
        "leaderboard", [{**row, "model": "m" * 300 + str(place)} for place, row in enumerate(run.leaderboard_rows())]
    )
    assert "hints.svg" not in drawn(run)


def test_a_chart_is_a_file_that_stands_alone_and_loads_nothing(tmp_path: Path) -> None:
    run = fabricated(tmp_path, hostile("</text><script>alert(1)</script>"))
    site = build_site(run.folder, run.status()).parent
    for path in (site / "charts").glob("*.svg"):
        names = {node.tag.rpartition("}")[2] for node in ET.parse(path).iter()}
        assert names <= {"svg", "g", "rect", "line", "path", "text", "clipPath", "defs"}, path
        attributes = {name for node in ET.parse(path).iter() for name in node.attrib}
        assert not any(name.endswith("href") or name.startswith("on") or name == "style" for name in attributes), path


def test_a_board_without_scores_has_no_charts(tmp_path: Path) -> None:
    run = FabricatedRun(RunFolder(tmp_path / "r"))
    run.manifest()
    run.table("leaderboard", [{**row, "score": None, "rank": None} for row in run.leaderboard_rows()])
    site = build_site(run.folder, run.status()).parent
    assert not (site / "charts.html").exists()
    assert "charts.html" not in read_page(site / "index.html").values("href")


def test_one_model_at_two_hint_levels_is_compared_item_by_item(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    row, other = run.leaderboard_rows()[:2]
    rows = [{**row, "n_hints": 0}, {**other, "model": row["model"], "n_hints": 1}]
    name = str(row["model"])
    pair = {"model": name, "n_hints": 0, "other": name, "other_hints": 1, "better": 0.25, "better_new": 0.5}
    run.table("pairs", [pair])
    scores = [one for one in run.scores_rows() if one["model"] == name]
    run.table("scores", [{**one, "n_hints": hints, "yes": 2 * hints} for one in scores for hints in (0, 1)])
    items = [(f"{at}.html", run.item_id(at)) for at in range(1, run.items + 1)]
    data = json.loads(comparison_data(run.folder, rows, items, "both_correct"))
    assert data["models"] == [f"{name}@0", f"{name}@1"]
    assert data["better"] == {"0,1": [25.0, 50.0]}
    assert data["marks"] == ["0" * run.items, "1" * run.items]
