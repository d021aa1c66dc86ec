"""A disk or a database that is in the way: a sentence and exit code 74, which is not the code of bad usage."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DatabaseError, OperationalError

from layton_batch import errors
from layton_batch.errors import FileError, StaleStateError, StorageError, file_error
from layton_batch.store import engine
from tests.cli.test_read_only_folder import look
from tests.support.cli_harness import Desk, call, desk
from tests.support.lab import quiz_text

WRITING = (["run", "manifest.toml", "--once"], ["retry", "lab"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A run that is finished; what the tests do to it changes nothing."""
    with pytest.MonkeyPatch.context() as patch, desk(tmp_path_factory.mktemp("finished"), patch) as found:
        assert call("run", found.write(quiz_text(limit=2))).code == 0
        yield found


def test_a_store_that_another_program_keeps_locked_is_74(finished: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_TRIES", 1)
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.02)
    other = sqlite3.connect(finished.lab.runs / "state.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    endings = [call(*command) for command in WRITING]
    other.close()
    for end in endings:
        assert end.code == 74
        assert "database is locked; another process has been writing to it for two minutes" in end.err
        assert "Traceback" not in end.err


def test_a_read_only_folder_is_74_for_what_writes(finished: Desk) -> None:
    runs = finished.lab.runs
    keys = "".join(f'{name}="{value}"\n' for name, value in finished.lab.server.environment().items())
    (runs / ".env").write_text(keys, encoding="utf-8")
    modes = {path: path.stat().st_mode for path in (runs, *runs.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & 0o555)
    try:
        endings = look(runs, *WRITING[1:])
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
        (runs / ".env").unlink()
    for end in endings:
        assert end.code == 74, end.err
        assert "Traceback" not in end.err
        assert "Permission denied" in end.err or "make its folder" in end.err


def test_an_operating_system_that_refuses_where_nobody_expected_it_is_told_without_a_traceback(
    finished: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr("layton_batch.commands.leaderboard.board_of", full)
    end = call("leaderboard", "lab")
    assert (end.code, end.out) == (74, "")
    assert end.err.splitlines()[-1] == ("layton-batch: No space left on device (somewhere); run the same command again")


def test_what_passes_is_told_from_what_is_wrong_with_a_name() -> None:
    for number in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT, errno.ESTALE):
        assert isinstance(file_error("x", OSError(number, "no")), StorageError)
    for number in (errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EEXIST):
        assert not isinstance(file_error("x", OSError(number, "no")), StorageError)
    assert (StorageError.exit_code, StorageError.transient) == (74, True)
    assert (FileError.exit_code, errors.StoreError.exit_code, StaleStateError.exit_code) == (2, 2, 75)


@pytest.mark.parametrize(
    ("said", "kind", "code"),
    [
        ("database or disk is full", OperationalError, 74),
        ("disk I/O error", OperationalError, 74),
        ("attempt to write a readonly database", OperationalError, 74),
        ("unable to open database file", OperationalError, 74),
        ("connection refused", OperationalError, 74),
        ('FATAL:  password authentication failed for user "me"', OperationalError, 2),
        ("no such table: runs", OperationalError, 2),
        ("database disk image is malformed", DatabaseError, 2),
        ("file is not a database", DatabaseError, 2),
    ],
)
def test_a_stores_trouble_is_told_from_a_store_that_is_none(said: str, kind: type[DatabaseError], code: int) -> None:
    error = engine.complaint(make_url("sqlite:////x/state.sqlite3"), kind("SELECT", {}, Exception(said)), "written")
    assert error.exit_code == code
    assert said in str(error)


def test_results_that_cannot_be_written_leave_the_run_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(quiz_text(limit=2))
        with monkeypatch.context() as patch:
            patch.setattr("layton_batch.batches.batch_results.zstandard.ZstdCompressor", full)
            end = call("run", path)
            assert end.code == 74
            assert "Traceback" not in end.err
        assert call("run", path).code == 0
