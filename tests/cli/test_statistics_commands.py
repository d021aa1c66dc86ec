"""judges, label plan, compare and leaderboard's options, from the command line on made-up and on real predictions."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import layton_batch as lb
from layton_batch.cli import main
from layton_batch.scoring.compare import ComparedModel, Comparison, gate
from layton_batch.scoring.evidence import Entrant
from tests.support.paths import SHARED_DATA
from tests.support.tiers import tiered

DATA = SHARED_DATA / "layton" / "ppi_llm.jsonl"
JUDGES = {"ada": "north", "bell": "south", "cato": "west", "dora": "none of them"}
MODELS = {"north-1": "north", "north-2": "north", "south-1": "south", "west-1": "west"}

Ran = tuple[int, str, str]
Invoke = Callable[..., Ran]


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ran:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    return run


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
    row |= dict.fromkeys(("human_answer_correct", "human_justification_correct"), right if labelled else None)
    return row


def gold_file(folder: Path, *, models: Mapping[str, str] = MODELS, items: int = 40) -> str:
    rng = random.Random(4)
    rows = [gold_row(rng, model, provider, item) for model, provider in models.items() for item in range(items)]
    path = folder / "gold.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def document(ran: Ran) -> Any:
    assert ran[0] == 0, ran[2]
    return json.loads(ran[1])


@pytest.mark.shared_data
def test_the_real_judges_are_as_good_as_recorded(invoke: Invoke) -> None:
    found = document(invoke("judges", str(DATA), "--json"))
    recorded = json.loads((DATA.parent / "diagnostics_llm.json").read_text(encoding="utf-8"))["llm/both_correct"]
    assert {one["judge"] for one in found["judges"]} == set(recorded["judges"])
    for one in found["judges"]:
        want = recorded["judges"][one["judge"]]
        assert one["report"]["labels"] == want["n"]
        assert one["report"]["accuracy"] == pytest.approx(want["accuracy"], abs=5e-5)
        assert one["report"]["kappa"] == pytest.approx(want["cohen_kappa"], abs=5e-5)
    assert found["agreement"]["fleiss_kappa"] == pytest.approx(recorded["agreement"]["fleiss_kappa"], abs=5e-5)
    assert found["jury"]["majority_accuracy"] == pytest.approx(recorded["jury"]["majority_accuracy"], abs=5e-5)
    assert [[b["positives"], b["labels"]] for b in found["bins"]] == [[0, 160], [1, 5], [8, 11], [438, 438]]
    assert len(found["mistakes"]) == 4


@pytest.mark.shared_data
def test_the_ability_slope_of_the_real_judges_is_shown(invoke: Invoke) -> None:
    found = document(invoke("judges", str(DATA), "--json"))
    mean, lower, upper = found["ability_slope"]
    assert lower < 0.5 < mean < 1 < upper
    code, out, _ = invoke("judges", str(DATA))
    assert code == 0
    assert "ability slope: +0.68" in out  # 0.67 by Metropolis chains on a likelihood written apart


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


def test_a_gate_ends_with_its_decision_and_says_what_it_rests_on(invoke: Invoke, tmp_path: Path) -> None:
    source = gold_file(tmp_path)
    pair = (source, "north-1", "west-1")
    compared = document(invoke("compare", source, "north-1", "west-1", "--format", "json"))["standings"][0]
    for margin, code, result in ((100, 0, "not worse"), (-compared["lower"] - 0.5, 7, "undecided")):
        ended, out, _ = invoke("compare", *pair, "--margin", str(margin))
        assert (ended, out.partition(":")[0]) == (code, result)
        assert f"{compared['lower']:+.1f} to {compared['upper']:+.1f}" in out
    assert document(invoke("compare", *pair, "--margin", "100", "--format", "json"))["result"] == "not worse"
    told = invoke("compare", *pair, "--margin", "100", "--format", "md")[1]
    assert ("\n| --- |" in told, "\n**not worse: " in told) == (True, True)
    for margin in ("-1", "nan", "101"):
        code, _, err = invoke("compare", *pair, "--margin", margin)
        assert code == 2
        assert "a number of points from 0 to 100" in err


def test_every_statistic_is_of_the_board_s_one_method(invoke: Invoke, tmp_path: Path) -> None:
    source = gold_file(tmp_path)
    rows = {row["model"]: row for row in document(invoke("leaderboard", source, "--format", "json"))}
    assert {row["method"] for row in rows.values()} == {"hierarchical"}
    compared = document(invoke("compare", source, "north-1", "west-1", "--format", "json"))
    gap = rows["north-1"]["score"] - rows["west-1"]["score"]
    assert compared["standings"][0]["difference"] == pytest.approx(gap, abs=1.0)
    assert document(invoke("label", "plan", source, "--labels", "3", "--json"))["rows"]


@pytest.mark.parametrize("form", tiered(("table", "json", "csv", "md", "html"), ci=("table", "json")))
def test_the_leaderboard_shows_everything_in_every_form(invoke: Invoke, tmp_path: Path, form: str) -> None:
    code, out, _ = invoke("leaderboard", gold_file(tmp_path), "--format", form)
    assert code == 0
    for model in MODELS:
        assert model in out
    if form == "json":
        for row in json.loads(out):
            assert row["own_labels"] > 0
            assert row["target"] == "new items"
            assert (row["score"], row["lower"], row["upper"]) == (row["new_score"], row["new_lower"], row["new_upper"])
            assert row["lower"] < row["set_lower"]
            assert row["rank_best"] <= row["rank"] <= row["rank_worst"]
            assert row["fewest_labels_per_vote"] >= 0
            assert "smallest_gold_bin" not in row
    if form == "table":
        assert all(name in out for name in ("rank", "95 % CI", "--this-set", "alike", "human labels", "own · borrowed"))


def test_judges_tells_what_it_knows_and_lists_errors_on_request(invoke: Invoke, tmp_path: Path) -> None:
    source = gold_file(tmp_path)
    code, out, _ = invoke("judges", source)
    assert code == 0
    assert "What the jury gets wrong" not in out
    wrong = len(document(invoke("judges", source, "--json"))["mistakes"])
    assert wrong > 0
    assert f"{wrong} answers" in out
    _, listed, _ = invoke("judges", source, "--errors")
    assert "What the jury gets wrong" in listed


def test_a_label_plan_is_written_for_the_labelling_app(invoke: Invoke, tmp_path: Path) -> None:
    source, out = gold_file(tmp_path), tmp_path / "plans" / "next.jsonl"
    plan = document(invoke("label", "plan", source, "--labels", "15", "--out", str(out), "--json"))
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows == plan["rows"]
    assert len(rows) == 15
    assert [set(row) for row in rows] == [{"item_id", "provider", "model", "n_hints"}] * 15
    labelled = {
        (row["model"], row["riddle_id"])
        for row in map(json.loads, Path(source).read_text(encoding="utf-8").splitlines())
        if row["human_answer_correct"] is not None
    }
    asked = {(row["model"], row["item_id"]) for row in rows}
    assert len(asked) == 15
    assert not asked & labelled
    for one in plan["models"]:
        assert one["half_width_then"] <= one["half_width_now"]
        assert one["labels"] == sum(row["model"] == one["model"] for row in rows)


def test_a_half_width_is_reached(invoke: Invoke, tmp_path: Path) -> None:
    source = gold_file(tmp_path)
    plan = document(invoke("label", "plan", source, "--this-set", "--half-width", "4", "--json"))
    assert max(one["half_width_then"] for one in plan["models"]) <= 4.0
    assert lb.label_plan(source, this_set=True, half_width=4).frame.height == len(plan["rows"]) > 0


def test_a_half_width_that_no_label_reaches_is_said_to_be_the_items_limit(invoke: Invoke, tmp_path: Path) -> None:
    asked = ("label", "plan", gold_file(tmp_path), "--half-width", "4")
    plan = document(invoke(*asked, "--json"))
    assert plan["target"] == "new items"
    assert min(one["half_width_least"] for one in plan["models"]) > 4.0
    assert all(one["half_width_then"] <= 1.06 * one["half_width_least"] for one in plan["models"])
    code, out, _ = invoke(*asked)
    said = " ".join(out.split())
    assert code == 0
    assert "half widths for new items" in said
    assert re.search(r"More labels cannot make the intervals? .*shorter than ±[\d.]+.*; more items can\.", said)


def test_a_plan_for_one_model_asks_about_no_other(invoke: Invoke, tmp_path: Path) -> None:
    source = gold_file(tmp_path)
    rows = lb.label_plan(source, labels=5, models=["south-1"]).frame
    assert rows["model"].to_list() == ["south-1"] * 5
    code, out, _ = invoke("label", "plan", source, "--labels", "5")
    assert code == 0
    assert "5 labels to add" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "either --half-width"),
        (["--half-width", "1", "--labels", "3"], "either --half-width"),
        (["--half-width", "-1"], "--half-width"),
        (["--half-width", "nan"], "--half-width"),
        (["--labels", "-2"], "--labels"),
    ],
)
def test_an_aim_that_makes_no_sense_is_refused(
    invoke: Invoke, tmp_path: Path, arguments: Sequence[str], reason: str
) -> None:
    code, out, err = invoke("label", "plan", gold_file(tmp_path), *arguments)
    assert (code, out) == (2, "")
    assert reason in err


def test_comparing_is_antisymmetric_and_needs_two_models(invoke: Invoke, tmp_path: Path) -> None:
    source = gold_file(tmp_path)
    there = document(invoke("compare", source, "north-1", "west-1", "--format", "json"))
    back = document(invoke("compare", source, "west-1", "north/north-1@0", "--format", "json"))
    for one, other in zip(there["standings"], back["standings"], strict=True):
        assert one["better"] == pytest.approx(1 - other["better"])
        assert one["difference"] == pytest.approx(-other["difference"])
        assert one["minimum_detectable_difference"] > 0
    code, out, _ = invoke("compare", source, "north-1", "west/west-1@0")
    assert code == 0
    assert "P(first is better)" in out
    for arguments, reason in (
        (["north-1"], "two models"),
        ([source, "north-1", "north/north-1@0"], "same model"),
        ([source, "north-1", "north-3"], "did you mean 'north-"),
    ):
        code, _, err = invoke("compare", *arguments)
        assert code == 2
        assert reason in err


HOSTILE = {"\x1b[31mred": "north", "[bold]b[/]": "south", "a\nb": "west", "x" * 200: "west"}


@pytest.mark.parametrize(
    "arguments",
    [["judges", "S", "--errors"], ["label", "plan", "S", "--labels", "9"], ["compare", "S", "[bold]b[/]", "a\nb"]],
)
def test_hostile_names_reach_no_terminal(invoke: Invoke, tmp_path: Path, arguments: Sequence[str]) -> None:
    source = gold_file(tmp_path, models=HOSTILE, items=120)
    code, out, err = invoke(*(source if text == "S" else text for text in arguments))
    assert code == 0, err
    assert "\x1b" not in out
    assert "[bold]b[/]" in out
    assert max(map(len, out.splitlines())) <= 120


def test_a_file_that_is_no_gold_set_is_named(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    for command in (["judges"], ["label", "plan", "--labels", "1"]):
        code, _, err = invoke(*command, "other.jsonl")
        assert code == 2
        assert "not a gold set" in err


def test_this_set_changes_score_interval_ranks_and_comparison_together(invoke: Invoke, tmp_path: Path) -> None:
    source = gold_file(tmp_path)
    new = {row["model"]: row for row in document(invoke("leaderboard", source, "--format", "json"))}
    here = {row["model"]: row for row in document(invoke("leaderboard", source, "--format", "json", "--this-set"))}
    shown = ("rank", "rank_best", "rank_worst", "score", "lower", "upper")
    for model, row in here.items():
        assert (row["target"], new[model]["target"]) == ("this set", "new items")
        assert [row[name] for name in shown] == [new[model][f"set_{name}"] for name in shown]
        assert [new[model][name] for name in shown] == [row[f"new_{name}"] for name in shown]
    said = {target: invoke("compare", source, "north-1", "west-1", *target)[1] for target in ((), ("--this-set",))}
    assert "on new items" in said[()]
    assert "on this set" not in said[()]
    assert "on this set" in said["--this-set",]
    assert "on new items" not in said["--this-set",]
    compared = document(invoke("compare", source, "north-1", "west-1", "--format", "json"))
    assert [one["target"] for one in compared["standings"]] == ["new items", "this set"]
