"""The board's columns for new items and labels are there where rows have them, and not where they have not."""

from __future__ import annotations

from pathlib import Path

from layton_batch.scoring.board import RULE
from layton_batch.site.build import build_site
from tests.site.fabricated_run import fabricated
from tests.site.read_html import read_page

MORE = {
    "level": 0.95, "new_score": 79.0, "new_lower": 70.1, "new_upper": 88.8, "own_labels": 12, "borrowed_labels": 345,
    "smallest_gold_bin": 7, "n_abstained": 0,
}  # fmt: skip


def shown(tmp_path: Path, **columns: object) -> str:
    run = fabricated(tmp_path)
    run.table("leaderboard", [{**row, **columns} for row in run.leaderboard_rows()])
    return " ".join(read_page(build_site(run.folder, run.status())).text.split())


def test_intervals_for_new_items_and_labels_are_shown(tmp_path: Path) -> None:
    text = shown(tmp_path, **MORE)
    heads = ("95 % CI", "This set", "Human labels (own · borrowed)", "95 % rank range")
    for part in (*heads, "70.1–88.8", "12 · 345", "score on new items of the same kind"):
        assert part in text
    assert "The rank range holds the ranks on these items of all models at once" in text
    assert "Abstained" not in text.replace("Abstained, unreadable", "")


def test_rows_without_them_leave_the_columns_out(tmp_path: Path) -> None:
    text = shown(tmp_path)
    assert "95 % CI (new items)" not in text
    assert "Human labels" not in text


def test_a_board_graded_by_rule_speaks_of_no_labels(tmp_path: Path) -> None:
    rule = {**MORE, "method": RULE, "own_labels": 0, "borrowed_labels": 0, "smallest_gold_bin": None}
    text = shown(tmp_path, **rule)
    assert "graded by rule" in text
    assert "exact on this set of items" in text
    assert "70.1–88.8" in text
    assert "Human labels" not in text


def test_kinds_of_failure_share_a_column_that_names_them(tmp_path: Path) -> None:
    text = shown(tmp_path, n_abstained=2)
    assert "3 (2 abstained, 1 unparsed)" in text
    assert "Abstained" in shown(tmp_path, n_abstained=2, n_unparsed=0).replace("Abstained, unreadable", "")


def test_the_paper_s_spread_is_called_what_it_is(tmp_path: Path) -> None:
    assert "that overlapping intervals leave open" in shown(tmp_path, method="paper")


def test_kinds_of_failure_stand_below_a_board_graded_by_rule(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    run.table("leaderboard", [{**row, **MORE, "method": RULE} for row in run.leaderboard_rows()])
    metric, model = (str(run.leaderboard_rows()[0][name]) for name in ("metric", "model"))
    flags = [f"kind_{place}" for place in range(12) for _ in range(12 - place)]
    scores = [{"item_id": str(i), "model": model, "metric": metric, "flag": flag} for i, flag in enumerate(flags)]
    run.table("scores", [*scores, {"item_id": "x", "model": model, "metric": "another", "flag": "of_another"}])
    text = " ".join(read_page(build_site(run.folder, run.status())).text.split())
    after = text.partition("Not right, by kind")[2]
    assert "Kind 0 Kind 1 Kind 2" in after
    assert f"Other {model} 12 11 10 9 8 7 6 5 10 " in after  # the last: 4 + 3 + 2 + 1
    assert "of another" not in text.lower()


def test_a_jurys_board_has_no_such_table(tmp_path: Path) -> None:
    assert "Not right, by kind" not in shown(tmp_path, **MORE)
