"""The command line, the tables and the pages of a run with labels have the same digits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from layton_batch.files import tables
from tests.labels.conftest import Copied
from tests.labels.label_desk import ANNOTATED, answers, label, write_rows
from tests.labels.test_run_labels import board_json
from tests.support.cli_harness import call
from tests.support.read_html import read_page
from tests.support.tiers import tiered

READS_PAGES = True


@pytest.mark.parametrize("target", tiered(("new", "set"), ci=("set",)))
def test_command_line_tables_and_pages_have_the_same_digits_for_a_target(
    copied: Copied, tmp_path: Path, target: str
) -> None:
    root = copied(ANNOTATED)
    write_rows(tmp_path / "labels.jsonl", [label(one, bool(one["verdict"])) for one in answers(root)[::2]])
    scored = call("site", root.name, "--out", root.parent / "pages")
    assert scored.code == 0, scored.err
    option = ("--this-set",) if target == "set" else ()
    rows = board_json(root, *option)
    assert {row["method"] for row in rows} == {"hierarchical"}
    printed = " ".join(call("leaderboard", root.name, *option).out.replace(" *", "").split())
    site = root / "site"
    body = (site / "index.html").read_text("utf-8").partition(f'id="{"set" if option else "board"}-rows"')[2]
    cells = re.sub("<title>.*?</title>", "", body.partition("</tbody>")[0])
    shown = " ".join(re.sub("<[^>]*>", " ", cells).split())
    stored = {row["model"]: row for row in tables.read(root / "tables", "leaderboard").iter_rows(named=True)}
    kept = {row["model"]: row for row in json.loads((site / "data" / "leaderboard.json").read_bytes())}
    models = [" ".join(read_page(path).text.split()) for path in (site / "models").iterdir()]
    for row in rows:
        for name in ("rank", "rank_best", "rank_worst", "score", "lower", "upper"):
            assert row[name] == stored[row["model"]][f"{target}_{name}"] == kept[row["model"]][f"{target}_{name}"]
        score, interval = f"{row['score']:.1f}", f"{row['lower']:.1f}–{row['upper']:.1f}"
        ranks, words = f"{row['rank_best']}–{row['rank_worst']}", "this set" if option else "new items"
        assert f"{score} {interval} {ranks}" in printed
        assert f"{score} {interval} {ranks}" in shown
        (said,) = (one for one in models if one.startswith(row["model"]))
        assert f"Score, {words} {score} (95 % CI: {interval})" in said
        assert f"Rank, {words} {row['rank']} (95 % rank range: {ranks})" in said
