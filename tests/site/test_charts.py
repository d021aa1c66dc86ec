"""Charts are drawn from what the tables hold, stand alone as files, and say nothing that they do not know."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from layton_batch.site.build import build_site
from layton_batch.site.charts import item_rates, pareto
from tests.support.fabricated_run import fabricated, hostile


def test_the_front_holds_models_that_none_cheaper_beats() -> None:
    assert pareto([(1, 10), (2, 5), (3, 20), (3, 30), (4, 30)]) == [(1, 10), (3, 30)]


def test_a_bar_has_the_interval_of_its_items_and_is_hollow_without_one(tmp_path: Path) -> None:
    run = fabricated(tmp_path, items=5)
    kinds = ("two", "two", "one", "alike", "alike")
    run.table("items", [{**row, "category": kind} for row, kind in zip(run.items_rows(), kinds, strict=True)])
    yes = [2, 0, 1, 2, 2]
    run.table("judges", [])  # no label corrects the votes
    run.table("scores", [{**row, "yes": yes[place // 3], "total": 2} for place, row in enumerate(run.scores_rows())])
    site = build_site(run.folder, run.status()).parent
    bars = {row["name"]: (row["mean"], row["low"], row["high"]) for row in values(site / "charts" / "categories.json")}
    assert bars == {"alike": (100, None, None), "one": (50, None, None), "two": (50, 0, 100)}


def values(path: Path) -> list[dict[str, object]]:
    """The rows behind a chart, from its data."""
    return [row for rows in json.loads(path.read_text("utf-8"))["datasets"].values() for row in rows]


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
    label = {"item_id": run.item_id(2), "model": "alpha-9", "n_hints": 0, "sample": 1, metric: True}
    run.table("labels", [label])
    rates = item_rates(run.folder, metric)
    assert rates.judge == "the jury, corrected by people’s labels"
    yes, split = 3.5 / 4, 0.5 / 4  # three of three and none of three, by Jeffreys
    logic, other = rates.by_category["Logic"], rates.by_category["Logic, other"]
    assert logic == pytest.approx([yes, (yes + split) / 3])  # a vote nobody labelled, and a reply nobody could judge
    assert other == pytest.approx([1 / 3, (yes + split) / 3])
    assert rates.by_model["alpha-9"] == pytest.approx({"Logic": yes, "Logic, other": (1 + yes) / 2})


def test_a_chart_is_a_file_that_stands_alone_and_loads_nothing(tmp_path: Path) -> None:
    run = fabricated(tmp_path, hostile("</text><script>alert(1)</script>"))
    site = build_site(run.folder, run.status()).parent
    for path in (site / "charts").glob("*.svg"):
        names = {node.tag.rpartition("}")[2] for node in ET.parse(path).iter()}
        assert names <= {"svg", "g", "rect", "line", "path", "text", "clipPath", "defs"}, path
        attributes = {name for node in ET.parse(path).iter() for name in node.attrib}
        assert not any(name.endswith("href") or name.startswith("on") or name == "style" for name in attributes), path
