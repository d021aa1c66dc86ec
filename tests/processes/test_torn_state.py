"""A state file cut short under a run that has paid: the next `run` says so or goes on, and nothing is paid again."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.commands import Bench, broken_claims

PAGE = 4096
CUTS = (1, PAGE)
"""Bytes missing; every byte of a page is cut in the tests of the store."""


def test_a_state_file_cut_anywhere_in_its_last_page_is_refused_or_used_and_nothing_is_sent_again(place: Bench) -> None:
    manifest = place.write("cut", ["mistral"])
    assert place.start(manifest, "--once").wait() in (0, 75)  # 0: the batches ended while it was at it
    (state,) = place.folder.glob("runs/state.sqlite3")
    whole = state.read_bytes()
    assert int.from_bytes(whole[16:18], "big") == PAGE
    assert not state.with_name("state.sqlite3-wal").exists()
    copy = Path(shutil.copytree(state.parent, place.folder / "copy"))
    refused = [_is_refused(place, manifest, copy, state.parent, whole[: len(whole) - cut]) for cut in CUTS]
    assert refused[-1]  # a page less is noticed
    assert len(place.batches()) == 1
    _put_back(copy, state.parent)
    status, _ = place.until_done(manifest)
    assert not broken_claims(place, status)


def _put_back(copy: Path, root: Path) -> None:
    shutil.rmtree(root)
    shutil.copytree(copy, root)


def _is_refused(place: Bench, manifest: Path, copy: Path, root: Path, content: bytes) -> bool:
    _put_back(copy, root)
    (root / "state.sqlite3").write_bytes(content)
    command = place.start(manifest, "--once")
    code = command.wait()
    assert "Traceback" not in command.said
    if code in (0, 75):
        return False
    assert code == 2, command.said
    address, line = command.said.splitlines()
    assert address.endswith("not at its own address")
    assert "state.sqlite3" in line
    assert "name the batches that were paid for" in line
    return True
