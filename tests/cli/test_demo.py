"""demo: its options and what it refuses. `test_readme.py` runs it as the README and the first hour print it."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli_harness import call, write


def test_a_place_that_cannot_be_written_is_told(offline: Path) -> None:
    write(offline, "", "taken")
    end = call("demo", "--out", "taken")
    assert (end.code, end.out) == (2, "")
    assert "--out names another place" in end.err
