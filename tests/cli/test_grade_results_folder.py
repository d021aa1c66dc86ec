"""``grade mcq_idk`` on evaluate-idk's own results folder, in the layout lighteval leaves it in."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.support.cli_harness import call
from tests.support.graded_files import Row, board, lines, models, refused, replies

METRICS = ("trad_score", "idk_score", "idk_freq", "extract_fail")
GPQA, LEXAM = "gpqa-diamond-idk", "lexam-en-idk"
EARLY, LATE = "2025-09-26T18-27-03.114623", "2025-10-21T13-31-06.041856"


@pytest.fixture(autouse=True)
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def totals(model: str, time: str, trad: float, benchmark: str = GPQA, **config: object) -> Path:
    """A file of totals of a run; the other three metrics follow from the first."""
    values = dict(zip(METRICS, (trad, 2 * trad - 1, 0.0, 0.0), strict=True))
    row = values | {f"{name}_stderr": 0.01 for name in METRICS}
    document = {
        "config_general": {"model_config": {"model_name": model, **config}, "model_name": model},
        "results": {f"community|{benchmark}|0": row, "all": row},
    }
    path = Path("results/results") / model / f"results_{time}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def details(model: str, time: str, letters: str, benchmark: str = GPQA) -> Path:
    """A file of replies; the right option is B, of four and "I don't know"."""
    rows = [
        {
            "doc": {"id": str(i), "query": f"question {i}", "choices": list("wrong"), "gold_index": [1]},
            "model_response": {"text": ["<think>A?</think>Answer: " + letter], "input": "question"},
            "metric": dict.fromkeys(METRICS, 0.0),
        }
        for i, letter in enumerate(letters)
    ]
    path = Path("results/details") / model / time / f"details_community|{benchmark}|0_{time}.parquet"
    path.parent.mkdir(parents=True)
    pl.DataFrame(rows).write_parquet(path)
    return path


def test_replies_are_graded_and_models_without_them_stand_as_published() -> None:
    details("openrouter/openai/gpt-5", EARLY, "BBBBBBBA")
    details("openrouter/openai/gpt-5-nano", EARLY, "BBBBAAAE")
    totals("openrouter/openai/gpt-5", EARLY, 0.1)
    totals("openrouter/x-ai/grok-4-fast", EARLY, 0.7)
    document = board("mcq_idk", "--predictions", "results")
    found = models(document)
    assert list(found) == ["gpt-5", "gpt-5-nano", "grok-4-fast"]
    assert (found["gpt-5"]["rank"], found["gpt-5"]["score"]) == (1, 75.0)
    assert found["gpt-5-nano"]["failures"] == {"wrong": 3, "abstained": 1}
    assert (found["grok-4-fast"]["rank"], found["grok-4-fast"]["score"]) == (None, None)
    report = found["grok-4-fast"]["report"]
    assert isinstance(report, dict)
    assert (report["metrics"]["trad_score"], report["n"], report["rows"]) == ({"mean": 0.7, "se": 0.01}, None, [])
    assert "grok-4-fast: as published" in str(document["notes"])
    shown = call("grade", "mcq_idk", "--predictions", "results").out
    assert "grok-4-fast: as published" in shown
    assert "70.00 ± 1.00" in shown


def test_of_several_runs_of_a_model_the_largest_path_counts() -> None:
    details("a/m", EARLY, "BBBB")
    details("a/m", LATE, "AABB")
    totals("b/old", EARLY, 0.9)
    totals("b/old", LATE, 0.2)
    table = call("grade", "mcq_idk", "--predictions", "results", "--table", "-").out
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")][:2] for line in table.splitlines()[2:]]
    assert rows == [["m", "50.00 ± 28.87"], ["old", "20.00 ± 1.00"]]


def test_a_folder_of_totals_alone_gives_the_published_table_and_chart() -> None:
    totals("x/one", EARLY, 0.5)
    totals("x/two", EARLY, 0.8)
    end = call("grade", "mcq_idk", "--predictions", "results", "--table", "t.md", "--chart", "c.svg")
    assert end.code == 0
    assert [line.split()[1] for line in Path("t.md").read_text(encoding="utf-8").splitlines()[2:]] == ["two", "one"]
    assert "80.00" in Path("c.svg").read_text(encoding="utf-8")
    named = ("--ensemble", "both=one,two")
    assert "there are no replies of one, two" in refused("mcq_idk", "--predictions", "results", *named)


def test_of_several_benchmarks_one_has_to_be_named() -> None:
    details("x/m", EARLY, "BB")
    details("x/m", LATE, "BA", LEXAM)
    totals("x/n", LATE, 0.3, LEXAM)
    assert f"holds results of {GPQA}, {LEXAM}; --benchmark says which" in refused("mcq_idk", "--predictions", "results")
    found = models(board("mcq_idk", "--predictions", "results", "--benchmark", LEXAM))
    assert list(found) == ["m", "n"]
    assert found["m"]["score"] == 0.0
    assert "no results of --benchmark 'mmlu'" in refused("mcq_idk", "--predictions", "results", "--benchmark", "mmlu")


def test_single_files_of_either_kind_are_read_too() -> None:
    replied = details("x/m", EARLY, "BBAE")
    report = call("grade", "mcq_idk", "--predictions", replied, "--protocol", "original", "--json").table()
    assert report["n"] == 4
    rows = report["rows"]
    assert isinstance(rows, list)
    assert [row["letter"] for row in rows] == list("BBAE")
    published = totals("x/n", EARLY, 0.25)
    report = call("grade", "mcq_idk", "--predictions", published, "--json").table()
    assert report["n"] is None
    assert "25.00 % ± 1.00" in call("grade", "mcq_idk", "--predictions", published).out
    both = board("mcq_idk", "--predictions", replied, "--predictions", published)
    assert list(models(both)) == ["m", "n"]


def test_what_else_stands_in_a_results_file_is_not_repeated() -> None:
    path = totals("x/n", EARLY, 0.25, api_key="sk-not-for-others")
    for form in ([], ["--json"]):
        end = call("grade", "mcq_idk", "--predictions", path, *form)
        assert "sk-not-for-others" not in end.out + end.err


@pytest.mark.parametrize(
    ("doc", "told"),
    [
        ({"choices": None}, "doc has no choices"),
        ({"gold_index": None}, "or no gold_index"),
        ({"gold_index": [4]}, "gold_index 4 is no real option of 4"),
        ({"gold_index": [-1]}, "gold_index -1 is no real option"),
        ({"choices": ["only"], "gold_index": [0]}, "is no real option of 0"),
    ],
)
def test_details_in_another_form_are_told_with_their_row(doc: Row, told: str) -> None:
    good: Row = {"id": "a", "query": "q", "choices": list("wrong"), "gold_index": [1]}
    rows: list[Row] = [{"doc": good | more, "model_response": {"text": ["B"]}} for more in ({}, doc)]
    said = refused("mcq_idk", "--predictions", lines("p.jsonl", rows))
    assert "p.jsonl, row 2: " in said
    assert told in said


def test_a_file_of_another_kind_in_the_folder_is_passed_over() -> None:
    totals("x/n", EARLY, 0.25)
    Path("results/results/results_broken.json").write_text("{", encoding="utf-8")
    Path("results/results/results_other.json").write_text('{"results": {"c|x|0": {"acc": 1}}}', encoding="utf-8")
    lines("results/p.jsonl", replies("A"))
    assert list(models(board("mcq_idk", "--predictions", "results"))) == ["n"]


def test_every_run_of_a_model_stands_in_one_table_by_its_date_also_where_the_questions_changed() -> None:
    details("a/m", EARLY, "BBBB")
    path = details("a/m", LATE, "AABB")
    other = pl.read_parquet(path).with_columns(doc=pl.col("doc").struct.with_fields(query=pl.lit("another question")))
    other.write_parquet(path)
    totals("b/old", EARLY, 0.9)
    totals("b/old", LATE, 0.2)
    table = call("grade", "mcq_idk", "--predictions", "results", "--every-run", "--table", "-").out
    names = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert names == ["m (2025-09-26)", "old (2025-09-26)", "m (2025-10-21)", "old (2025-10-21)"]
    document = board("mcq_idk", "--predictions", "results", "--every-run")
    assert {model["name"] for model in models(document).values()} == set(names)
    assert "every run" in call("grade", "mcq_idk", "--predictions", "results", "--every-run").out
