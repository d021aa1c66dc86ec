"""What a notebook calls: the same numbers as the commands', and the documented examples as they stand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import layton_batch as lb
from layton_batch.commands import driving
from layton_batch.commands.parameters import Source
from layton_batch.drawing import specification, svg
from layton_batch.errors import (
    DataError,
    LaytonBatchError,
    ManifestError,
    NotAgreedError,
    OverBudgetError,
    UnfinishedRunError,
)
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.frames import read_frame
from layton_batch.reports.leaderboard_tables import Leaderboard
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.status import RunState, Status
from layton_batch.sandbox import Fault
from tests.support.cli_harness import Desk, call, desk
from tests.support.harness_files import GOLDEN, eee_line, write_lines
from tests.support.lab import BUNDLED, ROOT, manifest_text, quiz_text

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
    functions = ("cancel", "compare", "cost", "export", "grade", "import_", "judge", "judges", "label_import",
                 "label_plan", "leaderboard", "overnight", "plan", "run", "site", "status", "verify")  # fmt: skip
    assert all(f"'{name}'" in names for name in functions)


def test_run_is_the_function_whatever_modules_were_imported() -> None:
    import layton_batch.runs.open

    assert layton_batch.runs.open.THREADS
    with pytest.raises(ManifestError, match="cannot be read"):
        lb.run("there is no such manifest.toml")
    assert not hasattr(lb, "walk")
    import layton_batch.site.build

    assert callable(lb.site)


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
    assert lb.leaderboard(frame).frame.equals(lb.leaderboard(path).frame)
    assert lb.leaderboard(path).frame.to_dicts() == [
        {name: row[name] for name in SCHEMAS["leaderboard"]}
        for row in json.loads(call("leaderboard", path, "--format", "json").out)
    ]
    assert lb.compare(frame, "finch", "wren") == lb.compare(path, "finch", "wren")


def test_logs_of_other_programs_are_ranked_and_compared() -> None:
    logs = sorted(GOLDEN.glob("*.[ej][vs]*"))
    assert lb.leaderboard(logs, metric="includes").frame.height == 3
    told = lb.compare(logs, "mockllm/finch", "mockllm/robin").frame.row(0, named=True)
    assert (told["target"], told["n_items"]) == ("new items", 6)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (_marks(1).drop("item_id"), "source: not a gold set and no table of scores; its columns are model, score; a"),
        (pl.DataFrame({"item_id": ["i"], "gpt": [1], "claude": [0]}), "has the columns model, item_id and score"),
        (_marks(1).with_columns(score=pl.lit("good")), "source, row 1: 'score' is 'good', not a number"),
        (
            _marks(1.0, float("nan")),
            "row 2: 'score' is 'nan', not a number, true or false; where there is no score, leave it empty (in Python",
        ),
        (_marks(1).with_columns(score=pl.lit(None, pl.Float64)), "source: model 'finch' has no score on any item"),
        (pl.concat([_marks(1), _marks(1)]), "source, row 2: item 'i0' of model 'finch' has a mark by 'score' already"),
        ([_marks(1), _marks(1).with_columns(model=pl.lit(""))], "source[1], row 1: 'model' is empty"),
        ([{"model": "finch", "item_id": "i", "score": object()}], "source: column 'score' holds values that are neit"),
        (_marks(1).head(0), "source: the table is empty; there must be at least one row"),
        ([_marks(1), _marks(1).head(0)], "source[1]: the table is empty"),
        ([], "source: is empty; give a run, a file or a table"),
    ],
)
def test_tables_that_are_no_scores_are_refused_by_the_argument(source: Source, reason: str) -> None:
    with pytest.raises(DataError, match=re.escape(reason)) as refused:
        lb.leaderboard(source)
    assert ".parquet" not in str(refused.value)


def test_any_librarys_table_gives_the_same_board() -> None:
    frame = pl.concat([_marks(1.0, 0.5, 0.0), _marks(0.0, 0.5, 1.0).with_columns(model=pl.lit("wren"))])
    tables: list[object] = [frame.lazy(), frame.to_dicts(), tuple(frame.to_dicts()), _Arrow(frame)]
    if find_spec("pandas"):
        import pandas as pd

        tables.append(pd.DataFrame(frame.to_dict(as_series=False)))
    if find_spec("pyarrow"):
        tables.append(frame.to_arrow())
    board = lb.leaderboard(frame).frame
    for table in tables:
        assert lb.leaderboard(table).frame.equals(board)  # type: ignore[arg-type]  # no library tells its type of another


class _Arrow:
    """A table of a library that nobody knows, which speaks Arrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def test_what_lacks_in_a_pandas_table_lacks_in_ours() -> None:
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"model": ["a", None], "score": [float("nan"), 1.0], "n": pd.array([1, None], "Int64")})
    assert read_frame(table, "table").rows() == [("a", None, 1), (None, 1.0, None)]


def test_no_library_but_polars_is_needed() -> None:
    program = """
import sys
sys.modules["pandas"] = sys.modules["pyarrow"] = None
import layton_batch as lb
rows = [{"model": "a", "item_id": item, "score": 1} for item in "ab"]
print(lb.leaderboard(rows).frame.height)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "1\n"


@pytest.mark.parametrize(
    ("scores", "largest", "reason"),
    [
        ((1, 0.5, 1.5), None, "source, row 3: score 1.5 is not between 0 and 1; max_score names"),
        ((1, -0.1), None, "source, row 2: score -0.1 is not between 0 and 1"),
        ((11, 2), 10, "source, row 1: score 11 is not between 0 and 10"),
    ],
)
def test_a_score_outside_its_bounds_is_refused_with_its_row(
    scores: tuple[float, ...], largest: float | None, reason: str
) -> None:
    with pytest.raises(DataError, match=re.escape(reason)):
        lb.leaderboard(_marks(*map(float, scores)), max_score=largest)


def test_scores_up_to_another_best_mark_are_shares_of_it() -> None:
    board = lb.leaderboard(_marks(10.0, 5.0), max_score=10).frame
    assert board.equals(lb.leaderboard(_marks(1.0, 0.5)).frame)


@pytest.mark.parametrize("value", [7, object(), [7], {"model": ["a"]}])
def test_what_is_no_table_is_refused_in_words(value: object) -> None:
    with pytest.raises(DataError, match=r"is no table: give a polars, pandas or Arrow table, or a list of dicts"):
        lb.leaderboard(value)  # type: ignore[arg-type]


def test_a_board_shows_itself_escaped_and_is_drawn() -> None:
    hostile = "<script>alert(1)</script>\u202e"
    board = lb.leaderboard(_marks(1, 0, 1).with_columns(model=pl.lit(hostile)))
    page = board._repr_html_()
    assert "<script>" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "66.7" in page
    drawn = board.plot().to_dict()
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["rule", "circle"]
    assert "<svg" in svg(specification(board.plot()))


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_a_run_gives_its_tables_and_tells_of_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        path = there.write(manifest_text(("openai",), limit=2))
        planned = lb.plan(path)
        assert (planned.requests, planned.items) == (4, 2)
        assert planned.max_usd is not None
        assert planned.jobs["requests"].sum() == 4
        assert "lab: what it would send and cost" in planned._repr_html_()
        steps: list[str] = []
        result: RunResult = lb.run(path, max_usd=Decimal(5), progress=lambda status: steps.append(str(status.state)))
        assert (result.state, result.unanswered) == ("done", 0)
        assert (steps[0], steps[-1]) == ("running", "done")
        assert result.spent_usd == there.server_total()
        assert result.leaderboard.frame.equals(lb.leaderboard(result.folder).frame)
        assert result.leaderboard.frame.equals(lb.leaderboard(result).frame)
        assert lb.status("lab").leaderboard.frame.equals(result.leaderboard.frame)
        assert result._repr_html_().startswith("<p><strong>lab: done, $")
        assert (lb.answers("lab").height, lb.verdicts("lab").height) == (2, 2)
        assert lb.run(path).spent_usd == there.server_total()


def test_runs_are_kept_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        monkeypatch.setenv("LAYTON_BATCH_RUNS", str(tmp_path / "elsewhere"))
        path = there.write(quiz_text())
        assert lb.plan(path).requests == 3
        assert Path(lb.run(path, max_usd=5).folder).parent == tmp_path / "elsewhere"
        assert not (tmp_path / "runs").exists()


def test_bills_judges_labels_pages_and_files_of_a_run_print_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        path = there.write(manifest_text(("openai",), limit=2))
        result = lb.run(path, max_usd=5)
        for run in (None, "lab", path, result.folder, result):
            bill = lb.cost(run).frame
            assert bill["cost_usd"].sum() == there.server_total() == result.spent_usd
        assert lb.cost(by="stage").frame["cost_usd"].sum() == result.spent_usd
        assert lb.judges(result).frame["labels"].to_list() == [0]
        asked = lb.label_plan(result, labels=2).frame
        assert asked.columns == ["item_id", "provider", "model", "n_hints"]
        labels = asked.with_columns(answer_correct=True, justification_correct=True, annotator=pl.lit("ada"))
        taken = lb.label_import(result, labels.to_dicts()).frame
        assert (taken["added"].item(), lb.label_import(None, labels).frame["unchanged"].item()) == (2, 2)
        assert lb.judges(result).frame["labels"].to_list() == [2]
        given = [{"item_id": item, "answer": "7", "justification": "so"} for item in ("lb-t-001", "lb-t-002")]
        entered = lb.import_("lab", model="wren", predictions=given).frame
        assert entered.select("model", "answers").rows() == [("wren", 2)]
        assert lb.site(result, tmp_path / "public").path.read_text(encoding="utf-8").startswith("<!doctype html>")
        assert lb.export(result, "ppi", tmp_path / "ppi.jsonl").path.exists()
        assert (lb.export(None, "csv", tmp_path / "tables").path / "leaderboard.csv").exists()
    assert capsys.readouterr() == ("", "")


def test_a_run_that_has_nobody_to_ask_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        text = manifest_text(("openai",))
        path = there.write(text[: text.index("[[models]]")] + text[text.index("[jury]") :])
        with pytest.raises(ManifestError, match=r"lab has no \[\[models\]\] and no answers"):
            lb.run(path)
        assert not (tmp_path / "runs").exists()


def test_answers_begin_the_run_of_a_manifest_also_after_refused_ones_and_nothing_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        path = there.write(manifest_text(("openai",)))
        given = [{"item_id": "lb-t-001", "answer": "7", "justification": "so"}]
        with pytest.raises(DataError, match="there is no item 'x'"):
            lb.import_(path, model="wren", predictions=[given[0] | {"item_id": "x"}])
        assert lb.import_(path, model="wren", predictions=given).frame["is_new"].to_list() == [True]
        assert lb.import_("lab", model="wren", predictions=given).frame["is_new"].to_list() == [False]
        assert there.server_total() == 0


@pytest.mark.parametrize(
    ("call_", "reason"),
    [
        (lambda: lb.cost("nothing"), "there is no run 'nothing'"),
        (lambda: lb.site(None, "public"), "there is no run under"),
        (lambda: lb.cost(by="moon"), "cost: by 'moon': must be one or several of run, provider"),
        (lambda: lb.export("nothing", "pdf", "x"), "to 'pdf': must be one of ppi"),
        (lambda: lb.label_plan("nothing"), "give either --half-width POINTS or --labels N"),
        (lambda: lb.leaderboard(_marks(1), metric="acc"), "metric 'acc': must be a metric of source: score"),
        (lambda: lb.import_("nothing", model="wren", predictions=[{"a": 1}][:0]), "predictions: is empty"),
        (lambda: lb.judges("nothing.jsonl"), "there is no run 'nothing.jsonl'"),
        (lambda: lb.import_("nothing", model="wren", predictions="x"), "there is no run 'nothing'"),
    ],
)
def test_what_cannot_be_done_raises_the_programs_errors(
    call_: Callable[[], object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAYTON_BATCH_RUNS", raising=False)
    with pytest.raises(LaytonBatchError, match=re.escape(reason)):
        call_()


@pytest.mark.parametrize(
    ("call_", "argument"),
    [
        (lambda: lb.leaderboard("lab", level="x"), "level"),  # type: ignore[arg-type]
        (lambda: lb.cost(runs=5), "runs"),  # type: ignore[arg-type]
        (lambda: lb.run("quiz.csv", models="openai:x"), "models"),
        (lambda: lb.run("lab.toml", once=1), "once"),  # type: ignore[arg-type]
        (lambda: lb.label_plan("lab", labels=True), "labels"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call_: Callable[[], object], argument: str) -> None:
    with pytest.raises(ManifestError, match=f"^{argument}: "):
        call_()


def test_answers_to_ones_own_questions_need_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": "q1", "question": "How many legs has a spider?", "answer": "Eight."}]
    with desk(tmp_path, monkeypatch) as there:
        (tmp_path / "quiz.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        answers = [{"item_id": "q1", "model": "finch", "answer": "Eight legs."}]
        verdicts = lb.judge(answers, PANEL, items="quiz.jsonl", seats=1, yes=True)
        assert verdicts.select("item_id", "model", "judge").rows() == [("q1", "finch", "referee")]
        assert len(there.lab.billed()) == 1


def test_judges_without_a_price_under_a_budget_are_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch):
        items = Path(shutil.copy(BUNDLED / "riddles_llm.jsonl", tmp_path / "items.jsonl"))
        with pytest.raises(OverBudgetError, match=r"judge: openai larch-2-referee has no known price"):
            lb.judge(_answers(), PANEL, items=items, seats=1, max_usd=5)


def test_answers_that_contradict_the_run_are_refused_before_it_is_revised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        items = Path(shutil.copy(BUNDLED / "riddles_llm.jsonl", tmp_path / "items.jsonl"))
        lb.judge(_answers(), PANEL, items=items, seats=1)
        run, paid = there.run_root(), there.lab.billed()
        before = (run / "run.json").read_bytes()
        rows = [json.loads(line) for line in items.read_text(encoding="utf-8").splitlines()]
        items.write_text("".join(json.dumps({**row, "answer": "Nine."}) + "\n" for row in rows), encoding="utf-8")
        with pytest.raises(DataError, match="other predictions of a model called 'finch'"):
            lb.judge(_answers().with_columns(answer=pl.lit("Another one.")), PANEL, items=items, seats=1)
        assert ((run / "run.json").read_bytes(), there.lab.billed()) == (before, paid)


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
        monkeypatch.setattr("layton_batch.commands.driving._is_here", lambda *_: False)
        assert lb.judge(_answers(), PANEL, items=items, seats=1).equals(first)  # nothing is paid, so nobody is asked
        rows = [json.loads(line) for line in items.read_text(encoding="utf-8").splitlines()]
        items.write_text(
            "".join(json.dumps({**row, "answer": "Another one."}) + "\n" for row in rows), encoding="utf-8"
        )
        with pytest.raises(NotAgreedError, match="nothing was sent"):
            lb.judge(_answers(), PANEL, items=items, seats=1)
        assert len(there.lab.billed()) == 2
        (folder,) = (path.parent for path in (tmp_path / "runs").glob("*/run.json"))
        assert call("leaderboard", folder, "--format", "json").code == 0


@pytest.mark.parametrize("state", ["needs_person", "cancelled", "running"])
def test_verdicts_that_are_not_all_there_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    ended = Status("judged", RunState(state), None, Decimal(0), Decimal(0), (), ())
    monkeypatch.setattr(driving, "drive", lambda *_, **__: ended)
    with (
        desk(tmp_path, monkeypatch),
        pytest.raises(UnfinishedRunError, match="not all verdicts of run judged are here"),
    ):
        lb.judge(_answers(), PANEL, items=BUNDLED / "riddles_llm.jsonl", seats=1)


def test_no_judge_of_a_frame_s_provider_sits_where_no_family_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        with pytest.raises(LaytonBatchError, match="finch"):
            lb.judge(_answers(provider="openai"), PANEL, items=BUNDLED / "riddles_llm.jsonl", seats=1)
        assert there.lab.server.ledger().rows == ()


@pytest.mark.parametrize("function", [lb.run, lb.plan, lb.check])
@pytest.mark.parametrize("no_run", [5, [], {}, pl.DataFrame()], ids=type)
def test_what_is_no_run_is_refused(function: Callable[[object], object], no_run: object) -> None:
    with pytest.raises((DataError, ManifestError), match=r"run|manifest"):
        function(no_run)


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
        (_answers(item_id=["lb-t-001", "x"]), "row 2 of the frame: there is no item 'x'"),
        (_answers(answer=["7", None]), "row 2 of the frame: 'answer' is null, so judges have nothing to read: give"),
        (_answers(answer=[1, 2]), "row 1 of the frame: 'answer' and 'justification' must be text"),
        (_answers().drop("answer", "justification").with_columns(response=pl.lit("It is 7")), "no reply can be read"),
        (_answers().head(0), "frame: the table is empty; there must be at least one row"),
    ],
)
def test_frames_of_answers_that_are_wrong_pay_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frame: pl.DataFrame, reason: str
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        with pytest.raises(DataError, match=reason):
            lb.judge(frame, PANEL, items=BUNDLED / "riddles_llm.jsonl", seats=1)
        assert not there.lab.billed()
        assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"panel": [PANEL[0] | {"provider": "opneai"}]}, "panel[0].provider: unknown provider 'opneai'; did you mean"),
        ({"panel": [{"name": "r", "provider": "openai", "modle": "x"}]}, "panel[0].modle: unknown key; did you mean"),
        ({"panel": ["gpt-5.2"]}, "panel[0]: a str is no judge: give a panel file, or a list of dicts"),
        ({"panel": PANEL[0]}, "panel: a dict is no panel: give a panel file, or a list of dicts"),
        ({"panel": None}, "panel: a NoneType is no panel"),
        ({"panel": PANEL * 2}, "panel: 'referee' is there twice"),
        ({"panel": "openai:gpt-5.2"}, "openai:gpt-5.2: give a panel file, or a list of dicts"),
        ({"seats": 0}, "seats: "),
        ({"task": "rome"}, "task 'rome' is graded by a rule, no jury sits"),
        ({"max_usd": "much"}, "max-usd 'much': give an amount in US dollars"),
    ],
)
def test_arguments_of_a_judge_that_are_wrong_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {"panel": PANEL, "items": BUNDLED / "riddles_llm.jsonl", **given}
    with pytest.raises((ManifestError, DataError), match=re.escape(reason)) as refused:
        lb.judge(_answers(), **arguments)
    assert "pydantic" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_a_panel_file_is_checked_as_that_of_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "panel.toml").write_text('[[judges]]\nname = "r"\nprovider = "opneai"\nmodel = "x"\n')
    with pytest.raises(ManifestError, match=r"panel\.toml: judges\[0\]\.provider: unknown provider 'opneai'"):
        lb.judge(_answers(), "panel.toml", items=BUNDLED / "riddles_llm.jsonl")


def test_errors_of_an_import_name_the_argument_that_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        path = there.write(manifest_text(("openai",)))
        lb.import_(path, model="wren", predictions=[{"item_id": "lb-t-001", "answer": "7", "justification": "so"}])
        with pytest.raises(DataError, match=r"^predictions, line 1: there is no item 'x'"):
            lb.import_(path, model="finch", predictions=[{"item_id": "x", "answer": "7", "justification": "so"}])
        with pytest.raises(DataError, match=r"^labels, line 1: "):
            lb.label_import(path, [{"item_id": "lb-t-001", "model": "wren", "answer_correct": "maybe"}])


def test_none_is_the_only_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        path = there.write(manifest_text(("openai", "groq")))
        for model in ("wren", "finch"):
            lb.import_(path, model=model, predictions=_answers().drop("model"))
        with pytest.raises(DataError, match=r"labels, line 1: column 'item_id'.* is missing: a row of labels has"):
            lb.label_import(None, [{"model": "wren", "answer_correct": True}])
        assert lb.cost(None) == lb.cost("lab")
        assert lb.leaderboard(None).frame.equals(lb.leaderboard("lab").frame)
        with pytest.raises(DataError, match="no model is done yet"):
            lb.judges(None)


# ---- the documented examples ---------------------------------------------------------------------------------------


def _prepared(there: Desk) -> None:
    there.write(manifest_text(("openai",)))
    shutil.copy(BUNDLED / "riddles_llm.jsonl", there.folder / "items.jsonl")


def test_the_documented_examples_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert len(examples) == 8
    names: dict[str, object] = {}
    with desk(tmp_path, monkeypatch) as there:
        _prepared(there)
        for example in examples:
            exec(compile(example, str(DOCS), "exec"), names)
    board, result, verdicts = names["board"], names["result"], names["verdicts"]
    assert isinstance(board, Leaderboard)
    assert isinstance(result, RunResult)
    assert isinstance(verdicts, pl.DataFrame)
    assert board.frame["model"].to_list() == ["finch", "wren", "robin"]
    assert result.state == "done"
    assert verdicts.height == 2
