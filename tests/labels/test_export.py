"""export: layton-eval's three forms, and the same board from them, digit for digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from tests.labels.conftest import Copied
from tests.labels.label_desk import WITH_GOLD, answers
from tests.support.cli_harness import call


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
