"""Every public file of the four benchmarks is read as its authors publish it, by the command that takes it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from layton_batch.files.sources import read_rows
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
GOLD = "layton/ppi_llm.jsonl"
ITEMS = {"layton/riddles_llm.jsonl": 186, "layton/riddles_vlm.jsonl": 317}


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


@pytest.mark.parametrize(
    ("without", "form"), [("n_hints", "jsonl"), ("human_both_correct", "jsonl"), ("n_hints", "parquet")]
)
def test_a_gold_set_gives_the_same_board_in_each_form_and_without_a_column_that_has_a_default(
    without: str, form: str, tmp_path: Path
) -> None:
    """The visual set is published without hints, and data sets are published as Parquet."""
    frame = pl.read_ndjson(DATA / GOLD, infer_schema_length=None).drop(without)
    path = tmp_path / f"gold.{form}"
    (frame.write_ndjson if form == "jsonl" else frame.write_parquet)(path)
    command = ("--method", "paper", "--format", "json")
    end = call("leaderboard", path, *command)
    assert end.code == 0, end.err
    rows = end.json
    assert isinstance(rows, list)
    assert len(rows) == 9
    assert rows == call("leaderboard", DATA / GOLD, *command).json


@pytest.mark.parametrize("source", ITEMS)
def test_the_riddles_are_read_as_they_are_published(source: str) -> None:
    rows = read_rows(str(DATA / source), DATA, Settings(DATA))
    split = source.removesuffix(".jsonl").rpartition("_")[2]
    assert len(LaytonTask(TaskOptions(split, 0, None)).items(rows)) == ITEMS[source]
