"""Runs that have ended, each made once; a test gets a copy, without a key and without a provider to reach."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from layton_batch.annotate import session
from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.label_plan import LabelForecast
from tests.labels.label_runs import ANNOTATED, GOLD_FILE, asked, finish, gold_rows, note_as_written, write_rows
from tests.labels.opened_app import Opened, opened
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
    make = session.outlook

    def outlook(board: JuryBoard, *more: object, **named: object) -> LabelForecast:
        key = repr((board.votes.rows(), board.labels.rows(), board.rules, more, named))
        if key not in made:
            made[key] = make(board, *more, **named)  # type: ignore[arg-type]
        return made[key]

    with mock.patch.object(session, "outlook", outlook):
        yield


@pytest.fixture(scope="package")
def made(tmp_path_factory: pytest.TempPathFactory) -> Copied:
    """By the lines of [gold]: the folder of a run that nobody may change."""
    return cache(lambda gold: finish(tmp_path_factory.mktemp("made"), gold))


def copy_run(source: Path, gold: str, folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Copy a run to ``runs`` of the working folder, where its manifest and gold set are as well; return its folder."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        patch.delenv(name)
    patch.delenv("LAYTON_BATCH_STATE", raising=False)
    patch.setenv("XDG_STATE_HOME", str(folder / "user"))
    patch.chdir(folder)
    root = folder / "runs" / source.name
    shutil.copytree(source.parent, root.parent)
    write_rows(folder / GOLD_FILE, gold_rows())
    (folder / "manifest.toml").write_text(asked(gold), encoding="utf-8")
    run = root / "run.json"
    run.write_text(json.dumps({**json.loads(run.read_bytes()), "folder": str(folder)}), encoding="utf-8")
    note_as_written(root, run)  # as if it had begun here
    return root


@pytest.fixture
def copied(made: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copied:
    """``copied(gold)``: a copy of such a run, for one test."""
    return lambda gold: copy_run(made(gold), gold, tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def untouched(made: Copied, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The app of a run in which the tests of a module label nothing."""
    with pytest.MonkeyPatch.context() as patch:
        root = copy_run(made(ANNOTATED), ANNOTATED, tmp_path_factory.mktemp("untouched"), patch)
        with opened(root) as app:
            yield app
