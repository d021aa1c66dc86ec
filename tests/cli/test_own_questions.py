"""A file of one's own questions: run with nothing but models, rehearsed in a sandbox, and never mixed with the real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.manifest.checks import load_manifest
from tests.cli.conftest import KEYS
from tests.support.cli_harness import call

MODELS = ("--model", "openai:gpt-5.2", "--model", "anthropic:claude-opus-4-8")
MADE_UP = "Made up: a sandbox played anthropic, gemini, mistral, openai. No model was asked, and nothing was paid."


def test_a_quiz_and_models_are_enough_for_a_board_and_a_page_that_say_they_are_made_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = call("run", "quiz.csv", *MODELS, "--sandbox", "--yes")
    assert first.code == 0, first.err
    assert "Leaderboard" in first.out
    assert MADE_UP in first.err
    assert MADE_UP in call("leaderboard", "runs-sandbox/quiz").err
    assert MADE_UP in (folder / "runs-sandbox" / "quiz" / "site" / "index.html").read_text(encoding="utf-8")

    board = call("leaderboard", "runs-sandbox/quiz", "--format", "json").out
    for form, path in (("votes", "archive/quiz.parquet"), ("ppi", "quiz.jsonl")):
        assert call("export", "runs-sandbox/quiz", "--to", form, "--out", path).code == 0
        ranked = json.loads(call("leaderboard", path.removesuffix("/quiz.parquet"), "--format", "json").out)
        shown = [{name: row[name] for name in ("model", "score", "lower", "upper")} for row in ranked]
        assert shown == [{name: row[name] for name in shown[0]} for row in json.loads(board)], form

    manifest = load_manifest(folder / "quiz.toml")
    assert (manifest.name, manifest.items.source) == ("quiz", "quiz.csv")
    assert [model.model for model in manifest.models] == ["gpt-5.2", "claude-opus-4-8"]
    edited = (folder / "quiz.toml").read_text(encoding="utf-8") + "[budget]\nmax_usd = 3\n"
    (folder / "quiz.toml").write_text(edited, encoding="utf-8")
    again = call("run", "quiz.csv", *MODELS, "--sandbox")
    assert (again.code, "at the provider" in again.err) == (0, False), again.err
    assert (folder / "quiz.toml").read_text(encoding="utf-8") == edited

    assert "`layton-batch leaderboard runs-sandbox/quiz`" in call("status", "--runs", "runs-sandbox").out
    assert not (folder / "runs").exists()
    for name in KEYS:
        monkeypatch.setenv(name, "a-real-key")
    mixed = call("run", "quiz.toml", "--runs", "runs-sandbox", "--offline")
    assert (mixed.code, "are made up" in mixed.err, "nothing was sent" in mixed.err) == (2, True, True), mixed.err


def test_without_the_sandbox_every_key_that_is_missing_is_named(folder: Path) -> None:
    ended = call("run", "quiz.csv", *MODELS)
    assert ended.code == 2
    assert [line for line in ended.err.splitlines() if "needs an API key" in line and "or name other judges" in line]
    assert all(name in ended.err for name in KEYS)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("wrong.csv", *MODELS), "there is no column 'question'; the columns are: 'Frage', 'Antwort'"),
        (("old.xls", *MODELS), "old.xls is no manifest"),
        (("options.csv", *MODELS), "column 'options' is no list, so it is no multiple choice, and qa shows no options"),
        (("quiz.csv", "--model", "vertex:x", "--sandbox"), "--sandbox does not play vertex"),
    ],
)
def test_what_cannot_be_run_is_told_and_leaves_no_manifest(folder: Path, arguments: tuple[str, ...], told: str) -> None:
    (folder / "old.xls").touch()
    (folder / "wrong.csv").write_text("Frage;Antwort\nWas?;Das\n", encoding="utf-8")
    (folder / "options.csv").write_text('question,options,answer\nTwo?,"3,4,5",4\n', encoding="utf-8")
    ended = call("run", *arguments)
    assert (ended.code, told in ended.err) == (2, True), ended.err
    if "vertex:x" not in arguments:
        assert not list(folder.glob("*.toml"))


def test_columns_that_models_do_not_see_are_named(folder: Path) -> None:
    (folder / "wide.csv").write_text("question,author,year,answer\nWhat is 2+2?,me,2025,4\n", encoding="utf-8")
    words = "wide.csv: models see nothing of the columns author, year: qa does not"
    assert words in call("run", "wide.csv", *MODELS).err


def test_a_manifest_beside_the_file_that_asks_something_else_stays(folder: Path) -> None:
    assert call("run", "quiz.csv", *MODELS).code == 2  # no key, but the manifest is there
    before = (folder / "quiz.toml").read_bytes()
    ended = call("run", "quiz.csv", "--model", "openai:gpt-5.2")
    assert (ended.code, (folder / "quiz.toml").read_bytes()) == (2, before)
    assert "quiz.toml is there and asks for something else (models)" in ended.err


def test_a_file_with_the_columns_of_a_task_is_that_task_s(folder: Path) -> None:
    row = 'question,options,answer\nWhich?,"[""a"", ""b""]",a\n'
    (folder / "choices.csv").write_text(row, encoding="utf-8")
    call("run", "choices.csv", "--model", "openai:gpt-5.2")
    assert load_manifest(folder / "choices.toml").task == "mcq_idk"
