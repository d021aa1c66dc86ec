"""The leaderboard as files beside its page, for those who calculate further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import polars as pl

from layton_batch.files import tables
from layton_batch.text import is_formula

NAMES = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}


def write_downloads(rows: Sequence[Mapping[str, object]], building: Path) -> list[tuple[str, str]]:
    """Write ``data/leaderboard.*``; returns (address, name) of each, none where there is no board."""
    if not rows:
        return []
    folder = building / "data"
    folder.mkdir()
    table = tables.frame("leaderboard", rows)
    table.with_columns(pl.col(pl.String).map_elements(no_formula, pl.String)).write_csv(folder / "leaderboard.csv")
    (folder / "leaderboard.json").write_bytes(orjson.dumps(table.to_dicts(), option=orjson.OPT_INDENT_2))
    tables.write(folder / "leaderboard.parquet", table)
    return [(f"data/leaderboard.{ending}", name) for ending, name in NAMES.items()]


def no_formula(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{text}" if is_formula(text) else text
