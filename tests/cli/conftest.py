"""Where a command is given: a folder of its own, keys that are none, addresses where nobody is; and finished runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from layton_batch.sandbox import SandboxConfig
from tests.support.cli_harness import NOBODY, call, desk
from tests.support.lab import BUNDLED, MODELS, manifest_text, quiz_text, write_few_labels

QUIZ = "question,answer\nWhat is 12 times 12?,144\nHow many legs has a spider?,8\n"
KEYS = tuple(f"{name}_API_KEY" for name in ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL"))
NEED_A_PATH = ("openai", "doubleword", "openrouter")
"""Providers whose own address ends in a path."""
GOLD = BUNDLED / "gold_llm.jsonl"


def quick(config: SandboxConfig, make: Callable[..., None], **given: Any) -> None:
    """Make the config of a sandbox. One on the clock of this machine carries out batches at once."""
    make(config, **given if "clock" in given else {**given, "batch_seconds": 0.05})


@pytest.fixture(autouse=True, scope="session")
def without_waiting() -> Iterator[None]:
    """No power is cut here, so nothing needs to reach the disk; nobody waits for the sandbox of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _descriptor: None)
        patch.setattr(SandboxConfig, "__init__", partialmethod(quick, SandboxConfig.__init__))
        yield


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


@dataclass(frozen=True)
class Finished:
    """A workspace that is only read: ``lab`` has a jury and labels, ``other`` a model more, a rule grades ``quiz``.

    ``public`` below the folder is the site of ``lab`` with its data; ``billed``: what the sandbox billed for all.
    """

    folder: Path
    billed: Decimal


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    gold = f'[gold]\nsource = "{write_few_labels(folder).name}"'
    other = manifest_text(("groq",), limit=2, top=gold).replace('"lab"', '"other"')
    texts = {
        "lab": manifest_text(("openai", "together"), top=gold),
        "other": other.replace(f'name = "{MODELS["groq"]}"', 'name = "twin"'),
        "quiz": quiz_text(limit=2).replace('"lab"', '"quiz"'),
    }
    with pytest.MonkeyPatch.context() as patch, desk(folder, patch) as bench:
        for name, text in texts.items():
            assert call("run", bench.write(text, f"{name}.toml")).code == 0
        assert call("site", "lab", "--out", "public", "--with-data").code == 0
        return Finished(folder, bench.server_total())


@pytest.fixture
def here(finished: Finished, offline: Path) -> Path:
    """A copy of the finished runs, where no provider can be reached."""
    shutil.copytree(finished.folder / "runs", offline / "runs")
    return offline
