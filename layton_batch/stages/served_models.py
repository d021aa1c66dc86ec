"""Which models were asked for and others answered, by what the providers' replies say."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from layton_batch.errors import DamagedTableError
from layton_batch.files import tables
from layton_batch.model_table import is_same_model
from layton_batch.records import Job
from layton_batch.runs.context import Run

_REMEMBERED = 65_536
"""Batches whose responses are read once, however often the board is looked at."""


def served_others(run: Run, jobs: Iterable[Job]) -> frozenset[str]:
    """Return the names of the jobs' models of which at least one response came from another model.

    Responses that do not say who answered, and tables that cannot be read, say nothing here.
    """
    specs = {job.id: job.spec for job in jobs}
    names = set()
    for job_id, run_id, batch_id in run.store.answering_batches():
        spec = specs.get(job_id)
        if spec is None or spec.name in names:
            continue
        served_models = _of_batch(str(run.folder.workspace.batch(run_id, batch_id).answers))
        if any(not is_same_model(spec.model, served) for served in served_models):
            names.add(spec.name)
    return frozenset(names)


def _of_batch(folder: str) -> frozenset[str]:
    try:
        written = os.stat(folder)
        return _of_folder(folder, written.st_mtime_ns, written.st_ino)
    except FileNotFoundError:
        return frozenset()
    except (DamagedTableError, OSError):  # not remembered: a person may put the part back
        return frozenset().union(*(_readable(path) for path in Path(folder).glob("*.parquet")))


@lru_cache(_REMEMBERED)
def _of_folder(folder: str, _written: int, _which: int) -> frozenset[str]:
    """Read a folder's parts. They never change: a folder is replaced as a whole."""
    return frozenset().union(*(_of_part(path) for path in Path(folder).glob("*.parquet")))


def _readable(path: Path) -> frozenset[str]:
    try:
        return _of_part(path)
    except (DamagedTableError, OSError):
        return frozenset()


def _of_part(path: Path) -> frozenset[str]:
    return frozenset(tables.read_part(path, columns=["served_model"])["served_model"].drop_nulls().unique())
