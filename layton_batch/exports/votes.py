"""A run's votes in one Parquet file, for a folder of many runs' (``scoring/vote_files.py`` has the columns)."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from layton_batch.errors import DataError
from layton_batch.files import atomic
from layton_batch.runs.context import Run
from layton_batch.scoring.vote_files import SCHEMA
from layton_batch.stages.rank import finished_jobs, scores_of

_GROUP_ROWS = 100_000
"""Rows of a row group: a reader of one metric skips the groups of the others."""


def write_votes(run: Run, out: Path) -> int:
    """Write a row for every prediction and metric, models in the order of their names. Return the number of rows.

    Raises DataError where no jury judges, and where no model is done.
    """
    if not run.task.uses_jury:
        raise DataError(f"{run.id}: this task is graded by rule: there are no votes")
    done = finished_jobs(run)
    if not done:
        raise DataError(
            f"run {run.id}: no model is done yet; there is nothing to export. `layton-batch run` continues it"
        )
    parts = [scores_of(run, job, metric).select(list(SCHEMA)) for metric in run.task.metrics for job in done]
    votes = pl.concat(parts).sort("metric", "model", "provider", "n_hints", "sample", "item_id")
    with atomic.writing(out) as handle:
        votes.write_parquet(handle, compression="zstd", row_group_size=_GROUP_ROWS)
    return votes.height
