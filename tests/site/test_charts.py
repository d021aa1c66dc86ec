"""Charts are drawn from what the tables hold, stand alone as files, and say nothing that they do not know."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from layton_batch.providers import BUILT_IN
from layton_batch.site.build import build_site
from tests.support.fabricated_run import Words, fabricated, hostile
from tests.support.read_html import read_page, words


def test_the_front_holds_models_that_none_cheaper_beats(tmp_path: Path) -> None:
    costs, scores = dict(zip("abcde", (1, 2, 3, 3, 4), strict=True)), (10, 5, 20, 30, 30)
    run = fabricated(tmp_path, Words(models="abcde"))
    run.table("cost", [{**row, "cost_usd": str(4 * costs[str(row["model"])])} for row in run.cost_rows()])
    board = zip(run.leaderboard_rows(), scores, strict=True)
    run.table("leaderboard", [{**row, "score": score, "lower": score - 1, "upper": score + 1} for row, score in board])
    site = build_site(run.folder, run.status(), run.bill()).parent
    corners = [(row["x"], row["y"]) for row in values(site / "charts" / "cost.json") if "label" not in row]
    assert corners == [(1, 10), (3, 30)]


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
    votes = [(2, 2, 3, 3), (1, 2, 3, 0)]
    document["diagnosis"] |= {
        "metric": metric,
        "bins": [dict(zip(("yes", "total", "labels", "positives"), vote, strict=True), lower=0, upper=1)
                 for vote in votes],
    }  # fmt: skip
    run.table("judges", [{"document": json.dumps(document)}])
    label = {"item_id": run.item_id(2), "model": "alpha-9", "n_hints": 0, "sample": 1, metric: True}
    run.table("labels", [label])
    run.table("leaderboard", [{**row, "metric": metric} for row in run.leaderboard_rows()])
    site = build_site(run.folder, run.status()).parent
    assert "the jury, corrected by people’s labels" in words(read_page(site / "charts.html"))
    yes, split = 3.5 / 4, 0.5 / 4  # three of three and none of three, by Jeffreys
    means = {row["name"]: row["mean"] for row in values(site / "charts" / "categories.json")}
    # beside a vote nobody labelled, and a reply nobody could judge
    expected = {"Logic": 50 * (yes + (yes + split) / 3), "Logic, other": 50 * (1 + yes + split) / 3}
    assert means == pytest.approx(expected, rel=1e-5)  # as the chart's data are rounded
    cells = [row for path in (site / "charts").glob("*.json") for row in values(path) if "share" in row]
    shares = {str(row["label"]).partition(":")[0]: row["share"] for row in cells if "alpha-9" in str(row["label"])}
    assert shares == pytest.approx({"alpha-9, Logic": 100 * yes, "alpha-9, Logic, other": 50 * (1 + yes)}, rel=1e-5)


def test_a_chart_is_a_file_that_stands_alone_and_loads_nothing(tmp_path: Path) -> None:
    run = fabricated(tmp_path, hostile("</text><script>alert(1)</script>"))
    site = build_site(run.folder, run.status()).parent
    for path in (site / "charts").glob("*.svg"):
        names = {node.tag.rpartition("}")[2] for node in ET.parse(path).iter()}
        assert names <= {"svg", "g", "rect", "line", "path", "text", "clipPath", "defs"}, path
        attributes = {name for node in ET.parse(path).iter() for name in node.attrib}
        assert not any(name.endswith("href") or name.startswith("on") or name == "style" for name in attributes), path


@pytest.mark.parametrize("page", ["#fdfdfb", "#14171b"])
def test_makers_have_the_names_that_readers_know_and_colours_that_stand_out(tmp_path: Path, page: str) -> None:
    makers = {maker: f"{number} {maker}" for number, maker in enumerate((*BUILT_IN, *map(str, range(40))), 10)}
    run = fabricated(tmp_path)
    (row, *_) = run.leaderboard_rows()
    run.table("leaderboard", [{**row, "provider": maker, "model": model} for maker, model in makers.items()])
    site = build_site(run.folder, run.status()).parent
    for name in ("Google", "OpenAI", "Mistral AI"):
        assert name in words(read_page(site / "index.html"))
    colours = {
        str(row["colour"]) for path in (site / "charts").glob("*.json") for row in values(path) if "colour" in row
    }
    assert len(colours) > 10
    for colour in colours:
        bright, dark = sorted((luminance(colour), luminance(page)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 3, "WCAG 1.4.11"


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
