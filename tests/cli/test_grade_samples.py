"""``grade zebralogic --protocol zeroeval --samples``: how several outputs of a puzzle become one answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.tasks.zebralogic.zeroeval import MODES
from tests.support.cli_harness import call
from tests.support.graded_files import Row, board, lines, models, refused

SOLUTION: Row = {"header": ["House", "Name"], "rows": [["1", "Ann"], ["2", "Bob"]]}


def reply(first: str, second: str, reasoning: str) -> str:
    grid = {"House 1": {"Name": first}, "House 2": {"Name": second}}
    return json.dumps({"reasoning": reasoning, "solution": grid})


RIGHT, WRONG, LONG = reply("Ann", "Bob", "yes"), reply("Bob", "Ann", "no"), reply("Bob", "Ann", "a long story")
SOLVED = {"best_of_n": 1.0, "majority_of_n": 0.0}


@pytest.fixture(autouse=True)
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines("p.jsonl", [{"id": "a", "solution": SOLUTION, "output": [WRONG, RIGHT, LONG]}])


@pytest.mark.parametrize("mode", SOLVED)
def test_the_mode_decides_and_the_report_says_it(mode: str) -> None:
    given = ["zebralogic", "--predictions", "p.jsonl", "--protocol", "zeroeval", "--samples", mode]
    report = call("grade", *given, "--json").table()
    assert (report["score"], report["samples"]) == (SOLVED[mode], mode)
    document = board(*given, "--predictions", "again=p.jsonl")
    assert document["samples"] == mode
    assert {one["score"] for one in models(document).values()} == {100 * SOLVED[mode]}


def test_without_it_the_best_counts_and_the_report_is_as_it_was() -> None:
    report = call("grade", "zebralogic", "--predictions", "p.jsonl", "--protocol", "zeroeval", "--json").table()
    assert report["score"] == 1.0
    assert "samples" not in report


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["zebralogic", "--protocol", "original", "--samples", "best_of_n"], "--samples is for --protocol zeroeval"),
        (["zebralogic", "--samples", "best_of_n"], "--samples is for --protocol zeroeval"),
        (["mcq_idk", "--samples", "best_of_n"], "--samples is for zebralogic"),
        (["rome", "--samples", "best_of_n"], "--samples is for zebralogic"),
        (["zebralogic", "--protocol", "zeroeval", "--samples", "best"], "samples 'best': there are"),
    ],
)
def test_elsewhere_it_is_refused_and_the_modes_are_named(arguments: list[str], told: str) -> None:
    said = refused(*arguments, "--predictions", "p.jsonl")
    assert told in said
    assert all(mode in said for mode in MODES)


def test_the_help_names_every_mode() -> None:
    said = "".join(call("grade", "--help").out.split())
    assert all(mode in said for mode in MODES)
