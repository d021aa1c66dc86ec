"""The Parquet tables of a run: their columns, and how they are written and read.

Each stage writes one part file per job or batch under ``tables/<name>/``; readers take all parts together. A table
nobody wrote yet reads as an empty frame with the right columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from layton_batch import atomic
from layton_batch.errors import StorageError

_IMAGE = pl.Struct({"media_type": pl.String, "base64": pl.String})

SCHEMAS: Mapping[str, Mapping[str, pl.DataType | type[pl.DataType]]] = {
    "items": {
        "item_id": pl.String,
        "split": pl.String,
        "category": pl.String,
        "question": pl.String,
        "images": pl.List(_IMAGE),
        "hints": pl.List(pl.String),
        "answer": pl.String,
        "justification": pl.String,
        "solution": pl.String,
        "payload": pl.String,
    },
    "requests": {
        "custom_id": pl.String,
        "job_id": pl.String,
        "role": pl.String,
        "item_id": pl.String,
        "model": pl.String,
        "judge": pl.String,
        "shard_id": pl.String,
        "max_cost": pl.String,
    },
    "attempts": {"custom_id": pl.String, "max_cost": pl.String, "reask": pl.Int64},
    "responses": {
        "custom_id": pl.String,
        "job_id": pl.String,
        "batch_id": pl.String,
        "attempt": pl.Int64,
        "outcome": pl.String,
        "error_class": pl.String,
        "error_code": pl.String,
        "error_message": pl.String,
        "text": pl.String,
        "finish_reason": pl.String,
        "raw_finish_reason": pl.String,
        "refusal": pl.String,
        "served_model": pl.String,
    },
    "usage": {
        "custom_id": pl.String,
        "role": pl.String,
        "provider": pl.String,
        "model": pl.String,
        "batch_id": pl.String,
        "attempt": pl.Int64,
        "input_tokens": pl.Int64,
        "cached_input_tokens": pl.Int64,
        "output_tokens": pl.Int64,
        "reasoning_tokens": pl.Int64,
        "cache_write_tokens": pl.Int64,
        "cost_usd": pl.String,
        "unbatched_usd": pl.String,
        "price_source": pl.String,
        "price_date": pl.String,
    },
    "untold": {
        "custom_id": pl.String,
        "role": pl.String,
        "provider": pl.String,
        "model": pl.String,
        "batch_id": pl.String,
        "attempt": pl.Int64,
        "why": pl.String,
        "answered": pl.Boolean,
        "bound_usd": pl.String,
    },
    "predictions": {
        "item_id": pl.String,
        "model": pl.String,
        "provider": pl.String,
        "family": pl.String,
        "split": pl.String,
        "n_hints": pl.Int64,
        "kind": pl.String,
        "answer": pl.String,
        "justification": pl.String,
        "raw_text": pl.String,
        "note": pl.String,
        "finish_reason": pl.String,
        "custom_id": pl.String,
        "batch_id": pl.String,
        "attempt": pl.Int64,
    },
    "verdicts": {
        "item_id": pl.String,
        "model": pl.String,
        "judge": pl.String,
        "judge_provider": pl.String,
        "is_answer_correct": pl.Boolean,
        "is_justification_correct": pl.Boolean,
        "both_correct": pl.Boolean,
        "note": pl.String,
        "raw_text": pl.String,
        "custom_id": pl.String,
        "batch_id": pl.String,
        "attempt": pl.Int64,
    },
    "grades": {
        "item_id": pl.String,
        "model": pl.String,
        "metric": pl.String,
        "mark": pl.Float64,
        "tag": pl.String,
        "note": pl.String,
    },
    "scores": {
        "item_id": pl.String,
        "model": pl.String,
        "metric": pl.String,
        "yes": pl.Int64,
        "total": pl.Int64,
        "vote": pl.Float64,
        "flag": pl.String,
    },
    "leaderboard": {
        "rank": pl.Int64,
        "rank_best": pl.Int64,
        "rank_worst": pl.Int64,
        "model": pl.String,
        "provider": pl.String,
        "n_hints": pl.Int64,
        "score": pl.Float64,
        "lower": pl.Float64,
        "upper": pl.Float64,
        "half_width": pl.Float64,
        "method": pl.String,
        "metric": pl.String,
        "n_items": pl.Int64,
        "n_unparsed": pl.Int64,
        "n_missing": pl.Int64,
        "n_unjudged": pl.Int64,
        "flags": pl.String,
        "level": pl.Float64,
        "new_score": pl.Float64,
        "new_lower": pl.Float64,
        "new_upper": pl.Float64,
        "new_rank_best": pl.Int64,
        "new_rank_worst": pl.Int64,
        "own_labels": pl.Int64,
        "borrowed_labels": pl.Int64,
        "smallest_gold_bin": pl.Int64,
        "n_abstained": pl.Int64,
    },
    "cost": {
        "provider": pl.String,
        "model": pl.String,
        "stage": pl.String,
        "requests": pl.Int64,
        "input_tokens": pl.Int64,
        "cached_input_tokens": pl.Int64,
        "output_tokens": pl.Int64,
        "reasoning_tokens": pl.Int64,
        "cost_usd": pl.String,
        "unbatched_usd": pl.String,
        "saved_usd": pl.String,
        "price_source": pl.String,
        "price_date": pl.String,
    },
}
"""Column types by table. Money is exact decimal text; scores in ``leaderboard`` are percent, as printed."""


Row = Mapping[str, object]
PORTION_ROWS, PORTION_CHARACTERS = 1_000, 32_000_000
"""How much of a long table is held in memory at a time."""
_FORM: Mapping[str, Any] = {"compression": "zstd", "compression_level": 3}


def frame(name: str, rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as a frame with exactly the table's columns, in order."""
    schema = SCHEMAS[name]
    columns = {column: [row.get(column) for row in rows] for column in schema}
    return pl.DataFrame(columns, schema=dict(schema), strict=True)


def write(path: Path, table: pl.DataFrame) -> None:
    """One part file, whole or not at all."""
    with atomic.writing(path) as handle, _said(path):
        table.write_parquet(handle, **_FORM)


def write_rows(path: Path, name: str, rows: Iterable[Row]) -> None:
    """One part file of any number of rows, of which a portion at a time is held in memory."""
    with writing(path, name) as add:
        for row in rows:
            add(row)


@contextmanager
def writing(path: Path, name: str) -> Iterator[Callable[[Row], None]]:
    """What adds a row to the part file that ``path`` becomes when the block ends well."""
    with atomic.scratch(path) as folder:
        spilt: list[Path] = []
        portion = _Portion()

        def add(row: Row) -> None:
            if portion.add(row):
                spilt.append(folder / f"{len(spilt):06d}.parquet")
                _write_portion(spilt[-1], frame(name, portion.take()))

        yield add
        rest = frame(name, portion.take())
        if not spilt:
            write(path, rest)
        else:
            _write_together(path, name, [pl.scan_parquet(spilt), rest.lazy()])


def portions(rows: Iterable[Row]) -> Iterator[Sequence[Row]]:
    """The rows in portions of at most ``PORTION_ROWS`` rows and not much more than ``PORTION_CHARACTERS`` of text."""
    portion = _Portion()
    for row in rows:
        if portion.add(row):
            yield portion.take()
    if portion.rows:
        yield portion.take()


def read_portions(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """A part file, ``PORTION_ROWS`` rows at a time."""
    table = pl.scan_parquet(path).select(columns)
    for start in range(0, table.select(pl.len()).collect().item(), PORTION_ROWS):
        yield table.slice(start, PORTION_ROWS).collect()


@dataclass(slots=True)
class _Portion:
    rows: list[Row] = field(default_factory=list)
    characters: int = 0

    def add(self, row: Row) -> bool:
        """Whether it is full now."""
        self.rows.append(row)
        self.characters += sum(len(value) for value in row.values() if isinstance(value, str))
        return len(self.rows) >= PORTION_ROWS or self.characters >= PORTION_CHARACTERS

    def take(self) -> list[Row]:
        rows, self.rows, self.characters = self.rows, [], 0
        return rows


def _write_portion(path: Path, table: pl.DataFrame) -> None:
    """Beside the table that it becomes a part of: no reader sees it, and it need not outlive this process."""
    atomic.make_folder(path.parent)
    with _said(path):
        table.write_parquet(path, **_FORM)


def _write_together(path: Path, name: str, tables: Sequence[pl.LazyFrame]) -> None:
    with atomic.writing(path) as handle, _said(path):
        pl.concat(tables).select(list(SCHEMAS[name])).sink_parquet(handle, row_group_size=PORTION_ROWS, **_FORM)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Polars has an error of its own for a full disk."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise StorageError(f"cannot write {path}: {error}; the last good version is kept") from error


def read(folder: Path, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """All parts of a table together, in the order of their names."""
    schema = SCHEMAS[name]
    wanted = list(columns or schema)
    parts = sorted(
        part  # names with a dot in front are not finished, or were left by a process that was killed
        for part in (folder / name).rglob("*.parquet")
        if not any(step.startswith(".") for step in part.relative_to(folder).parts)
    )
    if not parts:
        return pl.DataFrame(schema={column: schema[column] for column in wanted})
    return pl.concat([pl.read_parquet(part, columns=wanted) for part in parts])


def storable(text: str | None) -> str | None:
    """Text as Parquet can hold it: lone surrogates, which no UTF-8 has, become U+FFFD."""
    return None if text is None else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
