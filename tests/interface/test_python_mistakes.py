"""Mistakes of a person who is new to the functions: errors of the package that name the argument, and warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

import layton_batch as lb
from tests.support.cli_harness import desk
from tests.support.lab import quiz_text


def test_run_with_yes_says_what_it_pays_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    words = "lab paid for 3 requests before, and this manifest uses none of the answers"
    with desk(tmp_path, monkeypatch) as there:
        lb.run(there.write(quiz_text()), yes=True)
        assert words not in caplog.text
        there.write(quiz_text(("groq",)))
        lb.run("manifest.toml", yes=True)
        assert words in caplog.text
