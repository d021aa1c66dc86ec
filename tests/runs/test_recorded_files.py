"""Text files of a run are known by their digests, also where a kill or a pause keeps a new one from its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.errors import AnotherDriverError, FileError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.stores import check_files, recording
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.run_store import RunStore


class Killed(BaseException):
    """The end of the program between the record of a file and its name."""


def opened(workspace: Path) -> tuple[RunStore, RunFolder]:
    return RunStore(open_engine(sqlite_url(workspace / "state.sqlite3")), "run"), RunFolder(workspace / "run")


def killed(*_arguments: object) -> None:
    raise Killed


def fail_to_write(path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(Killed):
        atomic.write_text(path, content)
    monkeypatch.undo()


def test_a_kill_while_a_file_is_replaced_is_no_damage_and_a_changed_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = opened(tmp_path)
    with recording(store, folder):
        atomic.write_text(folder.manifest, "first")
    for revision in ("second", "third"):
        with recording(store, folder):
            fail_to_write(folder.manifest, revision, monkeypatch)
        assert folder.manifest.read_text(encoding="utf-8") == "first"
        check_files(store, folder)
    monkeypatch.setattr(RunStore, "note_files", killed)
    with recording(store, folder), pytest.raises(Killed):
        atomic.write_text(folder.manifest, "fourth")
    monkeypatch.undo()
    check_files(store, folder)
    with recording(store, folder):
        atomic.write_text(folder.manifest, "fifth")
    folder.manifest.write_text("sixth", encoding="utf-8")
    with pytest.raises(FileError, match=r"run\.json was changed"):
        check_files(store, folder)


def test_a_program_that_lost_its_run_before_a_file_gets_its_name_writes_nothing(tmp_path: Path) -> None:
    store, folder = opened(tmp_path)
    forget = RunStore.forget_file
    drives = True

    def frozen(store: RunStore, name: str) -> None:
        nonlocal drives
        forget(store, name)
        if drives:
            drives = False
            with atomic.guarded(folder.root, lambda: None), recording(store, folder):  # another program, meanwhile
                atomic.write_text(folder.manifest, "of the next")

    def check() -> None:
        if not drives:
            raise AnotherDriverError("another process drives the run")

    with recording(store, folder):
        atomic.write_text(folder.manifest, "before")
    with pytest.MonkeyPatch.context() as patch, atomic.guarded(folder.root, check), recording(store, folder):
        patch.setattr(RunStore, "forget_file", frozen)
        with pytest.raises(AnotherDriverError):
            atomic.write_text(folder.manifest, "of the first")
    assert folder.manifest.read_text(encoding="utf-8") == "of the next"
    check_files(store, folder)
