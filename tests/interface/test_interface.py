"""What a notebook calls: the same numbers as the commands', and the documented examples as they stand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

import layton_batch as lb
from layton_batch import interface
from layton_batch.errors import DataError, ManifestError, OverBudgetError, UnfinishedRunError
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.interface import RunResult
from layton_batch.runs.status import RunState, Status
from layton_batch.sandbox import Fault
from tests.support.cli_harness import Desk, call, desk
from tests.support.harness_files import GOLDEN, eee_line, write_lines
from tests.support.lab import BUNDLED, ROOT, manifest_text

DOCS = ROOT / "docs" / "python.md"
PANEL = [{"name": "referee", "provider": "openai", "model": "larch-2-referee", "max_output_tokens": 2000}]


def _marks(*marks: float) -> pl.DataFrame:
    items = [f"i{number}" for number in range(len(marks))]
    return pl.DataFrame({"model": "finch", "item_id": items, "score": marks})


def _answers(model: str = "finch", **columns: object) -> pl.DataFrame:
    same = {"item_id": ["lb-t-001", "lb-t-002"], "answer": ["7", "8"], "justification": ["so", "so"]}
    return pl.DataFrame({"model": [model] * 2, **same, **columns})


def test_importing_the_package_loads_nothing_else() -> None:
    program = (
        "import sys, layton_batch as lb; print(len([n for n in sys.modules if n.startswith('layton_batch')]), dir(lb))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    count, names = done.stdout.split(" ", 1)
    assert count == "1"
    assert all(name in names for name in ("'compare'", "'judge'", "'leaderboard'", "'plan'", "'run'"))


def test_run_is_the_function_whatever_modules_were_imported() -> None:
    import layton_batch.runs.open

    assert layton_batch.runs.open.THREADS
    with pytest.raises(ManifestError, match="cannot be read"):
        lb.run("there is no such manifest.toml")
    assert not hasattr(lb, "walk")


# ---- statistics ----------------------------------------------------------------------------------------------------


def test_a_frame_of_scores_gives_the_board_that_the_same_lines_give(tmp_path: Path) -> None:
    marks = {"finch": (1, 1, 0.5, 1), "wren": (0, 1, 0, 1)}
    lines = [
        eee_line(model, f"i{number}", float(mark))
        for model, given in marks.items()
        for number, mark in enumerate(given)
    ]
    path = write_lines(tmp_path / "lines.jsonl", lines)
    frame = pl.DataFrame(
        [
            {"model": model, "item_id": f"i{number}", "score": mark}
            for model, given in marks.items()
            for number, mark in enumerate(given)
        ],
        strict=False,
    )
    assert lb.leaderboard(frame).equals(lb.leaderboard(path))
    names = {"smallest_gold_bin": "fewest_labels_per_vote"}
    assert lb.leaderboard(path).to_dicts() == [
        {name: row[names.get(name, name)] for name in SCHEMAS["leaderboard"]}
        for row in json.loads(call("leaderboard", path, "--format", "json").out)
    ]
    assert lb.compare(frame, "finch", "wren").equals(lb.compare(path, "finch", "wren"))


def test_logs_of_other_programs_are_ranked_and_compared() -> None:
    logs = sorted(GOLDEN.glob("*.[ej][vs]*"))
    assert lb.leaderboard(logs, metric="includes").height == 3
    told = lb.compare(logs, "mockllm/finch", "mockllm/robin").row(0, named=True)
    assert (told["target"], told["n_items"]) == ("new items", 6)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (_marks(1).drop("item_id"), "no column 'item_id'"),
        (_marks(1).with_columns(score=pl.lit("good")), "scores cannot be read"),
        (_marks(1).with_columns(score=pl.lit(None, pl.Float64)), "no marks or a mark that is no number"),
        (pl.concat([_marks(1), _marks(1)]), "more than one mark"),
    ],
)
def test_frames_that_are_no_scores_are_refused_in_words(frame: pl.DataFrame, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        lb.leaderboard(frame)


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_a_run_gives_its_tables_and_tells_of_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        path = there.write(manifest_text(("openai",)))
        planned = lb.plan(path)
        assert (planned.requests, planned.items) == (8, 4)
        assert planned.max_usd is not None
        assert planned.jobs["requests"].sum() == 8
        steps: list[str] = []
        result: RunResult = lb.run(path, max_usd=Decimal(5), progress=lambda status: steps.append(str(status.state)))
        assert (result.state, result.unanswered) == ("done", 0)
        assert (steps[0], steps[-1]) == ("running", "done")
        assert result.spent_usd == there.server_total()
        assert result.leaderboard.equals(lb.leaderboard(result.folder))
        assert (result.predictions.height, result.verdicts.height) == (4, 4)
        assert lb.run(path).spent_usd == there.server_total()


def test_runs_are_kept_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        monkeypatch.setenv("LAYTON_BATCH_RUNS", str(tmp_path / "elsewhere"))
        path = there.write(manifest_text(("openai",)))
        assert lb.plan(path).requests == 8
        assert Path(lb.run(path, max_usd=5).folder).parent == tmp_path / "elsewhere"
        assert not (tmp_path / "runs").exists()


def test_a_run_goes_on_where_it_was_begun_whoever_calls_it_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with desk(tmp_path, monkeypatch) as there:
        path = there.write(manifest_text(("openai",), limit=2)).absolute()
        home = Path(lb.run(path, max_usd=5).folder).absolute()
        paid = there.server_total()
        monkeypatch.chdir(elsewhere)
        assert Path(lb.run(path, max_usd=5).folder) == home
        assert lb.plan(path).jobs["answered"].sum() == 4
        assert call("run", path).code == 0
        assert there.server_total() == paid
        assert not list(elsewhere.iterdir())


def test_judges_without_a_price_under_a_budget_are_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch):
        items = Path(shutil.copy(BUNDLED / "riddles_llm.jsonl", tmp_path / "items.jsonl"))
        with pytest.raises(OverBudgetError, match=r"judge: openai larch-2-referee has no known price"):
            lb.judge(_answers(), PANEL, items=items, seats=1, max_usd=5)


def test_judges_are_paid_once_and_a_further_model_pays_for_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        items = Path(shutil.copy(BUNDLED / "riddles_llm.jsonl", tmp_path / "items.jsonl"))
        first = lb.judge(_answers(), PANEL, items=items, seats=1)
        assert sorted(first.select("item_id", "model", "judge").rows()) == [
            ("lb-t-001", "finch", "referee"),
            ("lb-t-002", "finch", "referee"),
        ]
        paid = len(there.lab.billed())
        assert lb.judge(_answers(), PANEL, items=items, seats=1).equals(first)
        assert len(there.lab.billed()) == paid == 2
        both = pl.concat([_answers(), _answers("wren")])
        assert lb.judge(both, PANEL, items=items, seats=1)["model"].unique().sort().to_list() == ["finch", "wren"]
        assert len(there.lab.billed()) == 2  # the same words of another model are the same question to the judge
        (folder,) = (path.parent for path in (tmp_path / "runs").glob("*/run.json"))
        assert call("leaderboard", folder, "--format", "json").code == 0


@pytest.mark.parametrize("state", ["needs_person", "cancelled", "running"])
def test_verdicts_that_are_not_all_there_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    ended = Status("judged", RunState(state), None, Decimal(0), Decimal(0), (), ())
    monkeypatch.setattr(interface, "drive", lambda *_, **__: ended)
    with (
        desk(tmp_path, monkeypatch),
        pytest.raises(UnfinishedRunError, match="not all verdicts of run judged are here"),
    ):
        lb.judge(_answers(), PANEL, items=BUNDLED / "riddles_llm.jsonl", seats=1)


def test_a_judge_without_a_verdict_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refused = Fault(on="row", action="malformed_line", provider="openai", times=1)
    with desk(tmp_path, monkeypatch, refused):
        lb.judge(_answers(), PANEL, items=BUNDLED / "riddles_llm.jsonl", seats=1)
    assert "1 request of run judged without a verdict" in caplog.text


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (_answers().drop("model"), "no column 'model'"),
        (_answers(item_id=["lb-t-001", "lb-t-001"]), "row 2 of the frame: item 'lb-t-001' is there twice"),
        (_answers(item_id=["lb-t-001", "x"]), "row 2 of the frame: the run has no item 'x'"),
        (_answers(answer=[1, 2]), "row 1 of the frame: 'answer' and 'justification' must be text"),
    ],
)
def test_frames_of_answers_that_are_wrong_pay_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frame: pl.DataFrame, reason: str
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        with pytest.raises(DataError, match=reason):
            lb.judge(frame, PANEL, items=BUNDLED / "riddles_llm.jsonl", seats=1)
        assert not there.lab.billed()


def test_a_task_graded_by_rule_has_no_jury_to_put_answers_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = BUNDLED.parent / "rome" / "questions_llm.jsonl"
    with desk(tmp_path, monkeypatch), pytest.raises(ManifestError, match="graded by rule"):
        lb.judge(_answers(), PANEL, items=questions, task="rome", seats=1)


# ---- the documented examples ---------------------------------------------------------------------------------------


def _prepared(there: Desk) -> None:
    there.write(manifest_text(("openai",)))
    shutil.copy(BUNDLED / "riddles_llm.jsonl", there.folder / "items.jsonl")


def test_the_documented_examples_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert len(examples) == 6
    names: dict[str, object] = {}
    with desk(tmp_path, monkeypatch) as there:
        _prepared(there)
        for example in examples:
            exec(compile(example, str(DOCS), "exec"), names)
    board, result, verdicts = names["board"], names["result"], names["verdicts"]
    assert isinstance(board, pl.DataFrame)
    assert isinstance(result, RunResult)
    assert isinstance(verdicts, pl.DataFrame)
    assert board["model"].to_list() == ["finch", "wren", "robin"]
    assert result.state == "done"
    assert verdicts.height == 2
