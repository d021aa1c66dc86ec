"""demo: its options and what it refuses. `test_readme.py` runs it as the README and the first hour print it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from layton_batch.cli.demo import demo_manifest
from tests.support.cli_harness import call, write


def test_a_place_that_cannot_be_written_is_told(offline: Path) -> None:
    write(offline, "", "taken")
    end = call("demo", "--out", "taken")
    assert (end.code, end.out) == (2, "")
    assert "--out names another place" in end.err


def test_a_demo_that_rejudges_has_a_smaller_jury_judge_all_labelled_answers() -> None:
    manifest = demo_manifest(rejudge=True)
    assert manifest.gold is not None
    assert manifest.jury is not None
    assert (len(manifest.models), manifest.jury.seats, manifest.gold.rejudge) == (4, 2, "all")


@pytest.mark.nightly
def test_the_demo_that_rejudges_shows_what_that_cost_and_ranks_with_the_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    end = call("demo", "--rejudge", "--out", "shown", "--batch-seconds", "0.2")
    assert end.code == 0
    assert len(re.findall(r" rejudge +\d+ ", end.out)) == 2  # two judges sit, each a line of the bill
    assert re.search(r"larch-2-large .* 16 · \d\d\d$", end.out, re.MULTILINE)  # labels: own · borrowed


def test_a_task_graded_by_rule_has_no_labelled_answers_to_judge_again(offline: Path) -> None:
    end = call("demo", "--rejudge", "--task", "rome", "--out", "shown")
    assert (end.code, end.out) == (2, "")
    assert "no jury" in end.err
