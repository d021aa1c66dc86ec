"""The rows of one run, and of the answers that it has from others, in a database of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import Connection, Select, Table, select

from layton_batch.store import schema
from layton_batch.store.run_store import RunStore

_WHO_PAID = {"account": None, "organisation": None}
"""Columns that no copy gets."""
_ROWS = 5_000
_KEYS = 500
"""Rows that are written, and keys that are asked for, in one statement."""


@dataclass(frozen=True, slots=True)
class CopiedBatch:
    """A batch whose rows were copied: its number in the database, the run that sent it, and its id."""

    key: int
    run_id: str
    batch_id: str


def copy_run(source: RunStore, target: RunStore, manifest: str) -> list[CopiedBatch]:
    """Copy what the run's tables, board and bill are computed from, with this frozen ``manifest``; return the batches.
    Events stay behind."""
    with source.reading() as reading, target.engine.begin() as writing:
        copied = _batches_of(reading, source.run_id)
        keys = [batch.key for batch in copied]
        for table, changes in ((schema.runs, {"manifest": manifest}), (schema.jobs, {})):
            _copy(reading, writing, table, select(table).where(table.c.run_id == source.run_id), changes)
        requests, jobs = schema.requests, schema.jobs
        mine = select(jobs.c.key).where(jobs.c.run_id == source.run_id)
        _copy(reading, writing, requests, select(requests).where(requests.c.job.in_(mine)))
        for some in _portions(keys):
            batches, attempts = schema.batches, schema.attempts
            _copy(reading, writing, batches, select(batches).where(batches.c.key.in_(some)), _WHO_PAID)
            _copy(reading, writing, attempts, select(attempts).where(attempts.c.batch.in_(some)))
            _copy(reading, writing, schema.answers, select(schema.answers).where(schema.answers.c.batch.in_(some)))
        wanted = select(requests.c.answer).where(requests.c.job.in_(mine))
        answers = schema.answers
        unsent = select(answers).where(answers.c.batch.is_(None), answers.c.fingerprint.in_(wanted))
        _copy(reading, writing, answers, unsent)
    return copied


def _batches_of(connection: Connection, run_id: str) -> list[CopiedBatch]:
    """The batches of the run, and those of others that have answers which it wants."""
    batches, answers, requests, jobs = schema.batches, schema.answers, schema.requests, schema.jobs
    wanted = select(answers.c.batch).join(requests, requests.c.answer == answers.c.fingerprint)
    wanted = wanted.join(jobs, jobs.c.key == requests.c.job).where(jobs.c.run_id == run_id)
    query = select(batches.c.key, batches.c.run_id, batches.c.batch_id)
    query = query.where((batches.c.run_id == run_id) | batches.c.key.in_(wanted)).order_by(batches.c.key)
    return [CopiedBatch(*row) for row in connection.execute(query)]


def _copy(
    reading: Connection,
    writing: Connection,
    table: Table,
    query: Select[tuple[object, ...]],
    changes: Mapping[str, object] = MappingProxyType({}),
) -> None:
    for rows in reading.execute(query).mappings().partitions(_ROWS):
        writing.execute(table.insert(), [{**row, **changes} for row in rows])


def _portions(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[start : start + _KEYS] for start in range(0, len(keys), _KEYS))
