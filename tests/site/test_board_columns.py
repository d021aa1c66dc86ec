"""The board's columns for new items and labels are there where rows have them, and not where they have not."""

from __future__ import annotations

from pathlib import Path

from layton_batch.scoring.leaderboard import RULE
from layton_batch.site.build import build_site
from tests.support.fabricated_run import fabricated
from tests.support.read_html import read_page, words

MORE = {
    "level": 0.95, "own_labels": 12, "borrowed_labels": 345,
    "smallest_gold_bin": 7, "n_abstained": 0,
}  # fmt: skip


def both(tmp_path: Path, **columns: object) -> Path:
    run = fabricated(tmp_path)
    run.table("leaderboard", [{**row, **MORE, **columns} for row in run.both_targets()])
    return build_site(run.folder, run.status()).parent


def test_a_board_is_for_new_items_and_a_switch_changes_everything_to_this_set(tmp_path: Path) -> None:
    text = words(read_page(both(tmp_path) / "index.html"))
    for part in ("95 % CI", "Human labels (own · borrowed)", "95 % rank range", "Alike", "12 · 345"):
        assert part in text
    new, here = text.partition("80.0 78.1–81.6")[2].split("81.0 80.5–81.5")
    assert "1–2 A" in new
    assert "1–1 A" in here
    assert here.index("71.0 70.5–71.5") < here.index("61.0 60.5–61.5")
    assert here.index("gamma-2") < here.index("beta-10")  # in the order of this set
    assert "The rank range holds the ranks on new items of this kind of all models at once" in text
    assert "The rank range holds the ranks on exactly this set of items of all models at once" in text
    assert "Assumes that labels are right and that the jury is the one that was labelled." in text
    assert "Abstained" not in text.replace("Abstained, unreadable", "")


def test_a_board_graded_by_rule_speaks_of_no_labels(tmp_path: Path) -> None:
    rule = {"method": RULE, "own_labels": 0, "borrowed_labels": 0, "smallest_gold_bin": None}
    text = words(read_page(both(tmp_path, **rule) / "index.html"))
    assert "graded by rule" in text
    assert "exact on this set of items" in text
    assert "80.0 78.1–81.6" in text
    assert "81.0 exact" in text
    assert "Human labels" not in text
    assert "Assumes that labels" not in text
