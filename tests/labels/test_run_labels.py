"""Labels count as they are at each scoring: without a key, without a network, whatever was there when the run began."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.files import tables
from tests.labels.conftest import Copied
from tests.labels.label_runs import (
    ANNOTATED,
    WITH_GOLD,
    answers,
    board,
    board_and_notes,
    gold_rows,
    label,
    publish,
    write_rows,
)
from tests.support.cli_harness import NOBODY, call

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TOGETHER_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY")


def test_without_labels_a_board_is_uncalibrated_has_the_jury_s_share_and_says_what_it_takes(copied: Copied) -> None:
    root = copied(ANNOTATED)
    rows, said = board(root), answers(root)
    for row in rows:
        verdicts = [one["verdict"] for one in said if one["model"] == row["model"]]
        assert row["jury_vote"] == round(100 * sum(map(bool, verdicts)) / row["n_items"], 1)
        assert row["lower"] < row["score"] < row["upper"]
        assert (row["method"], row["labels_needed"] > 0) == ("uncalibrated", True)
    scores = [row["score"] for row in rows]
    assert (scores, rows[0]["rank"]) == (sorted(scores, reverse=True), 1)
    assert len(set(scores)) > 1
    needed = sum(row["labels_needed"] for row in rows)
    printed = " ".join(call("leaderboard", root.name).out.split())
    for text in ("uncalibrated", "jury's", "if judges are as good as assumed", f"About {needed}", "would give ± 3"):
        assert text in printed
    plan = call("label", "plan", root.name, "--this-set", "--half-width", "3", "--json")
    assert len(json.loads(plan.out)["rows"]) == needed
    stored = tables.read(root / "tables", "leaderboard")
    assert stored["labels_needed"].to_list() == [row["labels_needed"] for row in rows]


def test_annotations_are_used_as_they_are_now_and_a_bad_row_stops_a_scoring_but_not_a_run_that_collects(
    copied: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, file = copied(ANNOTATED), tmp_path / "labels.jsonl"
    rows, notes = board_and_notes(root)
    assert {row["method"] for row in rows} == {"uncalibrated"}
    assert "labels.jsonl: no such file" in notes
    said = answers(root)
    write_rows(file, [label(one, False) for one in said])
    rows, notes = board_and_notes(root)
    assert {(row["method"], row["set_score"]) for row in rows} == {("hierarchical", 0.0)}
    assert f"+{len(said)} labels since 2026-11-18, when the run began" in notes
    write_rows(file, [label(one, True) for one in said[1:]])
    publish(root)
    good = tables.read(root / "tables", "leaderboard")
    assert (good["set_score"].max(), good["own_labels"].sum()) == (100.0, len(said) - 1)
    with file.open("a", encoding="utf-8") as handle:
        handle.write('{"item_id": "x", "model": "y", "answer_correct": "yes"}\n')
    for command, *options in (("leaderboard",), ("site", "--out", tmp_path / "pages"), ("judges",)):
        refused = call(command, root.name, *options)
        assert refused.code == 2
        assert f"labels.jsonl, line {len(said)}: column 'answer_correct'" in refused.err
    for name in KEYS:
        monkeypatch.setenv(name, "sandbox-key-any")
        monkeypatch.setenv(name.replace("_API_KEY", "_BASE_URL").replace("GEMINI", "GOOGLE_GEMINI"), NOBODY)
    went_on = call("run", tmp_path / "manifest.toml")
    assert (went_on.code, "the run's copy of" in went_on.err) == (0, True)
    assert tables.read(root / "tables", "leaderboard").equals(good)


def test_a_gold_set_edited_since_is_used_and_what_it_began_with_stays_in_the_folder(
    copied: Copied, tmp_path: Path
) -> None:
    root, gold, paper = copied(WITH_GOLD), tmp_path / "gold.jsonl", ("--method", "paper")  # the quickest
    before = {row["model"]: row["score"] for row in board(root, *paper)}
    kept = {path: path.read_bytes() for path in root.glob("gold-*.jsonl")}
    human = ("human_answer_correct", "human_justification_correct", "human_both_correct")
    rows = [row if row[human[0]] is None else row | dict.fromkeys(human, True) for row in gold_rows()]
    assert "since" not in board_and_notes(root, *paper)[1]
    write_rows(gold, rows)
    after, notes = board_and_notes(root, *paper)
    assert min(row["score"] for row in after) > max(before.values())
    assert "changed since 2026-11-18" in notes
    assert {path: path.read_bytes() for path in kept} == kept
    gold.unlink()
    gone, notes = board_and_notes(root, *paper)
    assert gone == after
    assert "the run's copy of" in notes
