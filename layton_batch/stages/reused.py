"""What answers cost that a job has from elsewhere, when they were paid for: the table ``reused``."""

from __future__ import annotations

from layton_batch.batches.cost_tables import charge_columns
from layton_batch.files import atomic, tables
from layton_batch.records import Job
from layton_batch.runs.context import Run


def write_reused(run: Run, job: Job) -> None:
    """Write what the answers cost that another run, or another request of this one, paid for: a row for each request
    that has one."""
    rows: list[tables.Row] = []
    for custom_id, paying_run, batch_id, charge in run.store.bought_elsewhere(job.id):
        rows.append(
            {
                **charge_columns(charge), "custom_id": custom_id, "role": str(job.role), "model": job.spec.name,
                "provider": job.spec.provider, "run": paying_run, "batch_id": batch_id, "paid_as": charge.custom_id,
            }
        )  # fmt: skip
    part = run.folder.part("reused", job.id)
    if rows:
        digest = tables.digest("reused", *(repr(sorted(row.items(), key=str)) for row in rows))
        tables.write(part, tables.frame("reused", rows), digest)
    else:
        atomic.remove(part)
