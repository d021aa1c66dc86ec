"""`leaderboard` and `compare` on the per-item scores of other programs."""

from __future__ import annotations

import json
from pathlib import Path

from layton_batch.records import JsonValue
from tests.support.cli_harness import Ending, call
from tests.support.harness_files import GOLDEN, eee_line, lm_eval_line, write_lines

LOGS = [str(GOLDEN / name) for name in ("finch.eval", "robin.eval", "wren.json")]


def _board(*arguments: str) -> list[dict[str, JsonValue]]:
    ended = call("leaderboard", *arguments, "--format", "json")
    assert ended.code == 0, ended.err
    rows: list[dict[str, JsonValue]] = json.loads(ended.out)
    return rows


def _refused(*arguments: str) -> str:
    ended: Ending = call("leaderboard", *arguments)
    assert ended.code == 2, ended.out
    return ended.err


def _eee(path: Path, model: str, marks: str, **changes: JsonValue) -> str:
    return str(write_lines(path, [eee_line(model, f"i{n:02}", float(mark), **changes) for n, mark in enumerate(marks)]))


def test_logs_of_inspect_are_ranked_with_intervals_and_joint_rank_ranges() -> None:
    rows = _board(*LOGS)
    assert [(row["model"], row["score"], row["n_items"]) for row in rows] == [
        ("mockllm/finch", 83.3, 6),
        ("mockllm/robin", 58.3, 6),
        ("mockllm/wren", 50.0, 6),
    ]
    assert [(row["rank_best"], row["rank_worst"]) for row in rows] == [(1, 3), (1, 3), (1, 3)]
    assert all(row["method"] == "rule" and row["metric"] == "match" for row in rows)


def test_another_metric_of_the_files_can_be_asked_for_and_is_named() -> None:
    ended = call("leaderboard", *LOGS)
    assert "--metric takes includes as well" in ended.err
    rows = _board(*LOGS, "--metric", "includes")
    assert {row["model"]: row["score"] for row in rows}["mockllm/wren"] == 66.7
    assert "finch.eval: match, includes" in _refused(*LOGS, "--metric", "excludes")


def test_models_are_ranked_on_the_items_that_all_have(tmp_path: Path) -> None:
    ended = call(
        "leaderboard", _eee(tmp_path / "a.jsonl", "a/finch", "1110"), _eee(tmp_path / "b.jsonl", "a/wren", "10"),
        "--format", "json",
    )  # fmt: skip
    assert [(row["score"], row["n_items"]) for row in json.loads(ended.out)] == [(100.0, 2), (50.0, 2)]
    assert "a/finch: ranked on the 2 items that all models have; it has 4" in ended.err


def test_items_of_one_id_that_ask_something_else_are_not_compared(tmp_path: Path) -> None:
    other = {"raw": "What else?", "reference": ["7"]}
    files = _eee(tmp_path / "a.jsonl", "a/finch", "11"), _eee(tmp_path / "b.jsonl", "a/wren", "11", input=other)
    assert "is not the same in" in _refused(*files)


def test_one_model_in_two_files_is_refused_until_one_has_another_name(tmp_path: Path) -> None:
    first, second = _eee(tmp_path / "a.jsonl", "a/finch", "10"), _eee(tmp_path / "b.jsonl", "a/finch", "11")
    assert "NAME=FILE" in _refused(first, second)
    assert [row["model"] for row in _board(first, f"low effort={second}")] == ["low effort", "a/finch"]


def test_several_evaluations_of_one_model_are_taken_together(tmp_path: Path) -> None:
    files = []
    for model, marks in (("nest__finch", (1.0, 0.0)), ("nest__wren", (1.0, 1.0))):
        for task in ("sums", "products"):
            path = tmp_path / model / f"samples_{task}_2026-11-20T10-11-12.123456.jsonl"
            files.append(str(write_lines(path, [lm_eval_line(n, {"acc": mark}) for n, mark in enumerate(marks)])))
    assert [(row["model"], row["score"], row["n_items"]) for row in _board(*files)] == [
        ("nest/wren", 100.0, 4),
        ("nest/finch", 50.0, 4),
    ]


def test_a_file_that_is_there_twice_and_files_of_nothing_shared_are_refused(tmp_path: Path) -> None:
    first = _eee(tmp_path / "a.jsonl", "a/finch", "10")
    other = str(write_lines(tmp_path / "b.jsonl", [eee_line("a/wren", "z", 1.0)]))
    assert "is in" in _refused(first, first)
    assert "no item is in the predictions of all models" in _refused(first, other)


def test_totals_of_lm_eval_are_refused_with_the_files_that_have_the_items(tmp_path: Path) -> None:
    path = tmp_path / "results_2026-11-20T10-11-12.123456.json"
    path.write_text('{"results": {"hellaswag": {"acc,none": 0.5}}, "model_name": "nest/finch"}', encoding="utf-8")
    assert "has the totals of lm-evaluation-harness, not its items; give the samples_*.jsonl files" in _refused(path)


def test_marks_above_one_need_the_best_mark(tmp_path: Path) -> None:
    path = _eee(tmp_path / "a.jsonl", "a/finch", "57")
    assert "marks go up to 1" in _refused(path)
    assert [row["score"] for row in _board(path, "--max-score", "10")] == [60.0]
    assert "--max-score 0" in _refused(path, "--max-score", "0")
