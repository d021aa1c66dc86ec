"""Beginning without a manifest of one's own."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from layton_batch.manifest.checks import load_manifest
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.tasks import BUILT_IN
from tests.support.cli_harness import call
from tests.support.lab import answerer
from tests.support.tiers import tiered

SOLD = "gpt-6.1-sol", "openai/gpt-oss-120b"
"""Models with a published price, without which a budget lets nothing be sent."""


@pytest.fixture
def sandboxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A working folder whose environment leads to a sandbox that knows every task's bundled items."""
    config = SandboxConfig(batch_seconds=0.05, answerer=answerer())
    with Sandbox(config) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LAYTON_BATCH_PACING", "0.02")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
        monkeypatch.chdir(tmp_path)
        yield server


@pytest.mark.parametrize("task", tiered((name for name in BUILT_IN if name not in {"layton", "qa"}), ci=("rome",)))
def test_a_task_and_models_run_without_a_manifest_and_leave_the_one_that_ran(sandboxed: Sandbox, task: str) -> None:
    models = ("--model", f"openai:{SOLD[0]}", "--model", f"groq:{SOLD[1]}")
    first = call("run", task, *models, "--limit", "3", "--max-usd", "5", "--poll-seconds", "0.05")
    assert first.code == 0, first.err
    (path,) = Path().glob("*.toml")
    manifest = load_manifest(path)
    assert [model.name for model in manifest.models] == list(SOLD)
    assert (manifest.items.limit, manifest.budget.max_usd) == (3, 5)
    billed = sandboxed.ledger().total_usd
    again = call("run", task, *models, "--limit", "3", "--max-usd", "5")
    assert (again.code, sandboxed.ledger().total_usd) == (0, billed)
    assert call("run", path).code == 0
    assert sandboxed.ledger().total_usd == billed


def test_a_manifest_that_was_written_and_edited_since_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rome-larch.toml"
    path.write_text("# mine\n")
    ended = call("run", "rome", "--model", "openai:larch")
    assert (ended.code, path.read_text()) == (2, "# mine\n")
    assert "rome-larch.toml" in ended.err


@pytest.mark.parametrize("task", BUILT_IN)
def test_init_writes_a_manifest_and_three_items_that_run_as_they_are(sandboxed: Sandbox, task: str) -> None:
    ended = call("init", task, "--out", "mine")
    assert ended.code == 0, ended.err
    manifest = Path("mine") / f"{task}.toml"
    assert f"layton-batch plan {manifest}" in ended.err
    assert manifest.read_text(encoding="utf-8").startswith("#:schema ./layton-batch.schema.json\n")
    checker = jsonschema.Draft202012Validator(json.loads((Path("mine") / "layton-batch.schema.json").read_text()))
    checker.validate(tomllib.loads(manifest.read_text(encoding="utf-8")))
    assert len([json.loads(line) for line in (Path("mine") / f"{task}-items.jsonl").read_text().splitlines()]) == 3
    planned = call("plan", manifest, "--offline", "--json")
    assert planned.code == 0, planned.err
    assert planned.table()["items"] == 3
    done = call("run", manifest, "--poll-seconds", "0.05", "--max-usd", "50")
    assert done.code == 0, done.err
    assert json.loads(call("leaderboard", "mine", "--format", "json").out)[0]["n_items"] == 3


@pytest.mark.parametrize(
    ("folder", "name"), [("geography-2", "geography-2"), ("two words", "rome"), ("batches", "rome")]
)
def test_init_names_a_run_after_its_folder_where_that_is_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = call("init", "rome", "--out", folder)
    assert f"the run is called {name}" in ended.err
    assert load_manifest(tmp_path / folder / "rome.toml").name == name
    if name == folder:
        assert f"the run is called {name}-zebralogic" in call("init", "zebralogic", "--out", folder).err


def test_init_without_a_task_is_for_questions_of_one_s_own(tmp_path: Path) -> None:
    assert call("init", "--out", tmp_path).code == 0
    assert load_manifest(tmp_path / "qa.toml").task == "qa"


def test_init_replaces_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rome-items.jsonl").write_text("mine\n")
    ended = call("init", "rome")
    assert (ended.code, (tmp_path / "rome-items.jsonl").read_text()) == (2, "mine\n")
    assert not (tmp_path / "rome.toml").exists()
    assert "no task" in call("init", "rmoe").err or "unknown task" in call("init", "rmoe").err
