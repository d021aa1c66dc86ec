"""The original protocol equals the published figures on every row; the corrected one recovers what it lost."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from layton_batch.tasks.mcq_idk import CORRECTED, ORIGINAL, read_letters
from layton_batch.tasks.mcq_idk_rules.letter_reading import without_think_blocks
from layton_batch.tasks.mcq_idk_rules.metrics import METRICS, mark
from layton_batch.tasks.mcq_idk_rules.model_report import AbstentionReport, cell
from tests.support.paths import SHARED_DATA
from tests.tasks.offline_rows import form, grade_rows

REAL = SHARED_DATA / "idk"
pytestmark = pytest.mark.shared_data
SAMPLES = sorted((REAL / "samples").glob("*.parquet"))
every_sample = pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)


@cache
def sample(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path)


@cache
def report(path: Path, protocol: str) -> AbstentionReport:
    return grade_rows(form("mcq_idk", protocol), None, sample(path).iter_rows(named=True))


def cases() -> list[dict[str, object]]:
    file = REAL / "extraction_cases.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


@every_sample
def test_every_published_letter_and_metric_is_reproduced(path: Path) -> None:
    rows = sample(path).to_dicts()
    found = report(path, ORIGINAL).document()["rows"]
    wanted = [
        {"item_id": row["sample_id"], "letter": row["extracted"], **{name: row[name] for name in METRICS}}
        for row in rows
    ]
    assert rows
    assert found == wanted


@every_sample
def test_every_letter_is_found_by_the_rule_that_found_it_in_the_original(path: Path) -> None:
    for row in sample(path).iter_rows(named=True):
        reading = read_letters(row["response"] or "", ORIGINAL, row["n_options"])
        rule = reading.rule or ""
        by = {"primary": f"primary{rule[1:]}", "fallback": f"fallback_{rule}", "none": "none"}[reading.stage]
        assert by == row["extracted_by"], row["sample_id"]


@every_sample
def test_what_is_scored_is_the_reply_without_its_thoughts(path: Path) -> None:
    scored = sample(path).filter(pl.col("scored_text").is_not_null())
    assert all(without_think_blocks(row["response"]) == row["scored_text"] for row in scored.iter_rows(named=True))


def test_the_published_table_is_reproduced_to_the_digit() -> None:
    published = json.loads((REAL / "published_table.json").read_text(encoding="utf-8"))
    paths = {tuple(path.stem.split("__")[:2]): path for path in SAMPLES}
    assert len(published) >= 5
    for row in published:
        estimates = report(paths[row["benchmark"], row["model"]], ORIGINAL).tally.estimates()
        assert {name: cell(estimates[name]) for name in METRICS} == {name: row[name] for name in METRICS}, row["model"]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_every_extraction_case_gives_the_original_letter_stage_and_marks(case: dict[str, object]) -> None:
    text = case["text"]
    assert isinstance(text, str)
    reading = read_letters(text, ORIGINAL, 4)
    assert (reading.letter, reading.stage, reading.rule) == (case["extracted"], case["stage"], case["rule"])
    names = ("trad", "idk", "idk_freq", "extract_fail")
    for gold in "AC":
        assert dict(zip(names, mark(reading.letter, gold, 4).values(), strict=True)) == case[f"scores_gold_{gold}"]


@every_sample
def test_corrected_takes_the_requested_form_wherever_there_is_one(path: Path) -> None:
    letters = {row.item_id: row.letter for row in report(path, CORRECTED).rows}
    for row in sample(path).iter_rows(named=True):
        if row["hash_letter"] is not None:
            assert letters[row["sample_id"]] == row["hash_letter"]


def test_there_are_rows_where_prose_beat_the_requested_form() -> None:
    lost = [
        row
        for path in SAMPLES
        for row in sample(path).iter_rows(named=True)
        if row["hash_letter"] is not None and row["hash_letter"] != row["extracted"]
    ]
    assert len(lost) >= 20


@every_sample
def test_corrected_loses_no_letter_that_the_original_read(path: Path) -> None:
    for old, new in zip(report(path, ORIGINAL).rows, report(path, CORRECTED).rows, strict=True):
        assert old.letter is None or new.letter is not None, old.item_id
