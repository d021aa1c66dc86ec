"""Runs that have ended, made once; each test gets a copy without a key and without a provider to reach."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.labels.label_desk import PLAIN, WITH_GOLD, finished

Copied = Callable[[str], Path]


@pytest.fixture(autouse=True)
def without_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here, so nothing needs to reach the disk."""
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By the lines of [gold]: the folder of a run."""
    runs = {}
    for gold in (PLAIN, WITH_GOLD):
        with pytest.MonkeyPatch.context() as patch, finished(tmp_path_factory.mktemp("made"), patch, gold) as at:
            runs[gold] = at.run_root()
    return runs


@pytest.fixture
def copied(made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copied:
    """Makes a copy of one of them, in the working folder's ``runs``."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("LAYTON_BATCH_STATE", raising=False)
    monkeypatch.chdir(tmp_path)

    def copy(gold: str) -> Path:
        root = tmp_path / "runs" / made[gold].name
        shutil.copytree(made[gold], root)
        return root

    return copy
