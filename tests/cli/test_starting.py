"""Beginning: a task, a file of one's own questions, or ``init``; rehearsed in a sandbox, never mixed with the real."""

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
from tests.cli.conftest import KEYS
from tests.support.cli_harness import NOBODY, call, refused, write
from tests.support.lab import answerer
from tests.support.tiers import tiered

MODELS = ("--model", "openai:gpt-5.2", "--model", "anthropic:claude-opus-4-8")
MADE_UP = "Made up: a sandbox played anthropic, gemini, mistral, openai. No model was asked, and nothing was paid."


@pytest.fixture
def sandboxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A working folder whose environment leads to a sandbox that knows every task's bundled items."""
    with Sandbox(SandboxConfig(batch_seconds=0.05, answerer=answerer())) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LAYTON_BATCH_PACING", "0.02")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
        monkeypatch.chdir(tmp_path)
        yield server


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("task", BUILT_IN)
def test_init_writes_a_manifest_of_the_schema_and_three_items_and_says_what_is_next(task: str) -> None:
    ended = call("init", task, "--out", "mine")
    assert ended.code == 0, ended.err
    manifest = Path("mine") / f"{task}.toml"
    assert f"layton-batch plan {manifest}" in ended.err
    assert manifest.read_text(encoding="utf-8").startswith("#:schema ./layton-batch.schema.json\n")
    checker = jsonschema.Draft202012Validator(json.loads((Path("mine") / "layton-batch.schema.json").read_text()))
    checker.validate(tomllib.loads(manifest.read_text(encoding="utf-8")))
    assert len((Path("mine") / f"{task}-items.jsonl").read_text().splitlines()) == 3
    planned = call("plan", manifest, "--offline", "--json")
    assert (planned.code, planned.table()["items"]) == (0, 3), planned.err


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("task", tiered(BUILT_IN, ci=("qa",)))
def test_init_writes_a_manifest_and_three_items_that_run_as_they_are(task: str) -> None:
    assert call("init", task, "--out", "mine").code == 0
    done = call("run", Path("mine") / f"{task}.toml", "--poll-seconds", "0.05", "--max-usd", "50")
    assert done.code == 0, done.err
    assert call("leaderboard", "mine", "--format", "json").json[0]["n_items"] == 3  # type: ignore[index]


def test_init_names_a_run_after_its_folder_where_that_is_a_name_and_replaces_no_file(offline: Path) -> None:
    for folder, name in (("geography-2", "geography-2"), ("two words", "rome"), ("batches", "rome")):
        assert call("init", "rome", "--out", folder).code == 0
        assert load_manifest(offline / folder / "rome.toml").name == name
    assert call("init", "zebralogic", "--out", "geography-2").code == 0
    assert load_manifest(offline / "geography-2" / "zebralogic.toml").name == "geography-2-zebralogic"
    assert call("init").code == 0
    assert load_manifest(offline / "qa.toml").task == "qa"
    path = write(offline, "mine\n", "layton-items.jsonl")
    refused("init", "layton")
    assert (path.read_text(), (offline / "layton.toml").exists()) == ("mine\n", False)


# ---- one's own questions ---------------------------------------------------------------------------------------------


def test_a_quiz_and_models_are_enough_for_a_board_and_a_page_that_say_they_are_made_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = call("run", "quiz.csv", *MODELS, "--sandbox", "--yes")
    assert first.code == 0, first.err
    assert MADE_UP in first.err
    assert MADE_UP in call("leaderboard", "runs-sandbox/quiz").err
    assert MADE_UP in (folder / "runs-sandbox" / "quiz" / "site" / "index.html").read_text(encoding="utf-8")

    manifest = load_manifest(folder / "quiz.toml")
    assert (manifest.name, manifest.items.source) == ("quiz", "quiz.csv")
    assert [model.model for model in manifest.models] == ["gpt-5.2", "claude-opus-4-8"]
    edited = (folder / "quiz.toml").read_text(encoding="utf-8") + "[budget]\nmax_usd = 3\n"
    write(folder, edited, "quiz.toml")
    again = call("run", "quiz.csv", *MODELS, "--sandbox")
    assert (again.code, "at the provider" in again.err) == (0, False), again.err
    assert (folder / "quiz.toml").read_text(encoding="utf-8") == edited
    assert "quiz.toml is there and asks for something else (models)" in refused("run", "quiz.csv", *MODELS[:2])
    assert (folder / "quiz.toml").read_text(encoding="utf-8") == edited

    assert not (folder / "runs").exists()
    for name in KEYS:
        monkeypatch.setenv(name, "a-real-key")
    assert "are made up" in refused("run", "quiz.toml", "--runs", "runs-sandbox", "--offline")
    assert call("plan", "quiz.toml", "--runs", "runs-sandbox").code == 0, "the plan of a rehearsal asks nobody"


def test_without_the_sandbox_every_key_that_is_missing_is_named_and_columns_that_models_do_not_see(
    folder: Path,
) -> None:
    write(folder, "question,author,year,answer\nWhat is 2+2?,me,2025,4\n", "wide.csv")
    ended = call("run", "wide.csv", *MODELS)
    assert ended.code == 2
    assert all(name in ended.err for name in KEYS)
    assert "wide.csv: models see nothing of the columns author, year: qa does not" in ended.err
    assert "--sandbox does not play vertex" in refused("run", "quiz.csv", "--model", "vertex:x", "--sandbox")
    write(folder, 'question,options,answer\nWhich?,"[""a"", ""b""]",a\n', "choices.csv")
    assert call("run", "choices.csv", "--model", "openai:gpt-5.2").code == 2
    assert load_manifest(folder / "choices.toml").task == "mcq_idk"  # a file with the columns of a task is that task's


def test_a_quiz_has_the_judges_of_other_makers_whose_key_is_set_and_says_what_other_keys_are_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{NOBODY}/v1")
    alone = refused("run", "quiz.csv", *MODELS[:2])
    assert all(f"{name} buys" in alone for name in KEYS[1:])
    assert not (folder / "quiz.toml").exists()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "no-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", NOBODY)
    for _ in range(2):  # with the manifest that the first call wrote
        ended = call("run", "quiz.csv", *MODELS[:2], "--once", "--yes", "--offline")
        assert ended.code == 75, ended.err
    manifest = load_manifest(folder / "quiz.toml")
    assert [judge.model.provider for judge in manifest.panel() if judge.model.family != "openai"] == ["anthropic"]
    assert (manifest.seats, manifest.has_reasons) == (1, True)
