"""Mistakes of a person who is new to the functions: errors of the package that name the argument, and warnings."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import layton_batch as lb
from layton_batch import interface
from layton_batch.errors import LaytonBatchError, StorageError
from tests.support.cli_harness import desk
from tests.support.lab import quiz_text

COLUMNS = {"model": ["a", "a", "b", "b"], "item_id": ["1", "2", "1", "2"], "score": [1, 1, 0, 1]}
SCORES = pl.DataFrame(COLUMNS)
TABLE = pd.DataFrame(COLUMNS)
PANEL = [{"name": "referee", "provider": "openai", "model": "larch-2-referee", "max_output_tokens": 2000}]
ANSWERS = [{"item_id": "q1", "model": "finch", "answer": "Eight."}]


def test_run_with_yes_says_what_it_pays_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    words = "lab paid for 3 requests before, and this manifest uses none of the answers"
    with desk(tmp_path, monkeypatch) as there:
        lb.run(there.write(quiz_text()), yes=True)
        assert words not in caplog.text
        there.write(quiz_text(("groq",)))
        result = lb.run("manifest.toml", yes=True)
        assert words in caplog.text
        with pytest.raises(LaytonBatchError, match=r"there is no table 'verdict'; did you mean 'verdicts'\?"):
            result.table("verdict")


def test_a_jury_that_is_short_of_judges_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.write("id,question,answer\nq1,How many legs has a spider?,Eight.\n", "quiz.csv")
        assert lb.judge(ANSWERS, PANEL, items="quiz.csv", seats=3, yes=True).height == 1
    assert "[jury] seats = 3, and the panel has 1 judge of another maker for finch: only these judge" in caplog.text


@pytest.mark.parametrize("table", [TABLE.set_index("item_id"), TABLE.set_index(["model", "item_id"])])
def test_a_named_index_of_pandas_is_read_as_columns(table: Any) -> None:
    assert lb.leaderboard(table).equals(lb.leaderboard(SCORES))


@pytest.mark.parametrize(
    ("call_it", "reason"),
    [
        (lambda: lb.leaderboard(pd.concat([TABLE, TABLE["score"]], axis=1)), "source: the table cannot be read ("),
        (lambda: lb.leaderboard(pd.DataFrame([["a", "1", 1]])), "source: the table cannot be read (the columns' names"),
        (lambda: lb.leaderboard([SCORES.lazy().select("x")]), "source[0]: the table cannot be read (unable to find"),
        (lambda: lb.leaderboard(TABLE["score"]), "source: a Series is no table: give a polars, pandas or Arrow table"),
        (lambda: lb.leaderboard(lb.leaderboard(SCORES)), "source: is a leaderboard, which has one row a model; give"),
        (lambda: lb.leaderboard(SCORES, labels=SCORES), "labels: a DataFrame was given; give text, a path, or a list"),  # type: ignore[arg-type]
        (lambda: lb.import_("m.toml", eee=Path("none.jsonl")), "none.jsonl: no such file"),  # type: ignore[arg-type]
        (lambda: lb.import_("m.toml", model="x", verdicts="v.jsonl"), "the run has no model 'x'; give predictions as"),
        (lambda: lb.judges("m", judge_families=["a"]), 'judge_families: give a dict, such as {"a judge": "its maker"}'),  # type: ignore[arg-type]
        (lambda: lb.run("m.toml", clock=5), "clock: a int was given; give a clock, with now() and sleep(seconds)"),  # type: ignore[arg-type]
        (lambda: lb.run("m.toml", progress=lambda: None), "progress: the function is called with one argument, the ru"),  # type: ignore[arg-type,misc]
        (lambda: lb.run('name = "a"\ntask = "qa"\n'), "manifest: is a text of several lines; write it into a file"),
        (lambda: lb.run("quiz.toml", poll_seconds=-1), "poll_seconds -1: give 0.05 to 3600 seconds"),
        (lambda: lb.run("quiz.toml", poll_seconds=float("nan")), "poll_seconds nan: give 0.05 to 3600 seconds"),
        (lambda: lb.cost([]), "run: is empty; give a run, or None for the only one"),
        (lambda: lb.export(["m", "n"], "csv", "out"), "run: a list was given; give one run"),  # type: ignore[arg-type]
        (lambda: lb.leaderboard("m", runs=""), "runs is empty: name the folder that holds the runs' folders"),
    ],
)
def test_what_is_given_wrongly_is_an_error_of_the_package_that_names_the_argument(
    call_it: Callable[[], object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "no-key")
    (tmp_path / "quiz.toml").write_text(quiz_text(), encoding="utf-8")
    (tmp_path / "m.toml").write_text(quiz_text().replace('"lab"', '"m"'), encoding="utf-8")
    with pytest.raises(LaytonBatchError) as refused:
        call_it()
    assert reason in str(refused.value)


def test_what_the_operating_system_refuses_is_an_error_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "x.parquet")

    monkeypatch.setattr(interface, "_environment", refuse)
    with pytest.raises(StorageError, match=re.escape("No space left on device (x.parquet); make the same call again")):
        lb.cost("m")


def test_a_function_that_is_mistyped_tells_python_what_to_suggest() -> None:
    with pytest.raises(AttributeError) as refused:
        lb.leaderbord(SCORES)  # type: ignore[attr-defined]
    assert (refused.value.name, refused.value.obj) == ("leaderbord", lb)


def test_the_text_of_a_file_in_the_place_of_its_name_is_an_error_of_the_package() -> None:
    with pytest.raises(LaytonBatchError, match=r"File name too long .*; name a file, a folder or a run"):
        lb.leaderboard("model,item_id,score\n" + "a,1,1\n" * 100)
    with pytest.raises(LaytonBatchError, match="runs: holds a character NUL, which no name can have"):
        lb.cost("m", runs="m\0")
