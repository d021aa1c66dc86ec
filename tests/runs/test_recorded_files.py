"""Text files of a run are known by their digests, also where a kill or a pause keeps a new one from its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from layton_batch.errors import AnotherDriverError, FileError
from layton_batch.files import atomic
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import FileDigest
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


def test_a_file_that_was_recorded_twice_and_never_got_its_name_is_still_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = opened(tmp_path)
    with recording(store, folder):
        atomic.write_text(folder.manifest, "first")
    for revision in ("second", "third", "fourth"):
        with recording(store, folder):
            fail_to_write(folder.manifest, revision, monkeypatch)
        assert folder.manifest.read_text(encoding="utf-8") == "first"
        check_files(store, folder)
    with recording(store, folder):
        atomic.write_text(folder.manifest, "fifth")
    check_files(store, folder)
    folder.manifest.write_text("sixth", encoding="utf-8")
    with pytest.raises(FileError, match=r"run\.json was changed"):
        check_files(store, folder)


def test_a_damaged_file_that_is_written_anew_is_not_taken_for_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = opened(tmp_path)
    with recording(store, folder):
        atomic.write_text(folder.manifest, "first")
        folder.manifest.write_text("fi2st", encoding="utf-8")
        fail_to_write(folder.manifest, "second", monkeypatch)
    with pytest.raises(FileError, match=r"run\.json was changed"):
        check_files(store, folder)


def test_a_program_that_was_frozen_after_it_recorded_a_file_does_not_write_over_that_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = opened(tmp_path)
    note_files = RunStore.note_files
    drives = True

    def frozen(store: RunStore, files: Sequence[FileDigest]) -> None:
        nonlocal drives
        note_files(store, files)
        if drives:
            drives = False
            with atomic.guarded(folder.root, lambda: None), recording(store, folder):  # another program, meanwhile
                atomic.write_text(folder.manifest, "of the next")

    def check() -> None:
        if not drives:
            raise AnotherDriverError("another process drives the run")

    monkeypatch.setattr(RunStore, "note_files", frozen)
    with atomic.guarded(folder.root, check), recording(store, folder), pytest.raises(AnotherDriverError):
        atomic.write_text(folder.manifest, "of the first")
    assert folder.manifest.read_text(encoding="utf-8") == "of the next"
    check_files(store, folder)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_file_that_gets_its_name_late_from_a_frozen_program_is_still_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    store, folder = opened(tmp_path)
    if not is_new:
        with recording(store, folder):
            atomic.write_text(folder.manifest, "before")
    replace = Path.replace
    is_frozen = False

    def late(path: Path, target: Path) -> Path:
        nonlocal is_frozen
        if not is_frozen:
            is_frozen = True
            with recording(store, folder):  # another program, meanwhile
                atomic.write_text(folder.manifest, "of the next")
            check_files(store, folder)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", late)
    with recording(store, folder):
        atomic.write_text(folder.manifest, "of the first")
    assert folder.manifest.read_text(encoding="utf-8") == "of the first"
    check_files(store, folder)
