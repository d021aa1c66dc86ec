"""export: layton-eval's three forms, and the same board from them, digit for digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.labels.conftest import Copied
from tests.labels.label_desk import PLAIN, WITH_GOLD, answers, label, write_rows
from tests.support.cli_harness import call
from tests.support.tiers import tiered


def board(source: str | Path, *more: str) -> list[dict[str, Any]]:
    ended = call("leaderboard", source, "--format", "json", *more)
    assert ended.code == 0, ended.err
    rows: list[dict[str, Any]] = json.loads(ended.out)
    return rows


def export(root: Path, form: str) -> Path:
    out = root.parent.parent / "out" / f"{form}.jsonl"
    ended = call("export", root.name, "--to", form, "--out", out)
    assert ended.code == 0, ended.err
    return out


def with_labels(root: Path) -> None:
    said = answers(root)
    rows = [label(one, number % 3 > 0, annotator="ann") for number, one in enumerate(said[::2])]
    rows += [label(one, number % 4 > 0, annotator="bob") for number, one in enumerate(said[::3])]
    file = write_rows(root.parent.parent / "given.jsonl", rows)
    assert call("label", "import", root.name, file).code == 0


@pytest.mark.parametrize(
    ("labelled", "gold"), tiered((False, True), (PLAIN, WITH_GOLD), ci=[(True, PLAIN), (False, WITH_GOLD)])
)
def test_the_board_of_exported_answers_is_the_run_s_digit_for_digit(copied: Copied, gold: str, labelled: bool) -> None:
    root = copied(gold)
    if labelled:
        with_labels(root)
    file = export(root, "ppi")
    assert board(file) == board(root.name)
    for metric in ("both_correct", "answer_correct", "justification_correct"):
        how = ("--method", "paper", "--metric", metric)
        assert board(file, *how) == board(root.name, *how)


def test_exported_answers_have_the_columns_that_layton_eval_s_tools_choose(copied: Copied) -> None:
    root = copied(WITH_GOLD)
    frame = pl.read_ndjson(export(root, "ppi"), infer_schema_length=None)
    judges = {"tern-3-referee", "sirocco-referee"}
    for start in ("is_answer_correct_", "is_justification_correct_", "both_correct_"):
        assert {name.removeprefix(start) for name in frame.columns if name.startswith(start)} == judges
    needed = {"riddle_id", "provider", "model", "n_hints", "answer", "justification"}
    assert needed | {f"human_{part}_correct" for part in ("answer", "justification", "both")} < set(frame.columns)
    ranked = frame.filter(pl.col("ranked").fill_null(True))
    assert set(ranked["model"]) == {one["model"] for one in answers(root)}
    assert 0 < ranked.height < frame.height  # the gold set's answers only bring labels


def test_exported_labels_imported_elsewhere_give_the_same_board(copied: Copied, tmp_path: Path) -> None:
    root = copied(PLAIN)
    with_labels(root)
    file, expected = export(root, "annotations"), board(root.name)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    theirs = {
        "riddle_id",
        "source_file",
        "model",
        "provider",
        "custom_id",
        "is_answer_correct",
        "is_justification_correct",
    }
    assert all(theirs | {"notes", "annotator"} <= row.keys() for row in rows)
    assert all(row["source_file"].split("_")[2] == row["model"].replace("_", "-") for row in rows)
    bare = root.parent.rename(tmp_path / "labelled")
    again = copied(PLAIN)
    assert {row["method"] for row in board(again.name)} == {"uncalibrated"}
    assert call("label", "import", again.name, file).code == 0
    assert board(again.name) == expected
    assert bare.exists()


def test_exported_results_are_the_board_in_layton_eval_s_columns(copied: Copied) -> None:
    root = copied(WITH_GOLD)
    rows = [json.loads(line) for line in export(root, "results").read_text(encoding="utf-8").splitlines()]
    ranked = board(root.name)
    names = ("rank", "best_possible_rank", "worst_possible_rank", "model", "score", "95% CI (±)", "provider")
    ours = ("rank", "rank_best", "rank_worst", "model", "score", "half_width", "provider")
    assert [[row[name] for name in names] for row in rows] == [[row[name] for name in ours] for row in ranked]
    assert rows[0]["rank_spread"] == f"{ranked[0]['rank_best']} <--> {ranked[0]['rank_worst']}"


def test_an_unknown_form_is_refused_with_those_there_are(copied: Copied, tmp_path: Path) -> None:
    root = copied(PLAIN)
    refused = call("export", root.name, "--to", "docx", "--out", tmp_path / "x")
    assert refused.code == 2
    assert "ppi, annotations, results" in refused.err
    assert not (tmp_path / "x").exists()


def test_a_run_without_labels_has_none_to_export(copied: Copied, tmp_path: Path) -> None:
    refused = call("export", copied(PLAIN).name, "--to", "annotations", "--out", tmp_path / "x.jsonl")
    assert refused.code == 2
    assert "nothing to write" in refused.err
