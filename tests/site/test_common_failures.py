"""What models get wrong together: which answers are the same, and lists that a spreadsheet can open safely."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from layton_batch.site.build import build_site
from tests.support.fabricated_run import fabricated
from tests.support.read_html import read_page, words


def test_both_lists_are_pages_and_files_without_formulas(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    said = [{**row, "answer": "=HYPERLINK(1)"} for row in run.predictions_rows()]
    run.table(
        "predictions", [{**row, "answer": " =hyperlink(1)!"} if row["model"] == "gamma-2" else row for row in said]
    )
    run.table("items", [{**row, "question": "＠cmd"} for row in run.items_rows()])
    items = build_site(run.folder, run.status()).parent / "items"
    names = ("all_wrong.csv", "same_wrong_answer.csv")
    wrong, same = (pl.read_csv(items / name, infer_schema=False).rows() for name in names)
    assert wrong == [("item 2", "Logic, other", "'＠cmd")]
    assert same == [("item 2", "Logic, other", "'＠cmd", "'=HYPERLINK(1)", "3", "alpha-9; beta-10; gamma-2")]
    page = read_page(items / "wrong.html")
    assert page.values("href").count("0002.html") == 2
    assert {"all_wrong.csv", "same_wrong_answer.csv"} <= set(page.values("href"))
    assert "3: alpha-9 , beta-10 , gamma-2" in words(page)
