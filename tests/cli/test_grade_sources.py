"""What ``grade`` takes beside files of predictions: folders of evaluate-idk, runs, and benchmarks of a plug-in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.support import plug_in
from tests.support.cli_harness import call
from tests.support.graded_files import Row, board, lines, models, refused, replies
from tests.support.lab import lab, rule_text

METRICS = ("trad_score", "idk_score", "idk_freq", "extract_fail")
GPQA, LEXAM = "gpqa-diamond-idk", "lexam-en-idk"
EARLY, LATE = "2025-09-26T18-27-03.114623", "2025-10-21T13-31-06.041856"


@pytest.fixture(autouse=True)
def at_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


# ---- a results folder of evaluate-idk, as lighteval leaves it --------------------------------------------------------


def totals(model: str, time: str, trad: float, benchmark: str = GPQA, **config: object) -> Path:
    """Write the totals of a run; the other three metrics follow from the first."""
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


def details(model: str, time: str, letters: str, benchmark: str = GPQA, query: str = "question") -> Path:
    """Write replies; the right option is B, of four and "I don't know"."""
    rows = [
        {
            "doc": {"id": str(i), "query": f"{query} {i}", "choices": list("wrong"), "gold_index": [1]},
            "model_response": {"text": ["<think>A?</think>Answer: " + letter], "input": "question"},
            "metric": dict.fromkeys(METRICS, 0.0),
        }
        for i, letter in enumerate(letters)
    ]
    path = Path("results/details") / model / time / f"details_community|{benchmark}|0_{time}.parquet"
    path.parent.mkdir(parents=True)
    pl.DataFrame(rows).write_parquet(path)
    return path


def test_replies_are_graded_models_without_them_stand_as_published_and_nothing_else_is_repeated() -> None:
    details("openrouter/openai/gpt-5", EARLY, "BBBBBBBA")
    details("openrouter/openai/gpt-5-nano", EARLY, "BBBBAAAE")
    totals("openrouter/openai/gpt-5", EARLY, 0.1)
    totals("openrouter/x-ai/grok-4-fast", EARLY, 0.7, api_key="sk-not-for-others")
    Path("results/results/results_broken.json").write_text("{", encoding="utf-8")
    Path("results/results/results_other.json").write_text('{"results": {"c|x|0": {"acc": 1}}}', encoding="utf-8")
    lines("results/p.jsonl", replies("A"))
    end = call("grade", "mcq_idk", "--predictions", "results", "--json")
    found = models(end.table())
    assert list(found) == ["gpt-5", "gpt-5-nano", "grok-4-fast"]
    assert (found["gpt-5"]["rank"], found["gpt-5"]["score"]) == (1, 75.0)
    assert found["gpt-5-nano"]["failures"] == {"wrong": 3, "abstained": 1}
    assert (found["grok-4-fast"]["rank"], found["grok-4-fast"]["score"]) == (None, None)
    report: Row = found["grok-4-fast"]["report"]  # type: ignore[assignment]
    assert (report["metrics"]["trad_score"], report["n"], report["rows"]) == (  # type: ignore[index]
        {"mean": 0.7, "se": 0.01}, None, [],
    )  # fmt: skip
    assert "grok-4-fast: as published" in str(end.table()["notes"])
    shown = call("grade", "mcq_idk", "--predictions", "results").out
    assert "70.00 ± 1.00" in shown
    assert "sk-not-for-others" not in shown + end.out + end.err


def test_of_several_runs_of_a_model_the_latest_counts_unless_every_run_is_asked_for() -> None:
    details("a/m", EARLY, "BBBB")
    details("a/m", LATE, "AABB", query="another question")
    totals("b/old", EARLY, 0.9)
    totals("b/old", LATE, 0.2)
    given = ("grade", "mcq_idk", "--predictions", "results")
    table = call(*given, "--table", "-").out
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")][:2] for line in table.splitlines()[2:]]
    assert rows == [["m", "50.00 ± 28.87"], ["old", "20.00 ± 1.00"]]
    table = call(*given, "--every-run", "--table", "-").out
    names = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert names == ["m (2025-09-26)", "old (2025-09-26)", "m (2025-10-21)", "old (2025-10-21)"]
    assert set(models(board(*given[1:], "--every-run"))) == set(names)


def test_a_folder_of_totals_alone_gives_the_published_table_and_chart() -> None:
    totals("x/one", EARLY, 0.5)
    totals("x/two", EARLY, 0.8)
    assert call("grade", "mcq_idk", "--predictions", "results", "--table", "t.md", "--chart", "c.svg").code == 0
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
    assert (list(found), found["m"]["score"]) == (["m", "n"], 0.0)
    assert "no results of --benchmark 'mmlu'" in refused("mcq_idk", "--predictions", "results", "--benchmark", "mmlu")


# ---- runs ------------------------------------------------------------------------------------------------------------

TASKS = ("mcq_idk", "zebralogic", "rome")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of every task, named as the task: three models on twelve items."""
    with lab(tmp_path_factory.mktemp("graded")) as there:
        for task in TASKS:
            text = rule_text(task).replace('name = "lab"', f'name = "{task}"')
            there.finish(text + '[scoring]\nmetric = "idk_score"\n' * (task == "mcq_idk"))
        return there.runs


def shown(graded: dict[str, Row]) -> dict[str, object]:
    return {
        name: (row["rank"], row["rank_box"], row["score"], row["interval"], row["failures"])
        for name, row in graded.items()
    }


def board_of_run(name: str, runs: Path) -> dict[str, object]:
    """Return the same of the run's own board."""
    rows: list[Row] = call("leaderboard", name, "--runs", runs, "--format", "json").json  # type: ignore[assignment]
    boxes = [
        row | {"rank_box": [row["rank_best"], row["rank_worst"]], "interval": [row["lower"], row["upper"]]}
        for row in rows
    ]
    return shown({str(row["model"]): row for row in boxes})


@pytest.mark.parametrize("task", TASKS)
def test_a_run_graded_again_has_its_own_board_and_by_another_protocol_another_one(task: str, runs: Path) -> None:
    assert shown(models(board(task, "--predictions", task, "--runs", runs))) == board_of_run(task, runs)
    by_folder, by_name = (
        board(task, "--predictions", source, "--runs", runs, "--protocol", "original") for source in (runs / task, task)
    )
    assert by_folder == by_name
    assert (len(models(by_name)), by_name["protocol"]) == (3, "original")


# ---- a benchmark that an entry point adds: docs/example_plugin -------------------------------------------------------

GIVEN = ("spelling", "--items", plug_in.PLUGIN / "spelling_items.jsonl", "--predictions")


@pytest.fixture
def spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with plug_in.installed(tmp_path, monkeypatch):
        yield


def spelt(*words: str | None) -> list[Row]:
    return [{"item_id": f"w{number}", "response": text} for number, text in enumerate(words, 1)]


@pytest.mark.usefixtures("spelling")
def test_a_plug_in_s_file_has_metrics_with_errors_and_several_are_a_board_with_its_kinds_of_failure() -> None:
    report = call("grade", *GIVEN, lines("p.jsonl", spelt("nretnal", "DRAHCRO", "kestrel")), "--json").table()
    assert report["metrics"]["exact"] == pytest.approx({"mean": 2 / 3, "se": 1 / 3})  # type: ignore[index]
    assert report["rows"] == [
        {"item_id": "w1", "tag": None, "exact": 1.0},
        {"item_id": "w2", "tag": None, "exact": 1.0},
        {"item_id": "w3", "tag": "wrong", "exact": 0.0},
    ]
    good = lines("good.jsonl", spelt("nretnal", "drahcro", "lertsek"))
    document = board(*GIVEN, lines("bad.jsonl", spelt("lantern", " ", None)), "--predictions", good)
    assert (document["task"], document["protocol"], document["metric"]) == ("spelling", None, "exact")
    assert [models(document)[name]["rank"] for name in ("good", "bad")] == [1, 2]
    assert models(document)["bad"]["failures"] == {"wrong": 1, "unparsed": 1, "missing": 1}


@pytest.mark.usefixtures("spelling")
def test_a_plug_in_that_does_not_load_hides_no_other(tmp_path: Path) -> None:
    info = tmp_path / "site-packages" / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[layton_batch.tasks]\nbroken = nothing_of_this_name:Task\n")
    path = lines("p.jsonl", spelt("nretnal"))
    assert "task 'broken' (nothing_of_this_name:Task) cannot be loaded" in refused("broken", "--predictions", path)
    assert call("grade", *GIVEN, path, "--json").table()["n"] == 1
