"""``docs/formats.md``: the columns of every table and the fields of every JSON document, read from their schemas."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from layton_batch import states
from layton_batch.commands.overnight import NightDocument, NightResult
from layton_batch.files.table_columns import LEADERBOARD, SCHEMAS
from layton_batch.records import Batch
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.status import JobStatus, ProviderTrouble, RunState, Status
from layton_batch.scoring.verdict_counts import VerdictCounts

WORDS = Path(__file__).with_suffix(".toml")
"""The meaning of each table and of the columns whose schemas have names and types alone."""
_MANY = 8
"""A table that has all columns of an earlier table of so many shows only the others."""
_SHARED_BY = 3
"""A column that as many tables describe alike stands once, above them."""
Column = tuple[str, str]
"""A column's name and meaning. Its type is in the file itself."""
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
    parts += ["### `summary.json`", words["summary_json"].strip(), _summary_fields()]
    return "\n\n".join(parts) + "\n"


def _tables(words: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of several tables, then the section of each table: its meaning, and its other columns."""
    tables: dict[str, list[Column]] = {}
    earlier_of: dict[str, str | None] = {}
    for name, columns in SCHEMAS.items():
        own = [(column, _meaning(words, name, column)) for column in columns]
        known = (table for table, earlier in tables.items() if len(earlier) >= _MANY and set(earlier) <= set(own))
        earlier_of[name] = next(known, None)
        tables[name] = own
    counts = Counter(column for name, earlier in earlier_of.items() if earlier is None for column in tables[name])
    shared = [column for column, count in counts.items() if count >= _SHARED_BY]
    yield _column_list(shared)
    for name, earlier in earlier_of.items():
        yield f"### `{name}`"
        yield words["tables"].get(name, "") + (f" It has the columns of [`{earlier}`](#{earlier})." if earlier else "")
        added = [column for column in tables[name] if earlier is None or column not in tables[earlier]]
        if own := [column for column in added if column not in shared]:
            yield _column_list(own)
        if also := [f"`{column}`" for column, meaning in added if (column, meaning) in shared]:
            yield f"Also: {', '.join(also)}."


def _column_list(columns: list[Column]) -> str:
    return "\n".join(f"- `{name}`: {meaning}" for name, meaning in columns)


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


def _status_fields() -> str:
    """Return a table of the fields of ``status --json``, those of its jobs and those of its batches."""
    job = JobStatus("j", "predict", "openai", "m", 1, 1, 0, 0, 0, 0, 0, planned=True, graded=True)
    batch = Batch("b", "j", "s", "openai", "m", 1, states.Lifecycle.COLLECTED, "t", 1, "", "", 0)
    status = Status("r", RunState.DONE, None, Decimal(0), Decimal(0), (job,), (batch,))
    status = replace(status, troubles=(ProviderTrouble("openai", "busy", 1, 0.0, 0.0),))
    document = RunResult(status, judges=[VerdictCounts("m", "openai", 1, 0, 0, 0, 0)]).as_json()
    return _field_table(document, "jobs", "judges", "troubles", "batches")


def _summary_fields() -> str:
    """Return a table of the fields of a night's summary, and of each run in it."""
    return _field_table(NightDocument([NightResult("m", "r")], 0.0, 0.0, {}).as_json(), "runs")


def _field_table(document: dict[str, object], *lists: str) -> str:
    """Return a table of the document's fields, and those of the objects in these lists of it."""
    objects = [("the document", document)]
    for name in lists:
        objects += [(f"each of `{name}`", entry) for entry in cast("list[dict[str, object]]", document[name])]
    rows = [f"| {where} | {', '.join(f'`{field}`' for field in fields)} |" for where, fields in objects]
    return "\n".join(["| object | fields |", "|---|---|", *rows])
