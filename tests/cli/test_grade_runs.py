"""``grade`` on a run: its replies once more, out of its own tables, by its own protocol or another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_harness import call
from tests.support.finished_runs import rule_lab, rule_text
from tests.support.graded_files import board, lines, models, refused, replies

TASKS = ("mcq_idk", "zebralogic", "rome")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of every task, named as the task: three models on twelve items."""
    with rule_lab(tmp_path_factory.mktemp("graded")) as there:
        for task in TASKS:
            text = rule_text(task).replace('name = "lab"', f'name = "{task}"')
            there.finish(text + '[scoring]\nmetric = "idk_score"\n' * (task == "mcq_idk"))
        return there.runs


@pytest.mark.parametrize("task", TASKS)
def test_a_run_graded_again_by_its_own_protocol_has_its_own_board_in_the_same_words(task: str, runs: Path) -> None:
    document = board(task, "--predictions", task, "--runs", runs)
    rows = call("leaderboard", task, "--runs", runs, "--format", "json").json
    assert isinstance(rows, list)
    assert {
        name: (one["rank"], one["rank_box"], one["score"], one["interval"], one["failures"])
        for name, one in models(document).items()
    } == {
        row["model"]: (
            row["rank"],
            [row["rank_best"], row["rank_worst"]],
            row["score"],
            [row["lower"], row["upper"]],
            row["failures"],
        )
        for row in rows
    }


@pytest.mark.parametrize("task", TASKS)
def test_a_run_is_graded_by_another_protocol_too_by_name_or_folder(task: str, runs: Path) -> None:
    folder = runs / task
    found = [
        board(task, "--predictions", source, "--runs", runs, "--protocol", "original") for source in (folder, task)
    ]
    assert found[0] == found[1]
    assert len(models(found[0])) == 3
    assert found[0]["protocol"] == "original"


def test_a_run_and_its_copy_are_told_apart_and_a_name_goes_before_a_runs_models(runs: Path) -> None:
    twice = ["--predictions", "rome", "--predictions", "again=rome"]
    names = list(models(board("rome", *twice, "--runs", runs)))
    assert len(names) == 6
    assert all(name.startswith("again/") for name in names[3:])


def test_what_is_no_run_of_the_task_is_refused(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = runs / "rome"
    assert f"run {folder.name} is of task rome, not mcq_idk" in refused("mcq_idk", "--predictions", folder)
    assert "no such file or folder, and there is no run 'nothing'" in refused("rome", "--predictions", "nothing")
    other = lines("p.jsonl", replies("AB"))
    told = refused("mcq_idk", "--predictions", "mcq_idk", "--predictions", other, "--runs", str(runs))
    assert "no item is in the predictions of all models" in told
