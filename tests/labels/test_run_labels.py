"""Labels count as they are at each scoring: without a key, without a network, whatever was there when the run began."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from layton_batch.files import tables
from tests.labels.conftest import Copied
from tests.labels.label_desk import (
    ANNOTATED,
    PLAIN,
    WITH_GOLD,
    answers,
    gold_rows,
    label,
    scores,
    write_rows,
)
from tests.support.cli_harness import call

NOBODY = "http://127.0.0.1:9"
"""Nobody is there."""
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TOGETHER_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY")


def board_json(root: Path, *more: str) -> list[dict[str, Any]]:
    return board_and_notes(root, *more)[0]


def board_and_notes(root: Path, *more: str) -> tuple[list[dict[str, Any]], str]:
    """The rows of a leaderboard, and what the command says beside it."""
    ended = call("leaderboard", root.name, "--format", "json", *more)
    assert ended.code == 0, ended.err
    return json.loads(ended.out), ended.err


def test_without_labels_a_board_is_uncalibrated_has_the_jury_s_share_and_says_what_it_takes(
    copied: Copied,
) -> None:
    root = copied(PLAIN)
    rows = board_json(root)
    said = answers(root)
    for row in rows:
        verdicts = [one["verdict"] for one in said if one["model"] == row["model"]]
        assert row["jury_vote"] == round(100 * sum(map(bool, verdicts)) / row["n_items"], 1)
        assert row["lower"] < row["score"] < row["upper"]
        assert row["labels_needed"] > 0
    assert {row["method"] for row in rows} == {"uncalibrated"}
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert len({row["score"] for row in rows}) > 1
    assert next(row["rank"] for row in rows) == 1
    table = call("leaderboard", root.name)
    needed = sum(row["labels_needed"] for row in rows)
    for words in ("uncalibrated", "jury's", "if judges are as good as assumed", f"About {needed}"):
        assert words in table.out
    assert "would give ± 3" in " ".join(table.out.split())
    plan = call("label", "plan", root.name, "--this-set", "--half-width", "3", "--json")
    assert len(plan.table()["rows"]) == needed  # type: ignore[arg-type]
    stored = tables.read(root / "tables", "leaderboard")
    assert stored["labels_needed"].to_list() == [row["labels_needed"] for row in rows]


def test_annotations_added_after_the_run_began_are_used_at_once_and_said(copied: Copied, tmp_path: Path) -> None:
    root = copied(ANNOTATED)
    rows, notes = board_and_notes(root)
    assert {row["method"] for row in rows} == {"uncalibrated"}
    assert "labels.jsonl: no such file" in notes
    said = answers(root)
    write_rows(tmp_path / "labels.jsonl", [label(one, False) for one in said])
    rows, notes = board_and_notes(root)
    assert {row["method"] for row in rows} == {"hierarchical"}
    assert {row["set_score"] for row in rows} == {0.0}
    assert f"+{len(said)} labels since 2026-11-18, when the run began" in notes
    write_rows(tmp_path / "labels.jsonl", [label(one, True) for one in said[1:]])
    scored = call("site", root.name, "--out", root.parent / "pages")
    assert scored.code == 0, scored.err
    stored = tables.read(root / "tables", "leaderboard")
    assert stored["set_score"].max() == 100.0
    assert stored["own_labels"].sum() == len(said) - 1


def test_a_gold_set_edited_since_is_used_and_what_it_began_with_stays_in_the_folder(
    copied: Copied, tmp_path: Path
) -> None:
    rows = gold_rows()
    human = ("human_answer_correct", "human_justification_correct", "human_both_correct")
    root, gold = copied(WITH_GOLD), tmp_path / "gold.jsonl"
    paper = ("--method", "paper")  # the quickest
    before = scores(board_json(root, *paper))
    kept = {path.name: path.read_bytes() for path in root.glob("gold-*.jsonl")}
    labelled = [row for row in rows if row["human_answer_correct"] is not None]
    for row in labelled:
        row |= dict.fromkeys(human, True)
    changed = call("leaderboard", root.name, *paper).err
    assert "since" not in changed
    write_rows(gold, rows)
    after = call("leaderboard", root.name, *paper, "--format", "json")
    assert min(scores(after.json).values()) > max(before.values())  # type: ignore[type-var]
    assert "changed since 2026-11-18" in after.err
    assert {name: (root / name).read_bytes() for name in kept} == kept
    gold.unlink()
    gone = call("leaderboard", root.name, *paper, "--format", "json")
    assert scores(gone.json) == scores(after.json)
    assert "the run's copy of" in gone.err


def test_a_bad_row_stops_a_scoring_with_its_file_and_line_but_not_a_run_that_collects(
    copied: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(ANNOTATED)
    said = answers(root)
    write_rows(tmp_path / "labels.jsonl", [label(one, True) for one in said])
    assert call("site", root.name, "--out", root.parent / "pages").code == 0
    good = scores(board_json(root))
    with (tmp_path / "labels.jsonl").open("a", encoding="utf-8") as handle:
        handle.write('{"item_id": "x", "model": "y", "answer_correct": "yes"}\n')
    for command in ("leaderboard", "site", "judges"):
        refused = call(command, root.name, *(("--out", tmp_path / "pages") if command == "site" else ()))
        assert refused.code == 2
        assert f"labels.jsonl, line {len(said) + 1}: column 'answer_correct'" in refused.err
    for name in KEYS:
        monkeypatch.setenv(name, "sandbox-key-any")
        monkeypatch.setenv(name.replace("_API_KEY", "_BASE_URL").replace("GEMINI", "GOOGLE_GEMINI"), NOBODY)
    went_on = call("run", tmp_path / "manifest.toml")
    assert went_on.code == 0
    assert "the run's copy of" in went_on.err
    assert dict(tables.read(root / "tables", "leaderboard").select("model", "score").iter_rows()) == good


def test_labels_are_kept_in_a_table(copied: Copied, tmp_path: Path) -> None:
    root = copied(ANNOTATED)
    said = answers(root)
    write_rows(tmp_path / "labels.jsonl", [label(one, not one["verdict"]) for one in said])
    assert call("site", root.name, "--out", root.parent / "pages").code == 0
    stored = tables.read(root / "tables", "labels")
    assert stored.height == len(said)
    verdicts = {(one["item_id"], one["model"]): one["verdict"] for one in said}
    for row in stored.iter_rows(named=True):
        assert row["both_correct"] == (not verdicts[row["item_id"], row["model"]])
        assert row["people"] == 1
