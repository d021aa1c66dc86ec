"""The leaderboard as files beside its page, for those who calculate further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import polars as pl

from layton_batch.files import tables
from layton_batch.text import is_formula, number_text, one_line

_PRINTED = (
    "rank", "rank_best", "rank_worst", "model", "provider", "n_hints", "score", "lower", "upper", "target",
    "set_rank_best", "set_rank_worst", "set_score", "set_lower", "set_upper", "n_items", "own_labels",
)  # fmt: skip
_ESCAPED = str.maketrans({letter: f"\\{letter}" for letter in "\\|<>`[]*_"})
NAMES = {"csv": "CSV", "json": "JSON", "md": "Markdown", "parquet": "Parquet"}


def write_downloads(rows: Sequence[Mapping[str, object]], building: Path) -> list[tuple[str, str]]:
    """Write ``data/leaderboard.*``; returns (address, name) of each, none where there is no board."""
    if not rows:
        return []
    folder = building / "data"
    folder.mkdir()
    table = tables.frame("leaderboard", rows)
    table.with_columns(pl.col(pl.String).map_elements(no_formula, pl.String)).write_csv(folder / "leaderboard.csv")
    (folder / "leaderboard.json").write_bytes(orjson.dumps(table.to_dicts(), option=orjson.OPT_INDENT_2))
    (folder / "leaderboard.md").write_bytes(_markdown(rows).encode("utf-8", "replace"))
    tables.write(folder / "leaderboard.parquet", table)
    return [(f"data/leaderboard.{ending}", name) for ending, name in NAMES.items()]


def no_formula(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{text}" if is_formula(text) else text


def _markdown(rows: Sequence[Mapping[str, object]]) -> str:
    lines = [" | ".join(name.replace("_", " ") for name in _PRINTED), " | ".join("---" for _ in _PRINTED)]
    lines += [" | ".join(_cell(row.get(name)) for name in _PRINTED) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return number_text(value)
    text = "" if value is None else one_line(str(value))
    return text.translate(_ESCAPED)
