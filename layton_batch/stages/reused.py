"""What answers cost that a job has from elsewhere, when they were paid for: the table ``reused``."""

from __future__ import annotations

import polars as pl

from layton_batch.batches.paid_answers import PaidAnswers
from layton_batch.files import atomic, tables
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.stages.final_responses import Placed


def write_reused(run: Run, job: Job, placed: Placed) -> None:
    """Write what the answers cost that another run, or another request of this one, paid for: a row for each request
    that has one."""
    other = placed.requests.filter((pl.col("run_id") != run.id) | (pl.col("asked_as") != pl.col("paid_as")))
    part, rows = run.folder.part("reused", job.id), _rows(run, job, other.drop_nulls("row"))
    if rows.is_empty():
        atomic.remove(part)
    else:
        tables.write(part, rows, tables.digest("reused", job.spec.name, placed.digest))


def _rows(run: Run, job: Job, asked: pl.DataFrame) -> pl.DataFrame:
    found = [tables.frame("reused", [])]
    for (run_id, batch_id), requests in asked.group_by("run_id", "batch_id", maintain_order=True):
        home = PaidAnswers.of(run).workspace_of(str(run_id))
        if home is None or not (part := home.run(str(run_id)).part("usage", str(batch_id))).exists():
            continue
        charged = tables.read_part(part).drop("role", "model", "batch_id").rename({"custom_id": "paid_as"})
        rows = requests.join(charged, on="paid_as", how="inner", maintain_order="left")
        rows = rows.with_columns(
            pl.col("asked_as").alias("custom_id"),
            pl.col("run_id").alias("run"),
            role=pl.lit(str(job.role)),
            model=pl.lit(job.spec.name),
        )
        found.append(rows.select(pl.col(name).cast(kind) for name, kind in SCHEMAS["reused"].items()))
    return pl.concat(found)
