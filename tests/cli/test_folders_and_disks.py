"""What can be wrong with a run's folder, its database or the disk: a sentence, exit code 2 or 74, nothing is lost."""

from __future__ import annotations

import ctypes
import errno
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from layton_batch.store import engine
from tests.support.cli_harness import ROOT, Ending, call, desk, refused
from tests.support.lab import manifest_text
from tests.support.tiers import tiered

COMMANDS = (
    ("status", "lab"), ("status", "lab", "--log"), ("leaderboard", "lab"), ("cost", "lab"),
    ("site", "lab", "--out", "pages"), ("cancel", "lab"), ("resolve", "lab", "b", "--resubmit"), ("run", "lab.toml"),
)  # fmt: skip
SHOWS = {"status", "cost"}
"""Commands that show what is stored, and ask nothing of anyone."""


# ---- folders ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run leaves behind that has been submitted and not more."""
    folder = tmp_path_factory.mktemp("left")
    with pytest.MonkeyPatch.context() as patch, desk(folder, patch) as bench:
        assert call("run", bench.write(manifest_text(), "lab.toml"), "--once").code == 75
    return folder


@pytest.fixture
def stale(left_behind: Path, offline: Path) -> Path:
    """The run's folder in a copy, where no provider can be reached."""
    shutil.copytree(left_behind / "runs", offline / "runs")
    shutil.copy(left_behind / "lab.toml", offline)
    return offline / "runs" / "lab"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def edit_database(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def spoil(path: Path) -> None:
    path.write_bytes(b"this is not a database at all, not even nearly" * 100)
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)


BY_HAND = "was changed"
FORM = "lab has the form of another version of layton-batch: use that version, or move"
INTENTS = "the files in each run's intents/ name the batches that were paid for"


@pytest.mark.parametrize(
    ("damage", "words", "passes"),
    [
        (lambda run: edit(run / "run.json", '"limit": 4', '"limit": 3'), BY_HAND, {*SHOWS, "resolve"}),
        (lambda run: edit(run / "run.json", '"run_id": "lab"', '"run_id": "lab-0123abcd"'), FORM, set()),
        (lambda run: edit_database(run.parent / "state.sqlite3", "UPDATE schema_version SET version = 97"),
         "state.sqlite3 has schema version 97", set()),
        (lambda run: spoil(run.parent / "state.sqlite3"), INTENTS, {"cost"}),
    ],
)  # fmt: skip
def test_a_folder_that_is_not_as_it_was_written_is_refused_by_every_command_that_goes_by_it(
    stale: Path, damage: Callable[[Path], None], words: str, passes: set[str]
) -> None:
    damage(stale)
    for command in COMMANDS:
        if command[0] not in passes:
            assert words in refused(*command), command


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"format": 99}'])
def test_a_run_json_that_is_none_is_refused(stale: Path, content: bytes) -> None:
    (stale / "run.json").write_bytes(content)
    assert "run.json" in refused("leaderboard", "lab")


# ---- folders in which nothing can be written -------------------------------------------------------------------------

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
LOOKS = """
import json, sys
from tests.support.cli_harness import call
endings = [call(*arguments) for arguments in json.load(sys.stdin)]
json.dump([(end.code, end.out, end.err) for end in endings], sys.stdout)
"""


def ordinary() -> None:
    """Make what this process becomes heed the permissions of files, also where it is root's."""
    if os.getuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        raise OSError("cannot do without CAP_DAC_OVERRIDE")


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    modes = {path: path.stat().st_mode for path in [folder, *folder.rglob("*")]}
    for path, mode in modes.items():
        path.chmod(mode & 0o555)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def look(runs: Path, *commands: Sequence[str]) -> list[Ending]:
    """Run commands, in one process, as somebody who may write nothing under ``runs``."""
    with read_only(runs):
        try:
            done = subprocess.run(
                [sys.executable, "-c", LOOKS],
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
                | {"PYTHONPATH": str(ROOT)},
                cwd=runs,
                input=json.dumps([[*command, "--runs", str(runs)] for command in commands]),
                preexec_fn=ordinary,
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise AssertionError(error.stderr) from error
        except subprocess.SubprocessError as error:
            pytest.skip(f"root's rights cannot be given up here: {error}")
    return [Ending(*ending) for ending in json.loads(done.stdout)]


def test_a_run_in_a_read_only_folder_can_be_looked_at_and_what_changes_it_says_that_it_cannot(here: Path) -> None:
    runs, pages = here / "runs", here / "pages"
    *shown, cancelled, retried, written, not_written = look(
        runs,
        *([*command, "quiz"] for command in (["status"], ["status", "--log"], ["leaderboard"], ["cost"])),
        ["cancel", "quiz"],
        ["retry", "quiz"],
        ["site", "quiz", "--out", str(pages)],
        ["site", "quiz", "--out", str(runs / "pages")],
    )
    assert [(end.code, end.out != "") for end in (*shown, written)] == [(0, True)] * 4 + [(0, written.out != "")]
    assert (pages / "index.html").is_file()
    for end, words in (
        (cancelled, "attempt to write a readonly database; this command writes to the run"),
        (retried, "attempt to write a readonly database; this command writes to the run"),
        (not_written, str(runs / "pages")),
    ):
        assert (end.code, end.out, words in end.err, len(end.err.splitlines())) == (74, "", True, 1), end


# ---- disks and databases that are in the way -------------------------------------------------------------------------


def test_a_store_that_another_program_keeps_locked_is_74(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_TRIES", 1)
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.02)
    with closing(sqlite3.connect(here / "runs" / "state.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        endings = [call("run", "quiz", "--once", "--offline"), call("retry", "quiz")]
    for end in endings:
        assert (end.code, "Traceback" in end.err) == (74, False)
        assert "database is locked; another process has been writing to it for two minutes" in end.err


# ---- every write of a command ----------------------------------------------------------------------------------------

WRITING: Mapping[str, str] = {
    "site": "site quiz --out out",
    "site with data": "site quiz --out out --with-data",
    "export ppi": "export lab --to ppi --out out",
    "export csv": "export lab --to csv --out out",
    "export parquet": "export lab --to parquet --out out",
    "export results": "export lab --to results --out out",
    "export eee": "export quiz --to eee --out out",
    "export hf": "export quiz --to hf --out out --dataset owner/name",
}
NUMBERS = {"full": errno.ENOSPC, "broken": errno.EIO}


@contextmanager
def failing(root: Path, number: int, reason: int) -> Iterator[list[str]]:
    """Fail this process's write of a number below ``root`` and all after it: opening a file to write, making a folder,
    a rename, a sync. Yield the writes so far."""
    writes, original_open = list[str](), io.open

    def write(path: Any) -> None:
        if isinstance(path, int) or os.path.abspath(os.fspath(path)).startswith(str(root)):
            writes.append(str(path))
            if len(writes) >= number:
                raise OSError(reason, os.strerror(reason), None if isinstance(path, int) else str(path))

    def counted(original: Callable[..., Any], place: int) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            write(arguments[place])
            return original(*arguments, **options)

        return call

    def opened(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not isinstance(path, int) and set(mode) & set("wax+"):
            write(path)
        return original_open(path, mode, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("io.open", opened)
        patch.setattr("builtins.open", opened)
        for name, place in (("mkdir", 0), ("rename", 1), ("replace", 1), ("fsync", 0)):
            patch.setattr(os, name, counted(getattr(os, name), place))
        yield writes


@pytest.mark.parametrize(
    ("command", "reason"), tiered(WRITING, NUMBERS, ci=[("site", "full"), ("export eee", "broken")])
)
def test_a_command_whose_nth_write_fails_is_a_sentence_and_the_next_call_does_it(
    here: Path, command: str, reason: str
) -> None:
    """The first writes, the last, and one in the middle."""

    def end_with(number: int) -> tuple[Ending, int]:
        """Give the command where nothing is, and this write and all after it fail. Return how many there were."""
        shutil.rmtree(here / "out", ignore_errors=True)
        (here / "out").unlink(missing_ok=True)
        with failing(here, number, NUMBERS[reason]) as writes:
            return call(*WRITING[command].split()), len(writes)

    count = [end_with(sys.maxsize)[1] for _ in range(2)][1]  # the first call also writes what later ones find
    assert count > 2
    for number in sorted({1, 2, 3, count // 2, count}):
        end, _ = end_with(number)
        assert not [*here.rglob(".*.tmp")], f"write {number}"
        says = os.strerror(NUMBERS[reason]) in end.err
        assert (end.code, says, "Traceback" in end.err) == (74, True, False), f"write {number}: {end}"
    end = call(*WRITING[command].split())
    assert end.code == 0, end.err
