"""On real replies every protocol gives the published, or independently computed, value on every row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import polars as pl
import pytest

from layton_batch.records import JsonValue
from tests.support.paths import SHARED_DATA
from tests.tasks import offline_rows
from tests.tasks.offline_rows import form, graded

from .grids import grade

DATA = SHARED_DATA / "zebra"
pytestmark = pytest.mark.shared_data
OUTPUTS = ("outputs__gpt-4o-2024-05-13__june2024.parquet", "outputs__o1-mini-2024-09-12__final.parquet")
Row = Mapping[str, JsonValue]


@cache
def table(name: str) -> list[Row]:
    return list(pl.read_parquet(DATA / name).iter_rows(named=True))


def report(name: str, protocol: str) -> dict[str, Any]:
    return offline_rows.report(form("zebralogic", protocol), table("puzzles.parquet"), table(name))


def expected(name: str) -> dict[str, JsonValue]:
    entries = json.loads((DATA / "expected_summaries.json").read_text())
    (only,) = [entry for entry in entries if f"__{entry['model']}__{entry['set']}." in name]
    return only


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_original_protocol_equals_agi_evals_on_every_row(name: str) -> None:
    done = report(name, "original")
    for row, found in zip(table(name), done["rows"], strict=True):
        names = ("item_id", "tag", "score", "cells_correct", "cells_total", "wrong_cells")
        columns = ("id", "a_tag", "a_score", "a_cells_correct", "a_cells_total", "a_wrong_cells")
        assert [found[name] for name in names] == [row[column] for column in columns]
    theirs = expected(name)
    assert (done["score"], done["failure_counts"]) == (theirs["agi_score"], theirs["agi_failure_counts"])


def test_the_zeroeval_protocol_equals_the_papers_script_on_every_row() -> None:
    name = OUTPUTS[1]
    done = graded(form("zebralogic", "zeroeval"), table("puzzles.parquet"), table(name))
    for row, found in zip(table(name), done.iter_rows(named=True), strict=True):
        names = ("cells_correct", "cells_total", "reasoning_chars")
        ours = (found["tag"] != "no_answer", found["tag"] is None, *(found[name] for name in names))
        columns = ("z_parsed", "z_solved", "z_correct", "z_total", "z_reason_len")
        assert ours == tuple(row[column] for column in columns), row["id"]
    assert report(name, "zeroeval")["summary"] == expected(name)["zeroeval"]


def test_the_published_summary_comes_out_to_the_digit() -> None:
    prefix = [row for row in table(OUTPUTS[1]) if row["in_published_prefix"]]
    done = offline_rows.report(form("zebralogic", "zeroeval"), table("puzzles.parquet"), prefix)
    assert done["summary"] == expected(OUTPUTS[1])["zeroeval_published_prefix"]


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_corrected_protocol_equals_a_tolerant_reader_on_every_row(name: str) -> None:
    done = report(name, "corrected")
    for row, found in zip(table(name), done["rows"], strict=True):
        ours = (found["tag"] != "no_answer", found["cells_correct"], found["tag"] == "none")
        assert ours == (row["t_parsed"], row["t_correct"], row["t_solved"]), row["id"]
    unanswered = done["failure_counts"].get("no_answer", 0) / len(done["rows"])
    assert (done["score"], unanswered) == (expected(name)["tolerant_score"], expected(name)["tolerant_no_answer"])


def cases() -> list[Row]:
    if not DATA.is_dir():
        return []
    return [json.loads(line) for line in (DATA / "extraction_cases.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", cases(), ids=lambda case: str(case["tag"]))
def test_every_extraction_case(case: dict[str, dict[str, JsonValue]]) -> None:
    text = str(case["text"])
    agi, detail = case["agi"], case["agi"]["detail"]
    assert isinstance(detail, Mapping)
    ours = grade("original", text)
    assert (ours.tag.value, ours.score) == (agi["tag"], agi["score"])
    counts = ("cells_correct", "cells_total", "cell_accuracy")
    assert [getattr(ours, name) for name in counts] == [detail.get(name) for name in counts]
    assert list(ours.wrong_cells) == detail.get("wrong_cells", [])
    paper, theirs = grade("zeroeval", text), case["zeroeval"]
    if "exc" in theirs:
        assert paper.tag.value == "malformed_output"
    else:
        assert (paper.tag.value != "no_answer", paper.cells_correct) == (theirs["parsed"], theirs["correct"])
        assert (paper.cells_total, paper.tag.value == "none") == (theirs["total"], theirs["solved"])
        assert paper.reasoning_chars == theirs["reason"]
    if case["ideal"] is not None:
        assert grade("corrected", text).tag.value == case["ideal"]
