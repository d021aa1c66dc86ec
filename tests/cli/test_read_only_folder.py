"""What looks at a run works where nothing can be written: a backup, a share mounted read-only, another user's run."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from layton_batch.errors import StoreError
from layton_batch.store.engine import sqlite_url, url_to_read
from tests.support.cli_harness import ROOT, Ending, call, desk
from tests.support.lab import MODELS, quiz_text

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
KEYS = {f"{provider.upper()}_API_KEY": "no-key" for provider in MODELS}
ADDRESSES = {f"{name}_BASE_URL": "http://127.0.0.1:9" for name in ("OPENAI", "GOOGLE_GEMINI", "MISTRAL")}
"""On this machine, as those of the sandbox that played the run."""


def ordinary() -> None:
    """Make what this process becomes heed the permissions of files, also where it is root's."""
    if os.getuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
        raise OSError("cannot do without CAP_DAC_OVERRIDE")


LOOKS = """
import json, sys
from tests.support.cli_harness import call
endings = [call(*arguments) for arguments in json.load(sys.stdin)]
json.dump([(end.code, end.out, end.err) for end in endings], sys.stdout)
"""


def look(runs: Path, *commands: Sequence[str]) -> list[Ending]:
    """Run commands, in one process, as somebody who may write nothing under ``runs``."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", LOOKS],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **KEYS, **ADDRESSES},
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


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of runs, one of them finished, in which nothing can be written."""
    folder = tmp_path_factory.mktemp("sauvé")
    with pytest.MonkeyPatch.context() as patch, desk(folder, patch) as bench:
        assert call("run", bench.write(quiz_text(limit=3))).code == 0
    modes = {path: path.stat().st_mode for path in [folder, *folder.rglob("*")]}
    for path, mode in modes.items():
        path.chmod(mode & 0o555)
    yield folder / "runs"
    for path, mode in modes.items():
        path.chmod(mode)


LOOKING = (["status"], ["status", "--log"], ["leaderboard"], ["cost"], ["status", "--json"])
CHANGING = ("cancel", "retry")


def test_a_run_in_a_read_only_folder_can_be_looked_at_and_what_changes_it_says_that_it_cannot(
    locked: Path, tmp_path: Path
) -> None:
    endings = look(
        locked,
        *([name, "lab", *options] for name, *options in LOOKING),
        *([name, "lab"] for name in CHANGING),
        ["site", "lab", "--out", str(tmp_path / "pages")],
        ["site", "lab", "--out", str(locked / "pages")],
    )
    for end in endings[: len(LOOKING)]:
        assert (end.code, [line for line in end.err.splitlines() if not line.startswith("Made up: ")]) == (0, [])
        assert end.out
    for end in endings[len(LOOKING) : -2]:
        assert (end.code, end.out) == (74, "")
        assert "attempt to write a readonly database; this command writes to the run" in end.err
        assert len(end.err.splitlines()) == 1
    written, refused = endings[-2:]
    assert written.code == 0
    assert (tmp_path / "pages" / "index.html").is_file()
    assert refused.code == 74
    assert "Traceback" not in refused.err
    assert str(locked / "pages") in refused.err
    assert len(refused.err.splitlines()) == 1


def test_a_run_that_another_user_goes_on_with_can_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        text = quiz_text(limit=3)
        assert call("run", bench.write(text), "--once").code == 75
        modes = {path: path.stat().st_mode for path in [bench.lab.runs, *bench.lab.runs.rglob("*")]}
        with bench.lab.open(text):
            for path in bench.lab.runs.rglob("*"):
                modes.setdefault(path, path.stat().st_mode)
            for path, mode in modes.items():
                path.chmod(mode & 0o555)
            (end,) = look(bench.lab.runs, ["status", "lab"])
            for path, mode in modes.items():
                path.chmod(mode)
        assert (end.code, end.err) == (0, "")
        assert end.out


def test_a_store_is_opened_as_far_as_its_folder_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "state.sqlite3"
    with pytest.raises(StoreError, match="is not there"):
        url_to_read(database)
    assert not database.exists()
    database.write_bytes(b"")
    assert url_to_read(database) == sqlite_url(database)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "immutable=1" in url_to_read(database)
    database.with_name("state.sqlite3-wal").write_bytes(b"")
    assert "mode=ro" in url_to_read(database)
