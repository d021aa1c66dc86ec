"""compare as a gate; judges and label plan with names that would act on a terminal."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def test_a_gate_decides_only_where_the_whole_interval_is_on_one_side(tmp_path: Path) -> None:
    """Its margin reaches an end of the interval, or falls short of it."""
    rows = (
        f"{model},{item},{int(item % 5 < right)}\n" for item in range(60) for model, right in (("new", 2), ("old", 4))
    )
    pair = ("compare", write(tmp_path, f"model,item_id,score\n{''.join(rows)}", "scores.csv"), "new", "old")
    compared: dict[str, float] = call(*pair, "--format", "json").table()["standings"][0]  # type: ignore[index]
    lower, upper, less = compared["lower"], compared["upper"], 1e-9
    assert lower < upper < 0
    cases = {-lower: 0, -lower - less: 7, -upper: 7, -upper - less: 6}
    assert {margin: call(*pair, "--margin", repr(margin)).code for margin in cases} == cases
    exact = call(*pair, "--this-set", "--margin", "1", "--format", "json").table()
    assert exact["lower"] == exact["upper"] == exact["difference"]


def test_a_gate_decides_nothing_without_labels(tmp_path: Path) -> None:
    unlabelled = Path(gold_file(tmp_path, MODELS, 40))
    unlabelled.write_text(re.sub(r"(\"human_\w+\"): \w+", r"\1: null", unlabelled.read_text()), encoding="utf-8")
    for margin in ("0", "100"):
        assert call("compare", unlabelled, "north-1", "west-1", "--margin", margin).code == 7


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
