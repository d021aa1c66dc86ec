"""compare as a gate; judges and label plan with names that would act on a terminal."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layton_batch.scoring.compare import ComparedModel, Comparison, gate
from layton_batch.scoring.evidence import Entrant
from tests.support.cli_harness import call, write

JUDGES = {"ada": "north", "bell": "south", "cato": "west", "dora": "none of them"}
MODELS = {"north-1": "north", "north-2": "north", "south-1": "south", "west-1": "west"}
HOSTILE = {"\x1b[31mred": "north", "[bold]b[/]": "south", "a\nb": "west", "x" * 200: "west"}


def gold_row(rng: random.Random, model: str, provider: str, item: int) -> dict[str, Any]:
    right = rng.random() < 0.75
    row: dict[str, Any] = {
        "riddle_id": f"r{item}", "provider": provider, "model": model, "n_hints": 0, "answer": f"{model} {item}",
        "justification": "because",
    }  # fmt: skip
    for judge, family in JUDGES.items():
        verdict = (right if rng.random() < 0.85 else not right) if family != provider else None
        row |= {f"is_answer_correct_{judge}": verdict, f"is_justification_correct_{judge}": verdict}
    labelled = rng.random() < 0.5
    return row | dict.fromkeys(("human_answer_correct", "human_justification_correct"), right if labelled else None)


def gold_file(folder: Path, models: Mapping[str, str], items: int) -> str:
    rng = random.Random(4)
    rows = [gold_row(rng, model, provider, item) for model, provider in models.items() for item in range(items)]
    path = folder / "gold.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("lower", "upper", "margin", "result"),
    [
        (-1.0, 3.0, 2.0, "not worse"),
        (-2.0, 3.0, 2.0, "not worse"),
        (-2.1, 3.0, 2.0, "undecided"),
        (-9.0, -2.0, 2.0, "undecided"),
        (-9.0, -2.1, 2.0, "worse"),
        (0.0, 0.0, 0.0, "not worse"),
        (0.5, 4.0, 0.0, "not worse"),
    ],
)
def test_a_gate_decides_only_where_the_whole_interval_is_on_one_side(
    lower: float, upper: float, margin: float, result: str
) -> None:
    new, old = Entrant("new", "p", 0), Entrant("old", "p", 0)
    standing = ComparedModel("new items", (lower + upper) / 2, lower, upper, 0.5, None)
    compared = Comparison(new, old, "both_correct", "hierarchical", 0.95, (standing,), 40)
    assert gate(compared, "new items", margin).result == result
    assert gate(replace(compared, method="uncalibrated"), "new items", margin).result == "undecided"
    exact = gate(replace(compared, method="rule"), "this set", margin)
    assert (exact.lower, exact.upper) == (standing.difference, standing.difference)


def test_a_gate_ends_with_its_decision_and_says_what_it_rests_on(tmp_path: Path) -> None:
    pair = ("compare", gold_file(tmp_path, MODELS, 40), "north-1", "west-1")
    compared: dict[str, Any] = call(*pair, "--format", "json").table()["standings"][0]  # type: ignore[index]
    for margin, code, result in ((100, 0, "not worse"), (-compared["lower"] - 0.5, 7, "undecided")):
        ending = call(*pair, "--margin", str(margin))
        assert (ending.code, ending.out.partition(":")[0]) == (code, result)
        assert f"{compared['lower']:+.1f} to {compared['upper']:+.1f}" in ending.out
    marks = "".join(f"{model},{item},{mark}\n" for item in range(300) for model, mark in (("old", 1), ("new", 0)))
    scores = write(tmp_path, f"model,item_id,score\n{marks}", "scores.csv")
    worse = call("compare", scores, "new", "old", "--margin", "1", "--format", "json")
    assert (worse.code, worse.table()["result"]) == (6, "worse")


def test_hostile_names_reach_no_terminal(tmp_path: Path) -> None:
    source = gold_file(tmp_path, HOSTILE, 120)
    for command in (
        ("judges", source, "--errors"),
        ("label", "plan", source, "--labels", "9"),
        ("compare", source, "[bold]b[/]", "a\nb"),
    ):
        ending = call(*command)
        assert (ending.code, "\x1b" in ending.out, "[bold]b[/]" in ending.out) == (0, False, True), ending.err
        assert max(map(len, ending.out.splitlines())) <= 120
