"""Tables of model, item and score from the command line: the board is that of the same frame in Python."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import layton_batch
from tests.support.cli_harness import call

SCORES = pl.DataFrame(
    {
        "model": ["larch"] * 20 + ["tern"] * 20,
        "item_id": [f"i{number}" for number in range(20)] * 2,
        "score": [1.0, 0.0, 0.5, 1.0] * 5 + [0.0, 1.0] * 10,
    }
)


def with_commas(path: Path) -> None:
    rows = SCORES.with_columns(pl.col("score").cast(pl.String).str.replace(".", ",", literal=True))
    path.write_bytes(rows.write_csv(separator=";").encode("utf-8-sig"))


@pytest.mark.parametrize("name", ["scores.csv", "excel.csv", "scores.jsonl", "scores.parquet"])
def test_a_table_of_scores_is_ranked_as_in_python(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write = {"excel.csv": with_commas, "scores.csv": SCORES.write_csv, "scores.jsonl": SCORES.write_ndjson}
    write.get(name, SCORES.write_parquet)(path)
    ended = call("leaderboard", path, "--format", "json")
    assert ended.code == 0, ended.err
    columns = ["model", "score", "lower", "upper", "rank", "rank_best", "rank_worst", "n_items"]
    rows = [{column: row[column] for column in columns} for row in json.loads(ended.out)]
    expected = layton_batch.leaderboard(SCORES).frame.select(columns).to_dicts()
    assert rows == [pytest.approx(row) for row in expected]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("larch,,1", "line 2: 'item_id' is empty"),
        (",a,1", "line 2: 'model' is empty"),
        ("larch,a,good", "line 2: 'score' is 'good', not a number"),
        (
            "larch,a,1\n\nlarch,b,NaN",
            "line 4: 'score' is 'NaN', not a number, true or false; where there is no score, ",
        ),
        (
            "larch,a,7",
            "the mark is 7, and marks go up to 1; choose another metric with --metric, or say with --max-score",
        ),
        ("larch,a,1\nlarch,a,0", "line 3: item 'a' of model 'larch' has a mark by 'score' already"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, row: str, told: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(f"model,item_id,score\n{row}\n", encoding="utf-8")
    ended = call("leaderboard", path)
    assert (ended.code, told in ended.err) == (2, True), ended.err
