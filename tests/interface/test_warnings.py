"""What functions log as warnings, the tables that they take, and what a mistyped name tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import layton_batch as lb
from layton_batch.errors import LaytonBatchError
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
    assert lb.leaderboard(table).frame.equals(lb.leaderboard(SCORES).frame)


def test_a_function_that_is_mistyped_tells_python_what_to_suggest() -> None:
    with pytest.raises(AttributeError) as refused:
        lb.leaderbord(SCORES)  # type: ignore[attr-defined]
    assert (refused.value.name, refused.value.obj) == ("leaderbord", lb)
