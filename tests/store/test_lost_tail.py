"""A state store whose end is missing must not pay again for what it has forgotten."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from layton_batch.errors import StoreError
from layton_batch.pipeline import advance
from layton_batch.states import Lifecycle
from tests.support.lab import Lab, lab, manifest_text

WAL_HEADER, FRAME_HEADER = 32, 24


def commits(wal: bytes) -> list[int]:
    """Where each commit of a write-ahead log ends (https://sqlite.org/fileformat2.html#walformat)."""
    frame = FRAME_HEADER + int.from_bytes(wal[8:12], "big")
    ends = range(WAL_HEADER + frame, len(wal) + 1, frame)
    return [WAL_HEADER, *(end for end in ends if any(wal[end - frame + 4 : end - frame + 8]))]


def submitted(here: Lab, text: str) -> Path:
    """The run as a kill would leave it when its batches have just been submitted: a copy of the folder of runs."""
    with here.open(text) as run:
        advance(run)
        assert [batch.state for batch in run.store.batches()] == [Lifecycle.IN_FLIGHT]
        return Path(shutil.copytree(here.runs, here.folder / "copy"))


def made(here: Lab) -> int:
    """How many batches the providers have; looking has them carried out and billed, also those nobody knows of."""
    with urlopen(f"{here.server.url}/sandbox/batches") as reply:
        return len(json.load(reply))


def goes_on(here: Lab, text: str, copy: Path, kept: int | None) -> bool:
    """Whether the run of this copy goes on with so many bytes of its write-ahead log; None: without it."""
    shutil.rmtree(here.runs)
    shutil.copytree(copy, here.runs)
    (here.runs / "state.sqlite3-shm").unlink()
    wal = here.runs / "state.sqlite3-wal"
    wal.unlink() if kept is None else wal.write_bytes(wal.read_bytes()[:kept])
    with suppress(StoreError), here.open(text) as run:
        advance(run)
        return True
    said = r"older than its folder: .*intents tells of the payment|Put the store back \(state\.sqlite3 with its -wal"
    with pytest.raises(StoreError, match=said), here.open(text):
        pass
    return False


def test_a_log_cut_at_any_commit_is_refused_unless_nothing_paid_is_forgotten(tmp_path: Path) -> None:
    text = manifest_text(limit=1)
    with lab(tmp_path) as here:
        copy = submitted(here, text)
        ends = commits((copy / "state.sqlite3-wal").read_bytes())
        assert len(ends) > 8
        went_on = [goes_on(here, text, copy, kept) for kept in (None, *ends)]
        assert went_on == sorted(went_on)  # what lost more than another that was refused is refused
        assert 0 < went_on.count(True) < len(ends) / 2
        assert made(here) == 1
        here.finish_paid_once(text)  # the copy with its whole log goes on
