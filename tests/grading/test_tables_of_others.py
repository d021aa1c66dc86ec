"""Tables and files of others as they are: columns of other names, judges' verdicts, results of other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import layton_batch
from layton_batch.errors import LaytonBatchError
from tests.support.cli_harness import call
from tests.support.harness_files import GOLDEN, lm_eval_line, write_lines

VERDICTS = [
    {"qid": item, "llm": model, "g": g, "c": c, "me": me}
    for item, model, g, c, me in [
        ("1", "larch", "yes", 1, True), ("2", "larch", "no", 0, None), ("3", "larch", "pass", 0, False),
        ("1", "tern", "true", "1", None), ("2", "tern", 1, 1, True), ("3", "tern", None, 0, None),
    ]
]  # fmt: skip


def board(*arguments: str | Path) -> list[dict[str, Any]]:
    ended = call("leaderboard", *arguments, "--format", "json")
    assert ended.code == 0, ended.err
    rows: list[dict[str, Any]] = json.loads(ended.out)
    return rows


def scores(*arguments: str | Path) -> dict[str, float]:
    return {row["model"]: row["score"] for row in board(*arguments, "--this-set")}


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (",model,item_id,score\n0,larch,a,1\n1,larch,b,0\n", (), 50.0),
        ("question_id,model_name,correct\na,larch,yes\nb,larch,no\nc,larch,\n", (), 50.0),
        ("model,item_id,score\nlarch,a,1.0000000000000002\nlarch,b,0\n", (), 50.0),
        ("model,item_id,metric,score\nlarch,a,acc,1\nlarch,a,f1,0.5\n", (), 100.0),
        ("model,item_id,metric,score\nlarch,a,acc,1\nlarch,a,f1,0.5\n", ("--metric", "f1"), 50.0),
        ("q,who,points,score\na,larch,1,0\nb,larch,0,0\n",
         ("--column", "item=q", "--column", "model=who", "--column", "score=points"), 50.0),
        ("inputs,outputs,exact/v1/score,exact/v1/justification\nwhat,x,1,good\nwhy,y,0,bad\n", (), 50.0),
        ("inputs,toxicity/v1/score,similar/v1/score,words/value\nwhat,0.9,1,Paris\nwhy,0.9,0,Rome\n", (), 50.0),
        ("model,item_id,score,judge_cost\nlarch,a,1,0\nlarch,b,0,0\n", (), 50.0),
        ("user_input,response,faithfulness,answer_relevancy\nwhat,x,1,0\nwhy,y,0.5,0\n", (), 75.0),
    ],
    ids=["index", "usual names", "rounding", "first metric", "metric", "named", "MLflow", "toxic", "cost", "ragas"],
)  # fmt: skip
def test_a_table_is_ranked_by_the_columns_that_it_has(
    tmp_path: Path, text: str, arguments: Sequence[str], expected: float
) -> None:
    (tmp_path / "larch.csv").write_text(text)
    assert scores(tmp_path / "larch.csv", *arguments) == {"larch": expected}


@pytest.mark.parametrize("name", ["verdicts.csv", "verdicts.jsonl", "frame"])
def test_a_table_of_verdicts_is_a_jury_and_its_labels(tmp_path: Path, name: str) -> None:
    columns = ["item=qid", "judge=g", "judge=c", "human=me"]
    if name == "frame":
        rows = [{**row, "g": None if row["g"] is None else str(row["g"]), "c": str(row["c"])} for row in VERDICTS]
        ranked = layton_batch.leaderboard(rows, column=columns).frame.to_dicts()
        judges = layton_batch.judges(rows, column=columns).frame
        assert dict(judges.select("judge", "labels").iter_rows()) == {"c": 3, "g": 3}
        assert layton_batch.compare(rows, "larch", "tern", column=columns).frame["n_items"].to_list() == [3, 3]
    else:
        path = tmp_path / name
        if name.endswith(".csv"):
            cells = [["" if cell is None else str(cell) for cell in row.values()] for row in VERDICTS]
            path.write_text("\n".join(",".join(line) for line in [list(VERDICTS[0]), *cells]))
        else:
            write_lines(path, VERDICTS)
        ranked = board(path, *(word for column in columns for word in ("--column", column)))
    found = {row["model"]: (row["method"], row["n_items"], row["own_labels"]) for row in ranked}
    assert found == {"larch": ("hierarchical", 3, 2), "tern": ("hierarchical", 3, 1)}


def test_verdicts_under_their_usual_names_need_no_option(tmp_path: Path) -> None:
    usual = {"qid": "item_id", "llm": "model", "g": "judge_g", "c": "judge_c", "me": "human"}
    rows = [{usual[name]: value for name, value in row.items()} for row in VERDICTS]
    path = write_lines(tmp_path / "verdicts.jsonl", rows)
    assert {row["own_labels"] for row in board(path)} == {1, 2}
    ended = call("judges", path, "--json")
    assert {judge["judge"] for judge in json.loads(ended.out)["judges"]} == {"g", "c"}


def test_lines_of_verdicts_may_leave_out_what_is_null_and_say_what_is_no_answer(tmp_path: Path) -> None:
    rows = [
        {"item_id": "1", "judge_a": 1}, {"item_id": "2", "judge_b": 0, "human": 1}, {"item_id": "3", "kind": "missing"},
    ]  # fmt: skip
    rows = [{**row, "model": "larch"} for row in rows]
    (row,) = board(write_lines(tmp_path / "verdicts.jsonl", rows))
    assert (row["own_labels"], row["n_items"], row["n_missing"]) == (1, 3, 1)


@pytest.mark.parametrize(
    "columns",
    [
        ["score=g", "judge=c"],
        ["judge=g", "judge=judge_g"],
        ["colour=a"],
        ["judge"],
        ["human=me"],
        ["item=a", "item=b"],
        ["item=nothing", "score=g"],
        ["judge=qid"],
    ],
)
def test_columns_that_a_table_cannot_have_are_refused(columns: Sequence[str]) -> None:
    rows = [{**row, "g": 1, "c": 0} for row in VERDICTS]
    with pytest.raises(LaytonBatchError):
        layton_batch.leaderboard(rows, column=columns)


def _promptfoo(*results: Mapping[str, object]) -> dict[str, object]:
    return {"evalId": "e", "results": {"version": 3, "results": list(results)}}


def _result(provider: str, test: int, score: float, prompt: str = "p") -> dict[str, object]:
    return {
        "provider": {"id": provider, "label": ""}, "testIdx": test, "score": score, "success": score == 1,
        "prompt": {"raw": "?", "label": prompt}, "namedScores": {"tone": 0.5}, "vars": {"q": str(test)},
    }  # fmt: skip


def test_promptfoos_results_are_ranked_by_provider_and_prompt(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(_promptfoo(_result("a:larch", 0, 1.0), _result("a:larch", 1, 0.0))))
    assert scores(path) == {"a:larch": 50.0}
    assert scores(path, "--metric", "tone") == {"a:larch": 50.0}
    path.write_text(json.dumps(_promptfoo(_result("a:larch", 0, 1.0), _result("a:larch", 0, 0.0, "short"))))
    assert scores(path) == {"a:larch (p)": 100.0, "a:larch (short)": 0.0}
    failed = {**_result("a:larch", 1, 0.0), "failureReason": 2}
    path.write_text(json.dumps(_promptfoo(_result("a:larch", 0, 1.0), failed)))
    assert scores(path) == {"a:larch": 100.0}  # an outage is no wrong answer
    again = {**_result("a:larch", 0, 0.0), "testIdx": 7}
    path.write_text(json.dumps(_promptfoo(_result("a:larch", 0, 1.0), again)))
    assert [(row["score"], row["n_items"]) for row in board(path, "--this-set")] == [(50.0, 1)]  # --repeat 2


def _tested(score: float, *, success: bool, name: str = "Relevancy", **more: object) -> dict[str, object]:
    return {"name": name, "threshold": 0.5, "success": success, "score": score, "evaluationModel": "judge", **more}


def test_deepevals_test_runs_are_ranked_by_success_or_a_metric(tmp_path: Path) -> None:
    def case(question: str, *results: Mapping[str, object]) -> dict[str, object]:
        success = all(result["success"] for result in results)
        return {"name": "test_case_0", "input": question, "actualOutput": "!", "expectedOutput": "!",
                "success": success, "metricsData": list(results)}  # fmt: skip

    kind, rude = _tested(0.0, success=True, name="Toxicity"), _tested(0.75, success=False, name="Toxicity")
    run = {"testCases": [case("1?", _tested(0.9, success=True), kind), case("2?", _tested(0.7, success=True), rude)]}
    path = tmp_path / "20260101_120000"
    path.write_text(json.dumps(run))
    assert scores(path) == {"20260101_120000": 50.0}
    assert scores(path, "--metric", "Relevancy") == {"20260101_120000": 80.0}
    assert call("leaderboard", path, "--metric", "Toxicity").code == 2  # less is better
    failed = case("2?", _tested(0.0, success=False, error="no reply"))
    latest = tmp_path / "latest.json"
    latest.write_text(json.dumps(
        {"testRunData": {"testCases": [run["testCases"][0], failed], "hyperparameters": {"model": "larch"}}}
    ))  # fmt: skip
    assert scores(latest) == {"larch": 100.0}  # a metric's own failure is no wrong answer
    again = [run["testCases"][0], case("1?", _tested(0.2, success=False))]
    latest.write_text(json.dumps({"testCases": again}))
    assert [(row["score"], row["n_items"]) for row in board(latest, "--this-set")] == [(50.0, 1)]


def test_a_folder_of_logs_is_its_files(tmp_path: Path) -> None:
    for name in ("finch.eval", "robin.eval"):
        (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    assert set(scores(tmp_path)) == {"mockllm/finch", "mockllm/robin"}
    (tmp_path / "notes.jsonl").write_text("{}\n")
    assert call("leaderboard", tmp_path).code == 2


def _log(path: Path, values: Sequence[object], *, reducer: str = "mean", **changes: object) -> Path:
    """Write a log of inspect with one sample a value, or the values of its epochs in a list."""
    log = json.loads((GOLDEN / "wren.json").read_bytes())
    first = log["samples"][0]
    log["samples"] = [
        {**first, "id": item, "epoch": epoch, "scores": {"match": {"value": value}}}
        for item, epochs in enumerate(values)
        for epoch, value in enumerate(epochs if isinstance(epochs, list) else [epochs], 1)
    ]
    log["eval"]["config"]["epochs_reducer"] = [reducer]
    log["eval"]["task_id"] = "t"
    log["results"] = None
    path.write_text(json.dumps({**log, **changes}))
    return path


@pytest.mark.parametrize(
    ("reducer", "expected"),
    [("mean", 50.0), ("max", 100.0), ("median", 50.0), ("mode", 100.0), ("at_least_2", 100.0), ("at_least_3", 0.0),
     ("pass_at_1", 50.0), ("pass_at_3", 100.0), ("pass_at_9", 100.0), ("mine", 50.0), ("at_least_" + "9" * 5000, 50.0)],
)  # fmt: skip
def test_epochs_are_brought_together_as_the_log_says(tmp_path: Path, reducer: str, expected: float) -> None:
    path = _log(tmp_path / "wren.json", [[1, 0, 0, 1]], reducer=reducer)
    assert scores(path) == {"mockllm/wren": expected}
    is_known = reducer != "mine" and not reducer.endswith("99")
    assert ("epochs count as their mean" in call("leaderboard", path).err) is not is_known


def test_what_a_scorer_wrote_that_is_no_number_counts_as_0_and_is_told(tmp_path: Path) -> None:
    path = _log(tmp_path / "wren.json", [1, "no idea", ""])
    ended = call("leaderboard", path, "--format", "json")
    (row,) = json.loads(ended.out)
    assert (row["n_items"], row["n_missing"]) == (3, 0)
    assert scores(path) == {"mockllm/wren": 33.3}
    assert "no idea" in ended.err


def test_of_a_log_that_was_cut_short_and_its_retry_the_whole_one_counts(tmp_path: Path) -> None:
    cut = _log(tmp_path / "cut.json", [0], status="error")
    assert scores(cut) == {"mockllm/wren": 0.0}
    whole = _log(tmp_path / "whole.json", [1, 1])
    assert scores(cut, whole) == {"mockllm/wren": 100.0}


def test_a_document_of_lm_eval_without_a_score_is_outside_it(tmp_path: Path) -> None:
    lines = [lm_eval_line(0, {"text": "a", "acc": float("nan")}), lm_eval_line(1, {"text": "b", "acc": 1.0})]  # type: ignore[dict-item]
    path = tmp_path / "samples_t_2026-11-20T10-00-00.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = {"model_name": "larch", "higher_is_better": {"t": {"acc": True}}}
    beside = tmp_path / "results_2026-11-20T10-00-00.json"
    beside.write_text(json.dumps(results))
    assert scores(path) == {"larch": 100.0}
    beside.write_text(json.dumps({**results, "higher_is_better": {"t": {"acc": False}}}))
    assert call("leaderboard", path).code == 2  # the worst model would be first


def test_a_judge_file_of_layton_eval_says_by_its_name_whom_it_judges(tmp_path: Path) -> None:
    verdict = json.dumps({"is_answer_correct": True, "is_justification_correct": True})
    line = {"custom_id": "1", "answer": verdict, "model": "gpt"}
    path = write_lines(tmp_path / "judge_openai_gpt-5_llm_2026_thinking_32k.jsonl", [line])
    (row,) = board(path)
    assert (row["provider"], row["model"]) == ("openai", "gpt-5_thinking_32k")


def test_what_deepevals_evaluate_returned_is_ranked_as_its_test_run(tmp_path: Path) -> None:
    result = {"name": "test_case_0", "input": "1?", "expected_output": "!", "success": True, "conversational": False,
              "metrics_data": [_tested(0.9, success=True)]}  # fmt: skip
    path = tmp_path / "larch.json"
    path.write_text(json.dumps({"test_results": [result], "confident_link": None}))
    assert scores(path) == {"larch": 100.0}
