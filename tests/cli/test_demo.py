"""demo: the whole pipeline without a key, ended or stopped and begun again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli_harness import ROOT, call, write
from tests.support.lab import MODELS


def test_the_demo_shows_a_leaderboard_a_bill_and_where_the_files_are_and_a_second_time_pays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for provider in MODELS:
        monkeypatch.delenv(f"{provider.upper()}_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    first, second = call("demo", "--out", "shown", "--batch-seconds", "0.5"), call("demo", "--out", "shown")
    for end in (first, second):
        assert end.code == 0
        assert "Leaderboard" in end.out
        assert "Cost" in end.out
        billed = re.search(r"the sandbox billed \$([0-9.]+); the run accounts for \$([0-9.]+)", end.err)
        assert billed is not None
        assert billed[1] == billed[2] != "0.000000"
    assert second.out == first.out
    printed = {*first.out.splitlines(), *first.err.splitlines()}
    assert [line for line in readme_sample() if line not in printed] == []
    site = re.search(r"^site: (\S+)$", first.err, re.MULTILINE)
    assert site is not None
    assert Path(site[1]).is_file()
    assert len((first.out + first.err).splitlines()) < 80  # a screen or two
    assert "submitted" not in second.err


def readme_sample() -> list[str]:
    """What the README shows of the demo's end; an ellipsis stands for lines that it leaves out."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = (
        one
        for one in re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        if "larch-2-large" in one and "sandbox billed" in one
    )
    return [line for line in block.splitlines() if line != "…"]


def test_a_place_that_cannot_be_written_is_told(offline: Path) -> None:
    write(offline, "", "taken")
    end = call("demo", "--out", "taken")
    assert (end.code, end.out) == (2, "")
    assert "--out names another place" in end.err


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
