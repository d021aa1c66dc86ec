"""Where a command is given: a folder of its own, keys that are none, and addresses where nobody is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.lab import MODELS

QUIZ = "question,answer\nWhat is 12 times 12?,144\nHow many legs has a spider?,8\n"
KEYS = tuple(f"{name}_API_KEY" for name in ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL"))
NEED_A_PATH = ("openai", "doubleword", "openrouter")
"""Providers whose own address ends in a path."""
NOBODY = "http://127.0.0.1:9"
"""The discard port of this machine: nothing that is sent arrives."""


@pytest.fixture(autouse=True)
def without_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here, so nothing needs to reach the disk."""
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; every provider has a key and an address that does not answer."""
    for provider in MODELS:
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", "no-key")
        name = "GOOGLE_GEMINI_BASE_URL" if provider == "gemini" else f"{provider.upper()}_BASE_URL"
        monkeypatch.setenv(name, f"{NOBODY}/v1" if provider in NEED_A_PATH else NOBODY)
    for name in ("LAYTON_BATCH_STATE", "LAYTON_BATCH_RUNS", "HF_TOKEN", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a quiz and no key for anything."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.replace("API_KEY", "BASE_URL"), raising=False)
    monkeypatch.delenv("LAYTON_BATCH_RUNS", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiz.csv").write_text(QUIZ, encoding="utf-8")
    return tmp_path
