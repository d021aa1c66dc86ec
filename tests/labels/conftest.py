"""Runs that have ended, each made once; a test gets a copy, without a key and without a provider to reach."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from layton_batch.annotate import forecast
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.label_plan import LabelForecast
from tests.labels.label_desk import GOLD_FILE, asked, finished, freeze, gold_rows, write_rows
from tests.support.pages import without_pages as without_pages

Copied = Callable[[str], Path]


@pytest.fixture(autouse=True)
def without_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here, so nothing needs to reach the disk."""
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)


@pytest.fixture(scope="package", autouse=True)
def forecasts_of_equal_labels_made_once() -> Iterator[None]:
    """Most tests open the app beside the same votes without a label."""
    made: dict[str, LabelForecast] = {}
    make = forecast.outlook

    def outlook(board: JuryBoard, *more: object, **named: object) -> LabelForecast:
        key = repr((board.votes.rows(), board.labels.rows(), board.rules, more, named))
        if key not in made:
            made[key] = make(board, *more, **named)  # type: ignore[arg-type]
        return made[key]

    with mock.patch.object(forecast, "outlook", outlook):
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Copied:
    """By the lines of [gold]: the folder of a run that nobody may change."""
    runs: dict[str, Path] = {}

    def make(gold: str) -> Path:
        if gold not in runs:
            folder = tmp_path_factory.mktemp("made")
            write_rows(folder / GOLD_FILE, gold_rows())
            with pytest.MonkeyPatch.context() as patch, finished(folder, patch, gold) as at:
                runs[gold] = at.run_root()
        return runs[gold]

    return make


@pytest.fixture
def copied(made: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copied:
    """Makes a copy of one of them in ``runs`` of the working folder, where its manifest and gold set are as well."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("LAYTON_BATCH_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)

    def copy(gold: str) -> Path:
        root = tmp_path / "runs" / made(gold).name
        shutil.copytree(made(gold).parent, root.parent)
        write_rows(tmp_path / GOLD_FILE, gold_rows())
        (tmp_path / "manifest.toml").write_text(asked(gold), encoding="utf-8")
        frozen = json.loads((root / "run.json").read_text(encoding="utf-8"))
        freeze(root, json.dumps({**frozen, "folder": str(tmp_path)}))
        return root

    return copy
