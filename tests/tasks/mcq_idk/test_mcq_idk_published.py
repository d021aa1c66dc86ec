"""The original protocol equals the published figures on every row; the corrected one recovers what it lost."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from layton_batch.tasks.mcq_idk.published_letters import read_original, without_think_blocks
from layton_batch.tasks.mcq_idk.task import CORRECTED, MARKS, METRICS, ORIGINAL, outcome_of
from tests.support.cli_harness import call
from tests.support.paths import SHARED_DATA
from tests.tasks import offline_rows
from tests.tasks.offline_rows import form

REAL = SHARED_DATA / "idk"
pytestmark = pytest.mark.shared_data
SAMPLES = sorted((REAL / "samples").glob("*.parquet"))
every_sample = pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)


@cache
def sample(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path)


@cache
def report(path: Path, protocol: str) -> dict[str, Any]:
    return offline_rows.report(form("mcq_idk", protocol), None, sample(path).iter_rows(named=True))


def cases() -> list[dict[str, object]]:
    file = REAL / "extraction_cases.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


@every_sample
def test_every_published_letter_and_metric_is_reproduced(path: Path) -> None:
    rows = sample(path).to_dicts()
    found = [{name: value for name, value in row.items() if name != "tag"} for row in report(path, ORIGINAL)["rows"]]
    wanted = [
        {"item_id": row["sample_id"], "letter": row["extracted"], **{name: row[name] for name in METRICS}}
        for row in rows
    ]
    assert rows
    assert found == wanted


def test_the_published_table_is_reproduced_to_the_digit() -> None:
    published = json.loads((REAL / "published_table.json").read_text(encoding="utf-8"))
    paths = {tuple(path.stem.split("__")[:2]): path for path in SAMPLES}
    assert len(published) >= 5
    for row in published:
        path = paths[row["benchmark"], row["model"]]
        table = call("grade", "mcq_idk", "--protocol", ORIGINAL, "--predictions", path, "--table", "-").out
        assert [cell.strip() for cell in table.splitlines()[-1].split("|")[2:-1]] == [row[name] for name in METRICS]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_every_extraction_case_gives_the_original_letter_and_marks(case: dict[str, object]) -> None:
    text = case["text"]
    assert isinstance(text, str)
    letter = read_original(without_think_blocks(text))
    assert letter == case["extracted"]
    names = ("trad", "idk", "idk_freq", "extract_fail")
    for gold in "AC":
        marks = MARKS[outcome_of(letter, gold, "E")]
        assert dict(zip(names, marks.values(), strict=True)) == case[f"scores_gold_{gold}"]


@every_sample
def test_corrected_loses_no_letter_that_the_original_read(path: Path) -> None:
    for old, new in zip(report(path, ORIGINAL)["rows"], report(path, CORRECTED)["rows"], strict=True):
        assert old["letter"] is None or new["letter"] is not None, old["item_id"]
