"""A disk that fails from the n-th write of a command on: a sentence, 74, and the next call does it."""

from __future__ import annotations

import errno
import io
import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_harness import Desk, Ending, call, desk
from tests.support.lab import manifest_text
from tests.support.tiers import tiered

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "site": ("site", "lab", "--out", "out"),
    "site with data": ("site", "lab", "--out", "out", "--with-data"),
    "export ppi": ("export", "lab", "--to", "ppi", "--out", "out"),
    "export csv": ("export", "lab", "--to", "csv", "--out", "out"),
    "export parquet": ("export", "lab", "--to", "parquet", "--out", "out"),
    "export results": ("export", "lab", "--to", "results", "--out", "out"),
    "export eee": ("export", "lab", "--to", "eee", "--out", "out"),
    "export hf": ("export", "lab", "--to", "hf", "--out", "out", "--dataset", "owner/name"),
}
NUMBERS = {"full": errno.ENOSPC, "broken": errno.EIO}


class Disk:
    """Fails from a write below ``root`` on: a file opened to be written, a folder made, a rename, a sync."""

    def __init__(self, root: Path, number: int, reason: int) -> None:
        self._root, self._number, self._reason, self.writes = str(root), number, reason, 0

    def write(self, path: object) -> None:
        """Count a write. Raises OSError where it fails."""
        if isinstance(path, int) or os.path.abspath(os.fspath(path)).startswith(self._root):  # type: ignore[call-overload]
            self.writes += 1
            if self.writes >= self._number:
                raise OSError(self._reason, os.strerror(self._reason), None if isinstance(path, int) else str(path))


@contextmanager
def failing(root: Path, number: int, reason: int) -> Iterator[Disk]:
    """While the block runs, this process writes to such a disk."""
    disk = Disk(root, number, reason)

    def counted(original: Callable[..., Any], which: int = 0) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            disk.write(arguments[which])
            return original(*arguments, **options)

        return call

    def opened(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not isinstance(path, int) and set(mode) & set("wax+"):
            disk.write(path)
        return original_open(path, mode, *arguments, **options)

    original_open = io.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("io.open", opened)
        patch.setattr("builtins.open", opened)
        for name, which in (("mkdir", 0), ("rename", 1), ("replace", 1), ("fsync", 0)):
            patch.setattr(os, name, counted(getattr(os, name), which))
        yield disk


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A run that is finished."""
    with pytest.MonkeyPatch.context() as patch, desk(tmp_path_factory.mktemp("bench"), patch) as found:
        assert call("run", found.write(manifest_text(limit=1))).code == 0
        yield found


def played(bench: Desk, command: str, number: int, reason: int) -> tuple[Ending, int]:
    """Call a command whose writes fail from this number on; return how it ended, and the number of its writes."""
    with failing(bench.folder, number, reason) as disk:
        end = call(*COMMANDS[command])
    return end, disk.writes


@pytest.mark.parametrize(
    ("command", "reason"), tiered(COMMANDS, NUMBERS, ci=[("site", "full"), ("export eee", "broken")])
)
def test_a_command_whose_nth_write_fails_is_a_sentence_and_the_next_call_does_it(
    bench: Desk, command: str, reason: str
) -> None:
    out = bench.folder / "out"
    out.unlink() if out.is_file() else shutil.rmtree(out, ignore_errors=True)
    for number in itertools.count(1):
        end, writes = played(bench, command, number, NUMBERS[reason])
        left = [*bench.folder.rglob(".*.tmp")]
        assert not left, f"write {number}: {left}"
        if writes < number:
            break  # it did without any that fails
        says = os.strerror(NUMBERS[reason]) in end.err
        assert (end.code, says, "Traceback" in end.err) == (74, True, False), f"write {number}: {end}"
    assert end.code == 0, end.err
    assert number > 2
