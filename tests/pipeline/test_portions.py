"""A run whose tables are too long for memory is the run it would have been otherwise."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from layton_batch.files import tables
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from tests.support.lab import lab, manifest_text

FAULTS = (
    Fault(on="row", action="error", status=500, provider="openai", times=2),
    Fault(on="row", action="malformed_text", provider="openai", after=3, times=1),
    Fault(on="row", action="duplicate", provider="gemini", times=1),
)
TEXT = manifest_text(limit=7, top="[policy]\nreask_unparsed = 1")


def played(folder: Path) -> dict[str, pl.DataFrame]:
    """Every table of a run with another attempt, a reply asked for again and a result that came twice."""
    folder.mkdir()
    with lab(folder, *FAULTS) as bench:
        status = bench.finish(TEXT)
        assert status.state is RunState.DONE
        assert {batch.attempt for batch in status.batches} >= {1, 2}
        return {name: bench.table(TEXT, name) for name in SCHEMAS}


def test_every_table_is_the_same_in_portions_of_two_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = played(tmp_path / "whole")
    monkeypatch.setattr(tables, "PORTION_ROWS", 2)
    in_portions = played(tmp_path / "portions")
    for name, table in whole.items():
        assert table.height > 0 or name in {"grades", "rejudged", "reused", "labels", "pairs", "label_need"}
        assert in_portions[name].equals(table), name
    parts = (tmp_path / "portions" / "runs").rglob("batches/*/*/answers/*.parquet")
    assert max(part.stem for part in parts) == "00003"
