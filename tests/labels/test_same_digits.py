"""The command line, the tables and the pages of a run with labels have the same digits; pages count people, and do not
name them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zipfile import ZipFile

import polars as pl
import pytest

from layton_batch.files import tables
from tests.labels.conftest import Copied
from tests.labels.label_runs import ANNOTATED, answers, board, label, publish, write_rows
from tests.support.cli_harness import call
from tests.support.read_html import read_page, words

READS_PAGES = True


@pytest.mark.parametrize("target", ["set", pytest.param("new", marks=pytest.mark.nightly)])
def test_command_line_tables_and_pages_have_the_same_digits_for_a_target(
    copied: Copied, tmp_path: Path, target: str
) -> None:
    root = copied(ANNOTATED)
    given = {(one["item_id"], one["model"]): bool(one["verdict"]) for one in answers(root)[::2]}
    rows = [label({"item_id": item, "model": model}, says) for (item, model), says in given.items()]
    write_rows(tmp_path / "labels.jsonl", rows)
    publish(root)
    option = ("--this-set",) if target == "set" else ()
    shown, site = board(root, *option), root / "site"
    assert {row["method"] for row in shown} == {"hierarchical"}
    printed = " ".join(call("leaderboard", root.name, *option).out.replace(" *", "").split())
    body = (site / "index.html").read_text("utf-8").partition(f'id="{"set" if option else "board"}-rows"')[2]
    cells = re.sub("<title>.*?</title>|<[^>]*>", " ", body.partition("</tbody>")[0])
    stored = {row["model"]: row for row in tables.read(root / "tables", "leaderboard").iter_rows(named=True)}
    data = {row["model"]: row for row in json.loads((site / "data" / "leaderboard.json").read_bytes())}
    models = [words(read_page(path)) for path in (site / "models").iterdir()]
    for row in shown:
        for name in ("rank", "rank_best", "rank_worst", "score", "lower", "upper"):
            assert row[name] == stored[row["model"]][f"{target}_{name}"] == data[row["model"]][f"{target}_{name}"]
        score, interval = f"{row['score']:.1f}", f"{row['lower']:.1f}–{row['upper']:.1f}"
        ranks, items = f"{row['rank_best']}–{row['rank_worst']}", "this set" if option else "new items"
        assert f"{score} {interval} {ranks}" in printed
        assert f"{score} {interval} {ranks}" in " ".join(cells.split())
        (page,) = (one for one in models if one.startswith(row["model"]))
        assert f"Score, {items} {score} (95 % CI: {interval})" in page
        assert f"Rank, {items} {row['rank']} (rank range: {ranks})" in page


def test_pages_say_how_many_people_gave_which_label_and_that_a_decision_settled_it_and_name_nobody(
    copied: Copied, tmp_path: Path
) -> None:
    root = copied(ANNOTATED)
    first, second, *_ = answers(root)
    names = ("Adalovelace", "Bobbykay", "Chairperson")
    ada, bob, chair = ({"annotator": name, "note": name} for name in names)
    decided = label(first, not first["verdict"], **chair)
    half = label(second, False, **bob) | {"answer_correct": True}
    write_rows(tmp_path / "labels.jsonl", [
        label(first, bool(first["verdict"]), **ada), label(first, bool(first["verdict"]), **bob), decided,
        decided | {"adjudicated": True}, label(second, True, **ada), half,
    ])  # fmt: skip
    publish(root)
    site = root.parent / "pages"
    shown = [page for path in site.glob("items/*.html") if "by a decision" in (page := words(read_page(path)))]
    assert len(shown) == 1
    assert "2 people answer" in shown[0]
    texts = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    texts |= {path: str(pl.read_parquet(path).to_dicts()).encode() for path in site.rglob("*.parquet")}
    for path in site.rglob("*.zip"):
        with ZipFile(path) as archive:
            texts[path] = b"".join(map(archive.read, archive.namelist()))
    assert [path for path, text in texts.items() if any(name.encode() in text for name in names)] == []
