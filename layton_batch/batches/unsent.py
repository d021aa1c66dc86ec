"""Unsent batches are over before they began: a file brought their answers, or nothing of them can be sent."""

from __future__ import annotations

from layton_batch.records import Batch, Content, Job
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle


def unsent_batch(
    job: Job,
    shard_id: str,
    content: Content,
    outcome: BatchOutcome,
    reason: str,
    *,
    error_class: ErrorClass = ErrorClass.NONE,
    sha256: str = "",
) -> Batch:
    """Return a collected batch without a batch file. ``sha256``: of the answers that a file brought."""
    return Batch(
        id=f"{job.id}.{shard_id}",
        job_id=job.id,
        shard_id=shard_id,
        provider=job.spec.provider,
        model=job.spec.model,
        attempt=1,
        state=Lifecycle.COLLECTED,
        outcome=outcome,
        error_class=error_class,
        tag="",
        requests=len(content.custom_ids),
        path="",
        sha256=sha256,
        size_bytes=0,
        reason=reason,
        content=content,
    )
