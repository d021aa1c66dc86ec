"""``docs/formats.md``: the columns of every table and the fields of every JSON document, read from their schemas."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import polars as pl

from layton_batch import states
from layton_batch.files.leaderboard_columns import LEADERBOARD
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.records import Batch
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.status import JobStatus, ProviderTrouble, RunState, Status
from layton_batch.scoring.verdict_counts import VerdictCounts

WORDS = Path(__file__).with_suffix(".toml")
"""The meaning of each table and of the columns whose schemas have names and types alone."""
_TYPES = {"String": "text", "Int64": "integer", "Float64": "number", "Boolean": "true or false"}
_MANY = 8
"""A table that has all columns of an earlier table of so many shows only the others."""
_VALUES: tuple[tuple[str, type[StrEnum]], ...] = (
    ("predictions.kind", states.PredictionKind),
    ("verdicts.kind", states.VerdictKind),
    ("responses.outcome", states.RequestOutcome),
    ("responses.error_class", states.ErrorClass),
    ("responses.finish_reason", states.FinishReason),
    ("usage.role", states.Role),
    ("status: state of a run", RunState),
    ("status: state of a batch", states.Lifecycle),
    ("status: outcome of a batch", states.BatchOutcome),
)
"""Columns and fields of a fixed list of values, with the list."""


def formats_page() -> str:
    """Return the page: files of a workspace, tables, fixed values, JSON documents."""
    words = _words()
    parts = [words["intro"].strip(), "## Tables", words["tables_intro"].strip()]
    parts += _tables(words)
    values = [f"| {where} | {', '.join(f'`{value}`' for value in kind)} |" for where, kind in _VALUES]
    parts += ["## Fixed values", "\n".join(["| where | values |", "|---|---|", *values])]
    parts += ["## JSON documents", words["json_intro"].strip()]
    parts += ["### `status --json`", _status_fields(), words["json"].strip()]
    return "\n\n".join(parts) + "\n"


def _tables(words: Mapping[str, Any]) -> Iterator[str]:
    """Yield the section of each table: its meaning, and its columns without those of an earlier table that it has."""
    rows_of: dict[str | None, list[str]] = {None: []}
    for name, columns in SCHEMAS.items():
        rows = [f"| `{column}` | {_type(kind)} | {_meaning(words, name, column)} |" for column, kind in columns.items()]
        known = (table for table, shared in rows_of.items() if len(shared) >= _MANY and set(shared) <= set(rows))
        earlier = next(known, None)
        yield f"### `{name}`"
        yield words["tables"].get(name, "") + (f" It has the columns of [`{earlier}`](#{earlier})." if earlier else "")
        if own := [row for row in rows if row not in rows_of[earlier]]:
            yield "\n".join(["| column | type | meaning |", "|---|---|---|", *own])
        rows_of[name] = rows


def wordless_columns() -> list[str]:
    """Return the columns and tables of which the words file says nothing, as ``table.column``."""
    words = _words()
    missing = [name for name in SCHEMAS if name not in words["tables"]]
    return missing + [f"{name}.{column}" for name, column in _columns() if not _meaning(words, name, column)]


def stale_words() -> list[str]:
    """Return the entries of the words file that no schema has."""
    words = _words()
    known = {column for _, column in _columns()} | {f"{name}.{column}" for name, column in _columns()}
    tables = [name for name in words["tables"] if name not in SCHEMAS]
    return tables + [name for name in words["columns"] if name not in known]


def _words() -> Mapping[str, Any]:
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


def _columns() -> Iterator[tuple[str, str]]:
    return ((name, column) for name, columns in SCHEMAS.items() for column in columns)


def _meaning(words: Mapping[str, Any], table: str, column: str) -> str:
    """Return what a column means in this table, else in every table. The leaderboard's schema has words itself."""
    if table == "leaderboard":
        return LEADERBOARD[column].words
    meanings: Mapping[str, str] = words["columns"]
    return meanings.get(f"{table}.{column}", meanings.get(column, ""))


def _type(kind: pl.DataType | type[pl.DataType]) -> str:
    if isinstance(kind, pl.List):
        inner = cast("pl.DataType", kind.inner)
        return f"list of {_type(inner)}"
    if isinstance(kind, pl.Struct):
        return " and ".join(f"`{field.name}`" for field in kind.fields)
    return _TYPES[str(kind)]


def _status_fields() -> str:
    """Return a table of the fields of ``status --json``, those of its jobs and those of its batches."""
    job = JobStatus("j", "predict", "openai", "m", 1, 1, 0, 0, 0, 0, 0, planned=True, graded=True)
    batch = Batch("b", "j", "s", "openai", "m", 1, states.Lifecycle.COLLECTED, "t", 1, "", "", 0)
    status = Status("r", RunState.DONE, None, Decimal(0), Decimal(0), (job,), (batch,))
    status = replace(status, troubles=(ProviderTrouble("openai", "busy", 1, 0.0, 0.0),))
    document = RunResult(status, judges=[VerdictCounts("m", "openai", 1, 0, 0, 0, 0)]).as_json()
    objects = [("the document", document)]
    for name in ("jobs", "judges", "troubles", "batches"):
        objects += [(f"each of `{name}`", entry) for entry in cast("list[dict[str, object]]", document[name])]
    rows = [f"| {where} | {', '.join(f'`{field}`' for field in fields)} |" for where, fields in objects]
    return "\n".join(["| object | fields |", "|---|---|", *rows])
