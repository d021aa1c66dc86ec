"""Which models were asked for and others answered, by what the providers' replies say."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from layton_batch.errors import DamagedTableError
from layton_batch.files import tables
from layton_batch.model_table import is_same_model
from layton_batch.records import Job
from layton_batch.run.context import Run

_REMEMBERED = 4_096
"""Part files of responses: each is read once, however often the board is looked at."""


def served_others(run: Run, jobs: Iterable[Job]) -> frozenset[str]:
    """Names of those jobs' models of whom at least one response came from another model.

    Responses that do not say who answered, and tables that cannot be read, say nothing here.
    """
    asked = {job.id: job.spec for job in jobs}
    found = set()
    for batch in run.store.batches():
        spec = asked.get(batch.job_id)
        if spec is None or spec.name in found:
            continue
        if any(not is_same_model(spec.model, served) for served in _of_batch(run.folder.tables, batch.id)):
            found.add(spec.name)
    return frozenset(found)


def _of_batch(folder: Path, batch_id: str) -> frozenset[str]:
    served: set[str] = set()
    for path in (folder / "responses" / batch_id).glob("*.parquet"):
        try:
            stat = path.stat()
            served |= _of_part(path, stat.st_mtime_ns, stat.st_size)
        except (DamagedTableError, OSError):
            continue
    return frozenset(served)


@lru_cache(_REMEMBERED)
def _of_part(path: Path, _written: int, _size: int) -> frozenset[str]:
    return frozenset(tables.read_part(path, columns=["served_model"])["served_model"].drop_nulls().unique())
