"""What a notebook calls: the same numbers as the commands', and the documented examples as they stand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
import vl_convert

import layton_batch as lb
from layton_batch.errors import DataError, LaytonBatchError, ManifestError, NotAgreedError
from layton_batch.records import JsonValue
from tests.support.cli_harness import desk
from tests.support.lab import BUNDLED, ROOT, manifest_text

DOCS = ROOT / "docs" / "python.md"
PANEL: list[dict[str, JsonValue]] = [
    {"name": "referee", "provider": "openai", "model": "larch-2-referee", "max_output_tokens": 2000}
]


def _marks(*marks: float) -> pl.DataFrame:
    items = [f"i{number}" for number in range(len(marks))]
    return pl.DataFrame({"model": "finch", "item_id": items, "score": marks})


def _answers(model: str = "finch", **columns: object) -> pl.DataFrame:
    same = {"item_id": ["lb-t-001", "lb-t-002"], "answer": ["7", "8"], "justification": ["so", "so"]}
    return pl.DataFrame({"model": [model] * 2, **same, **columns})


FUNCTIONS = {"cancel", "compare", "cost", "export", "grade", "import_", "judge", "judges", "label_import", "label_plan",
             "leaderboard", "overnight", "plan", "run", "site", "status", "verify"}  # fmt: skip


def test_importing_the_package_loads_nothing_else_and_no_library_but_polars_is_needed() -> None:
    program = """
import sys, layton_batch as lb
print(len([n for n in sys.modules if n.startswith("layton_batch")]), *dir(lb))
sys.modules["pandas"] = sys.modules["pyarrow"] = None
rows = [{"model": "a", "item_id": item, "score": 1} for item in "ab"]
print(lb.leaderboard(rows).frame.height)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    (count, *names), (height,) = (line.split() for line in done.stdout.splitlines())
    assert (count, FUNCTIONS - set(names), height) == ("1", set(), "1")


# ---- statistics ----------------------------------------------------------------------------------------------------

NO_TABLE = "is no table: give a polars, pandas or Arrow table, or a list of dicts"


@pytest.mark.parametrize(
    ("source", "best", "reason"),
    [
        (
            _marks(1).drop("item_id"),
            1,
            "source: not a gold set and no table of scores; its columns are model, score; a",
        ),
        (pl.DataFrame({"item_id": ["i"], "gpt": [1], "claude": [0]}), 1, "has the columns model, item_id and score"),
        (_marks(1).with_columns(score=pl.lit("good")), 1, "source, row 1: 'score' is 'good', not a number"),
        (_marks(1.0, float("nan")), 1, "row 2: 'score' is 'nan', not a number, true or false; where there is no score"),
        (_marks(1).with_columns(score=pl.lit(None, pl.Float64)), 1, "source: model 'finch' has no score on any item"),
        ([_marks(1), _marks(1).with_columns(model=pl.lit(""))], 1, "source[1], row 1: 'model' is empty"),
        ([{"model": "finch", "item_id": "i", "score": object()}], 1, "column 'score' holds values that are neit"),
        ([], 1, "source: is empty; give a run, a file or a table"),
        (_marks(1.0, 0.5, 1.5), 1, "source, row 3: score 1.5 is not between 0 and 1; max_score names"),
        (_marks(11, 2), 10, "source, row 1: score 11 is not between 0 and 10"),
        (7, 1, NO_TABLE),
        ({"model": ["a"]}, 1, NO_TABLE),
    ],
)
def test_tables_that_are_no_scores_are_refused_by_the_argument(source: Any, best: float, reason: str) -> None:
    with pytest.raises(DataError, match=re.escape(reason)) as refused:
        lb.leaderboard(source, max_score=None if best == 1 else best)
    assert ".parquet" not in str(refused.value)


def test_any_librarys_table_gives_the_same_board() -> None:
    frame = pl.concat([_marks(1.0, 0.5, 0.0), _marks(0.0, 0.5, 1.0).with_columns(model=pl.lit("wren"))])
    pandas = pd.DataFrame(frame.to_dict(as_series=False))
    tables: list[object] = [frame.lazy(), frame.to_dicts(), tuple(frame.to_dicts()), _Arrow(frame), pandas,
                            pandas.set_index("item_id"), pandas.set_index(["model", "item_id"])]  # fmt: skip
    if find_spec("pyarrow"):
        tables.append(frame.to_arrow())
    board = lb.leaderboard(frame).frame
    for table in tables:
        assert lb.leaderboard(table).frame.equals(board)  # type: ignore[arg-type]  # no library tells its type of another
    assert lb.leaderboard(frame.with_columns(pl.col("score") * 10), max_score=10).frame.equals(board)


class _Arrow:
    """A table of a library that nobody knows, which speaks Arrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def test_a_function_that_is_mistyped_tells_python_what_to_suggest() -> None:
    with pytest.raises(AttributeError) as refused:
        lb.leaderbord(_marks(1))  # type: ignore[attr-defined]
    assert (refused.value.name, refused.value.obj) == ("leaderbord", lb)


def test_a_board_shows_itself_escaped_and_is_drawn() -> None:
    hostile = "<script>alert(1)</script>\u202e"
    board = lb.leaderboard(_marks(1, 0, 1).with_columns(model=pl.lit(hostile)))
    page = board._repr_html_()
    assert "<script>" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "66.7" in page
    drawn = board.plot().to_dict()
    assert [layer["mark"]["type"] for layer in drawn["layer"]] == ["bar", "circle", "text"]
    assert "<svg" in vl_convert.vegalite_to_svg(board.plot().to_json())


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_a_run_gives_its_tables_bills_judges_labels_pages_and_files_and_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        monkeypatch.setenv("LAYTON_BATCH_RUNS", str(tmp_path / "elsewhere"))
        path = there.write(manifest_text(("openai",), limit=2))
        planned = lb.plan(path)
        assert (planned.requests, planned.items, planned.jobs["requests"].sum()) == (4, 2, 4)
        assert planned.max_usd is not None
        assert "lab: what it would send and cost" in planned._repr_html_()
        steps: list[str] = []
        result = lb.run(path, max_usd=Decimal(5), progress=lambda status: steps.append(str(status.state)))
        assert (result.state, result.unanswered) == ("done", 0)
        assert (Path(result.folder).parent, (tmp_path / "runs").exists()) == (tmp_path / "elsewhere", False)
        assert (steps[0], steps[-1]) == ("running", "done")
        assert result._repr_html_().startswith("<p><strong>lab: done, $")
        assert (lb.answers("lab").height, lb.verdicts("lab").height) == (2, 2)
        with pytest.raises(LaytonBatchError, match=r"there is no table 'verdict'; did you mean 'verdicts'\?"):
            result.table("verdict")
        assert lb.run(path).spent_usd == result.spent_usd == there.server_total()
        for run in (None, "lab", path, result.folder, result):
            assert lb.leaderboard(run).frame.equals(result.leaderboard.frame)
            assert lb.cost(run).frame["cost_usd"].sum() == result.spent_usd
        assert lb.status("lab").leaderboard.frame.equals(result.leaderboard.frame)
        assert lb.cost(by="stage").frame["cost_usd"].sum() == result.spent_usd
        assert lb.judges(result).frame["labels"].to_list() == [0]
        asked = lb.label_plan(result, labels=2).frame
        assert asked.columns == ["item_id", "provider", "model", "n_hints"]
        labels = asked.with_columns(answer_correct=True, justification_correct=True, annotator=pl.lit("ada"))
        taken = lb.label_import(result, labels.to_dicts()).frame
        assert (taken["added"].item(), lb.label_import(None, labels).frame["unchanged"].item()) == (2, 2)
        assert lb.judges(result).frame["labels"].to_list() == [2]
        assert lb.site(result, tmp_path / "public").path.read_text(encoding="utf-8").startswith("<!doctype html>")
        assert lb.export(result, "ppi", tmp_path / "ppi.jsonl").path.exists()
        assert (lb.export(None, "csv", tmp_path / "tables").path / "leaderboard.csv").exists()
    assert capsys.readouterr() == ("", "")


def test_answers_begin_the_run_of_a_manifest_also_after_refused_ones_and_nothing_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [{"item_id": "lb-t-001", "answer": "7", "justification": "so"}]
    with desk(tmp_path, monkeypatch) as there:
        text = manifest_text(("openai",))
        without_models = there.write(text[: text.index("[[models]]")] + text[text.index("[jury]") :], "none.toml")
        with pytest.raises(ManifestError, match=r"lab has no \[\[models\]\] and no answers"):
            lb.run(without_models)
        path = there.write(text)
        with pytest.raises(DataError, match=r"^predictions, line 1: there is no item 'x'"):
            lb.import_(path, model="wren", predictions=[given[0] | {"item_id": "x"}])
        entered = [lb.import_(run, model="wren", predictions=given).frame["is_new"].item() for run in (path, "lab")]
        assert entered == [True, False]
        with pytest.raises(DataError, match=r"^labels, line 1: "):
            lb.label_import(path, [{"item_id": "lb-t-001", "model": "wren", "answer_correct": "maybe"}])
        with pytest.raises(DataError, match="no model is done yet"):
            lb.judges(None)
        assert there.server_total() == 0


@pytest.mark.parametrize(
    ("call_", "reason"),
    [
        (lambda: lb.cost("nothing"), "there is no run 'nothing'"),
        (lambda: lb.site(None, "public"), "there is no run under"),
        (lambda: lb.cost(by="moon"), "cost: by 'moon': must be one or several of run, provider"),
        (lambda: lb.leaderboard(_marks(1), metric="acc"), "metric 'acc': must be a metric of source: score"),
        (lambda: lb.import_("nothing", model="wren", predictions=[{"a": 1}][:0]), "predictions: is empty"),
        (lambda: lb.leaderboard("lab", level="x"), "level: "),  # type: ignore[arg-type]
        (lambda: lb.cost(runs=5), "runs: "),  # type: ignore[arg-type]
        (lambda: lb.run("quiz.csv", models="openai:x"), "models: "),
        (lambda: lb.run("lab.toml", once=1), "once: "),  # type: ignore[arg-type]
        (lambda: lb.label_plan("lab", labels=True), "labels: "),
        *((partial(lb.run, given), "manifest: ") for given in (5, [], {})),  # type: ignore[arg-type, var-annotated]
        (lambda: lb.plan(5), "manifest: "),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_done_raises_the_programs_errors(
    call_: Callable[[], object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAYTON_BATCH_RUNS", raising=False)
    with pytest.raises(LaytonBatchError, match=re.escape(reason)):
        call_()


def test_judges_of_a_table_are_paid_once_and_a_further_model_pays_for_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        items = Path(shutil.copy(BUNDLED / "riddles_llm.jsonl", tmp_path / "items.jsonl"))
        first = lb.judge(_answers(), panel=PANEL, items=items)
        assert (first.name, first.state) == ("answers-judged", "done")
        assert sorted(first.verdicts.select("item_id", "model", "judge").rows()) == [
            ("lb-t-001", "finch", "referee"),
            ("lb-t-002", "finch", "referee"),
        ]
        assert lb.judge(_answers(), panel=PANEL, items=items).verdicts.equals(first.verdicts)
        assert len(there.lab.billed()) == 2
        both = lb.judge(pl.concat([_answers(), _answers("wren")]), panel=PANEL, items=items)
        assert both.verdicts["model"].unique().sort().to_list() == ["finch", "wren"]
        assert len(there.lab.billed()) == 2  # the same words of another model are the same question to the judge
        rows = [json.loads(line) for line in items.read_text(encoding="utf-8").splitlines()]
        edited = "".join(json.dumps({**row, "answer": "Another one."}) + "\n" for row in rows)
        items.write_text(edited, encoding="utf-8")
        before = (there.run_root() / "run.json").read_bytes()
        with pytest.raises(DataError, match="other predictions of a model called 'finch'"):
            lb.judge(_answers().with_columns(answer=pl.lit("Another one.")), panel=PANEL, items=items)
        assert (there.run_root() / "run.json").read_bytes() == before
        monkeypatch.setattr("layton_batch.commands.driving._is_here", lambda *_: False)
        with pytest.raises(NotAgreedError, match="nothing was sent"):
            lb.judge(_answers(), panel=PANEL, items=items)
        assert len(there.lab.billed()) == 2
        assert lb.judge(_answers(), panel=PANEL, items=items, name="dear", max_usd=5).state == "over_budget"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"panel": [PANEL[0] | {"provider": "opneai"}]}, "jury.judges[0].provider: unknown provider 'opneai'; did you"),
        ({"panel": [{"name": "r", "provider": "openai", "modle": "x"}]}, "jury.judges[0].modle: unknown key; did you"),
        ({"panel": ["gpt-5.2"]}, "panel: "),
        ({"panel": "panel.toml"}, "panel.toml: judges[0].provider: unknown provider 'opneai'"),
        ({"max_usd": "much"}, "answers-judged.toml: budget.max_usd: must be a number"),
        ({"answers": _answers(item_id=["lb-t-001", "lb-t-001"])}, "row 2 of answers: item 'lb-t-001' is there twice"),
        ({"answers": _answers(answer=[1, 2])}, "row 1 of answers: 'answer' and 'justification' must be text"),
        ({"answers": _answers().select("model", "item_id", response=pl.lit("It is 7"))}, "no reply can be read"),
        ({"answers": _answers().head(0)}, "answers: the table is empty; there must be at least one row"),
        ({"answers": _answers(provider="openai")}, "finch"),  # whose maker's judge is the only one
    ],
)
def test_arguments_of_a_judge_that_are_wrong_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "panel.toml").write_text('[[judges]]\nname = "r"\nprovider = "opneai"\nmodel = "x"\n')
    arguments = {"answers": _answers(), "panel": PANEL, "items": BUNDLED / "riddles_llm.jsonl", **given}
    with pytest.raises((ManifestError, DataError), match=re.escape(reason)) as refused:
        lb.judge(**arguments)
    assert "pydantic" not in str(refused.value)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "panel.toml"]


# ---- the documented examples ---------------------------------------------------------------------------------------


def test_the_documented_examples_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    assert len(examples) == 8
    names: dict[str, Any] = {}
    with desk(tmp_path, monkeypatch) as there:
        there.write(manifest_text(("openai",)))
        shutil.copy(BUNDLED / "riddles_llm.jsonl", tmp_path / "items.jsonl")
        for example in examples:
            exec(compile(example, str(DOCS), "exec"), names)
    board, result, judged = names["board"], names["result"], names["judged"]
    assert board.frame["model"].to_list() == ["finch", "wren", "robin"]
    assert result.state == "done"
    assert judged.verdicts.height == 2
