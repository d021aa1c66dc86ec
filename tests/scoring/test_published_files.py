"""Every public file of the four benchmarks is read as its authors publish it, by the command that takes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from layton_batch.files.sources import read_rows
from layton_batch.scoring.gold_file import read_gold
from layton_batch.settings import Settings
from layton_batch.tasks.layton import LaytonTask
from layton_batch.tasks.protocol import TaskOptions
from tests.support.cli_harness import call
from tests.support.paths import SHARED_DATA

DATA = SHARED_DATA
pytestmark = pytest.mark.shared_data


class Graded(NamedTuple):
    """A file that ``grade`` takes, the items it needs, and how many predictions are in it."""

    task: str
    predictions: str
    items: str | None
    rows: int


class Board(NamedTuple):
    """A gold set that ``leaderboard`` takes, less a column that not every published one has."""

    source: str
    without: str | None
    models: int


GRADED = (
    Graded("mcq_idk", "idk/samples/gpqa__gemini-2.5-pro__2025-09-26.parquet", None, 198),
    Graded("mcq_idk", "idk/samples/gpqa__gpt-4.1-mini__2025-09-26.parquet", None, 198),
    Graded("mcq_idk", "idk/samples/gpqa__gpt-5__2025-09-26.parquet", None, 198),
    Graded("mcq_idk", "idk/samples/lexam__claude-sonnet-4.5__2025-10-09.parquet", None, 619),
    Graded("mcq_idk", "idk/samples/lexam__gpt-5__2025-10-09.parquet", None, 619),
    Graded("rome", "rome/example/predictions.json", "rome/example/annotation.json", 5),
    Graded("rome", "rome/example/updated_predictions.json", None, 5),
    Graded("rome", "rome/example/updated_predictions.json", "rome/example/annotation.json", 5),
    Graded("zebralogic", "zebra/outputs__gpt-4o-2024-05-13__june2024.parquet", "zebra/puzzles.parquet", 512),
    Graded("zebralogic", "zebra/outputs__o1-mini-2024-09-12__final.parquet", "zebra/puzzles.parquet", 463),
)
BOARDS = (
    Board("layton/ppi_llm.jsonl", None, 9),
    Board("layton/ppi_llm.jsonl", "n_hints", 9),  # as the visual set is published
    Board("layton/ppi_llm.jsonl", "human_both_correct", 9),
)
ITEMS = {"layton/riddles_llm.jsonl": 186, "layton/riddles_vlm.jsonl": 317}
NOT_OF_THE_AUTHORS = (
    "cases.jsonl", "matching.jsonl", "parsing.jsonl", "README.md", "eee/", "wire/", "diagnostics_llm.json",
)  # fmt: skip
"""Made for the tests of this project, or about the data."""
EXPECTED = (
    "idk/published_table.json",
    "layton/expected_llm.json",
    "rome/example/scores.json",
    "zebra/expected_summaries.json",
)
"""What the published programs print, which other tests compare."""


def test_no_published_file_is_left_out() -> None:
    found = {str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.is_file()}
    read = {one.predictions for one in GRADED} | {one.items for one in GRADED if one.items}
    read |= {one.source for one in BOARDS} | set(ITEMS) | set(EXPECTED)
    assert read <= found
    assert [name for name in sorted(found - read) if not any(part in name for part in NOT_OF_THE_AUTHORS)] == []


@pytest.mark.parametrize("one", GRADED, ids=lambda one: f"{one.predictions}{' with items' if one.items else ''}")
def test_grade_takes_the_predictions_as_they_are_published(one: Graded) -> None:
    items = ("--items", DATA / one.items) if one.items else ()
    end = call("grade", one.task, "--predictions", DATA / one.predictions, *items, "--json")
    assert end.code == 0, end.err
    assert _count(end.json) == one.rows


def _count(report: object) -> object:
    assert isinstance(report, dict)
    if isinstance(final := report.get("final_score"), list):
        return final[1]
    return report.get("n_cases", report.get("n"))


@pytest.mark.parametrize("one", BOARDS, ids=lambda one: f"{one.source} without {one.without}")
def test_a_gold_set_gives_the_same_board_without_a_column_that_has_a_default(one: Board, tmp_path: Path) -> None:
    there = tmp_path / "gold.jsonl"
    rows = [json.loads(line) for line in (DATA / one.source).read_text(encoding="utf-8").splitlines()]
    kept = [{name: value for name, value in row.items() if name != one.without} for row in rows]
    there.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    command = ("--method", "paper", "--format", "json")
    end = call("leaderboard", there, *command)
    assert end.code == 0, end.err
    found = end.json
    assert isinstance(found, list)
    assert len(found) == one.models
    assert found == call("leaderboard", DATA / one.source, *command).json


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_gold_set_is_read_in_both_forms_of_file(form: str, tmp_path: Path) -> None:
    """Data sets are published as Parquet; the copy here is JSON lines."""
    frame = pl.read_ndjson(DATA / "layton/ppi_llm.jsonl", infer_schema_length=None).drop("n_hints")
    there = tmp_path / f"gold.{form}"
    if form == "jsonl":
        frame.write_ndjson(there)
    else:
        frame.write_parquet(there)
    found = read_gold(str(there), tmp_path, Settings(tmp_path))
    assert (len(found.rows), set(found.rows["n_hints"])) == (1674, {0})


@pytest.mark.parametrize("source", ITEMS)
def test_the_riddles_are_read_as_they_are_published(source: str) -> None:
    rows = read_rows(str(DATA / source), DATA, Settings(DATA))
    split = source.removesuffix(".jsonl").rpartition("_")[2]
    assert len(LaytonTask(TaskOptions(split, 0, None)).items(rows)) == ITEMS[source]
