"""layton-eval's judge files alone: a board without the answers, by people's labels where there are any."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.cli_harness import Ending, call
from tests.support.harness_files import write_lines
from tests.support.paths import SHARED_DATA

PUBLISHED = SHARED_DATA / "layton" / "ppi_llm.jsonl"
RIGHT, WRONG = (
    json.dumps({"is_answer_correct": is_right, "is_justification_correct": True}) for is_right in (True, False)
)


def written(path: Path, judge: str, answers: Sequence[str]) -> Path:
    rows = ({"custom_id": str(number), "answer": text, "model": judge} for number, text in enumerate(answers))
    return write_lines(path, list(rows))


def board(*sources: str | Path) -> list[dict[str, object]]:
    ended: Ending = call("leaderboard", *sources, "--format", "json")
    assert ended.code == 0, ended.err
    rows: list[dict[str, object]] = json.loads(ended.out)
    return rows


def test_the_files_of_a_models_judges_are_its_jury(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a.jsonl", "judge-a", [RIGHT, RIGHT, WRONG, f"```json\n{RIGHT}\n```"]),
        written(tmp_path / "b.jsonl", "judge-b", [RIGHT, RIGHT, WRONG, WRONG]),
        written(tmp_path / "c.jsonl", "judge-c", [RIGHT, WRONG, WRONG, "<b>no JSON</b>"]),
    ]
    (row,) = board(*files)
    assert (row["model"], row["method"], row["n_items"], row["score"]) == ("model", "uncalibrated", 4, 52.5)
    (row,) = board(*(f"lab/finch={file}" for file in files))
    assert (row["model"], row["provider"], row["score"]) == ("finch", "lab", 52.5)
    two = board(*(f"finch={file}" for file in files), f"wren={files[2]}")
    assert {str(row["model"]): row["score"] for row in two} == {"finch": 52.5, "wren": 40.9}


def test_two_verdicts_of_a_judge_on_an_item_are_two_models_and_told(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{name}.jsonl", "judge-a", [RIGHT]) for name in "ab"]
    ended = call("leaderboard", *files)
    assert ended.code == 2
    assert "b.jsonl, line 1: judge 'judge-a' has a verdict on item '0' of 'model' already" in ended.err
    assert "NAME=FILE" in ended.err


def _judge_files(folder: Path, model: str) -> Iterator[str]:
    """Write the recorded verdicts on a model as its judges' files."""
    prefix = "is_answer_correct_"
    rows = [row for row in map(json.loads, PUBLISHED.read_text().splitlines()) if row["model"] == model]
    for column in (name for name in rows[0] if name.startswith(prefix) and rows[0][name] is not None):
        judge = column.removeprefix(prefix)
        verdicts = [
            {name: row[f"{name}_{judge}"] for name in ("is_answer_correct", "is_justification_correct")} for row in rows
        ]
        lines = [
            {"custom_id": row["riddle_id"], "answer": json.dumps(verdict), "model": judge}
            for row, verdict in zip(rows, verdicts, strict=True)
        ]
        path = write_lines(folder / f"{judge}.jsonl", lines)
        yield f"{rows[0]['provider']}/{model}={path}"


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("model", "published"),
    [("moonshotai-kimi-k2.5-thinking", (73.4, 1.4)), ("claude-opus-4-5-20251101-no-thinking", (70.2, 0.9))],
)
def test_three_judge_files_and_published_labels_give_the_published_score(
    tmp_path: Path, model: str, published: tuple[float, float]
) -> None:
    (row,) = board(*_judge_files(tmp_path, model), "--labels", PUBLISHED, "--method", "paper")
    assert (row["score"], row["half_width"]) == published
