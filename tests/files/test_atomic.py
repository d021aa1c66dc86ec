"""Files and folders are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from layton_batch.files import atomic
from tests.support.paths import ROOT


class Broken(Exception):
    pass


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith(".")]


def break_off(path: Path) -> None:
    with atomic.writing(path) as handle:
        handle.write(b"half of it")
        raise Broken


def test_a_file_has_the_old_content_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    atomic.write_bytes(path, b"old")
    with atomic.writing(path) as handle:
        handle.write(b"new")
        handle.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    with pytest.raises(Broken):
        break_off(path)
    assert path.read_bytes() == b"new"
    assert leftovers(tmp_path) == []


def test_a_file_and_its_folder_are_synced_before_and_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name[:5]}")
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        done.append(f"rename to {target.name}")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    folder = tmp_path / "new"
    atomic.write_bytes(folder / "file", b"content")
    assert done == [f"sync {tmp_path.name[:5]}", "sync .file", "rename to file", "sync new"]


SMALL_DISK = """
import resource, sys
from pathlib import Path
from layton_batch.files import atomic
from layton_batch.errors import FileError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    atomic.write_bytes(Path(sys.argv[1]), b"x" * 2000)
except FileError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic.write_bytes(path, b"old")
    command = [sys.executable, "-c", SMALL_DISK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True, timeout=60)
    assert f"cannot write {path}" in done.stdout
    assert "last good version is kept" in done.stdout
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_what_dead_processes_left_is_swept_and_what_living_ones_write_is_not(tmp_path: Path) -> None:
    child = "import os, sys\nfrom pathlib import Path\nfrom layton_batch.files import atomic\n"
    child += "with atomic.writing(Path(sys.argv[1]) / 'a'), atomic.writing_folder(Path(sys.argv[1]) / 'b'):\n"
    child += "    os._exit(9)\n"
    subprocess.run([sys.executable, "-c", child, str(tmp_path)], cwd=ROOT, check=False, timeout=60)
    (tmp_path / ".own.tmp").write_text("a person's file")
    (tmp_path / ".x.00000000-1-1.tmp").write_text("of another machine")
    with atomic.writing(tmp_path / "c") as handle:
        handle.write(b"c")
        assert atomic.sweep(tmp_path) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [".own.tmp", ".x.00000000-1-1.tmp", "c"]
