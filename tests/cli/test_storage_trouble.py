"""A disk or a database that is in the way: a sentence and exit code 74, which is not the code of bad usage."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DatabaseError, OperationalError

from layton_batch import errors
from layton_batch.errors import FileError, StaleStateError, StorageError, file_error
from layton_batch.stages import rank
from layton_batch.store import engine
from tests.cli.test_read_only_folder import look
from tests.support.cli_harness import Desk, call, desk
from tests.support.lab import manifest_text

WRITING = (["run", "manifest.toml", "--once"], ["score", "lab"], ["retry", "lab"])


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A run that is finished."""
    with desk(tmp_path, monkeypatch) as found:
        assert call("run", found.write(manifest_text(limit=2))).code == 0
        yield found


@pytest.mark.parametrize("command", WRITING, ids=lambda words: words[0])
def test_a_store_that_another_program_keeps_locked_is_74(
    bench: Desk, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(engine, "WAIT_SECONDS", 0.02)
    other = sqlite3.connect(bench.lab.runs / "state.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    end = call(*command)
    other.close()
    assert end.code == 74
    assert "database is locked; another process has been writing to it for half a minute" in end.err
    assert "Traceback" not in end.err


@pytest.mark.parametrize("command", WRITING[1:], ids=lambda words: words[0])
def test_a_read_only_folder_is_74_for_what_writes(bench: Desk, command: list[str]) -> None:
    keys = "".join(f'{name}="{value}"\n' for name, value in bench.lab.server.environment().items())
    (bench.lab.runs / ".env").write_text(keys, encoding="utf-8")
    places = [bench.lab.runs, *bench.lab.runs.rglob("*")]
    modes = {path: path.stat().st_mode for path in places}
    for path, mode in modes.items():
        path.chmod(mode & 0o555)
    try:
        end = look(bench.lab.runs, *command)
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert end.code == 74, end.err
    assert "Traceback" not in end.err
    assert "Permission denied" in end.err or "make its folder" in end.err


def test_an_operating_system_that_refuses_where_nobody_expected_it_is_told_without_a_traceback(
    bench: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr(rank, "board", full)
    end = call("score", "lab")
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
    bench: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(bench.lab.runs)

    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("layton_batch.batches.raw_results.zstandard.ZstdCompressor", full)
        end = call("run", "manifest.toml")
        assert end.code == 74
        assert "Traceback" not in end.err
    assert call("run", "manifest.toml").code == 0
