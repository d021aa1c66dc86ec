"""The same, as a person at the command line meets it: where a run is begun, exit codes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.support.cli_harness import PROGRAM, ROOT, Ending, call, desk, write
from tests.support.lab import BUNDLED, manifest_text, quiz_text
from tests.support.tiers import tiered

FULL, GOLD = Path("/dev/full"), BUNDLED / "gold_llm.jsonl"
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


# ---- real processes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served() -> Iterator[Mapping[str, str]]:
    """The environment of a sandbox whose batches never end by themselves."""
    with Sandbox(SandboxConfig(batch_seconds=1e6)) as server:
        yield server.environment()


def redirected(arguments: str, cwd: Path, environment: Mapping[str, str]) -> Ending:
    """A command as a shell starts it, with its redirections."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {arguments}', *PROGRAM, "run", "manifest.toml", "--once"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return Ending(done.returncode, done.stdout, done.stderr)


@needs_full
@pytest.mark.parametrize(
    "streams",
    tiered(
        ("2>&-", "2>/dev/full", ">&-", ">/dev/full", ">/dev/full 2>/dev/full", "<&- >&- 2>&-"),
        ci=("<&- >&- 2>&-",),
    ),
)
def test_a_run_ends_with_its_own_code_whatever_becomes_of_its_words(
    tmp_path: Path, served: Mapping[str, str], streams: str
) -> None:
    write(tmp_path, quiz_text(limit=2))
    end = redirected(streams, tmp_path, served)
    assert end.code == 75, end.err
    assert "Traceback" not in end.err
    (log,) = tmp_path.glob("runs/*/log.jsonl")
    assert b'"submitted"' in log.read_bytes()


@needs_full
@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (">/dev/full", 74),
        pytest.param(">&-", 0, marks=pytest.mark.nightly),
        pytest.param("2>/dev/full", 0, marks=pytest.mark.nightly),
    ],
)
def test_a_command_that_only_prints_says_where_it_could_not(tmp_path: Path, stream: str, code: int) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {stream}', *PROGRAM, "leaderboard", str(GOLD)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert ("stdout cannot be written: No space left on device" in done.stderr) == (code == 74)


# ---- a disk that is full -------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a store and little more."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.parametrize("rooms", [(40, 180), pytest.param((0, 130, 260), marks=pytest.mark.nightly)], ids=str)
def test_a_run_on_a_full_disk_ends_with_74_and_goes_on_when_there_is_room(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, rooms: tuple[int, ...]
) -> None:
    with desk(tmp_path, monkeypatch) as at_desk:
        run = ("run", at_desk.write(manifest_text(("openai", "anthropic"), limit=4)), "--runs", small_disk / "runs")
        codes = set()
        for room in rooms:  # KiB
            filler = small_disk / "filler"
            filler.write_bytes(b"")
            free = shutil.disk_usage(small_disk).free - room * 1024
            filler.write_bytes(b"x" * max(0, free))
            end = call(*run)
            codes.add(end.code)
            assert end.code in (0, 74), end.err
        filler.unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        end = call(*run)
        assert end.code == 0, end.err
        assert 74 in codes
        assert set(at_desk.lab.billed().values()) == {1}
        assert len(at_desk.lab.billed()) == 16
