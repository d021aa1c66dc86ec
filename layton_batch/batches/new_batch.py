"""New batches: planned ones, and those that are over before they began."""

from __future__ import annotations

from typing import Any

from layton_batch.records import Batch, Content, Job, Shard
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle


def new_batch(job: Job, batch_id: str, shard: Shard, content: Content, **columns: Any) -> Batch:
    """Return a batch of what a file holds: planned, and the first attempt, unless ``columns`` say otherwise."""
    first: dict[str, Any] = {"state": Lifecycle.PLANNED, "attempt": 1, "tag": ""}
    return Batch(
        id=batch_id,
        job_id=job.id,
        shard_id=shard.id,
        provider=job.spec.provider,
        model=job.spec.model,
        requests=shard.requests,
        path=shard.path,
        sha256=shard.sha256,
        size_bytes=shard.size_bytes,
        content=content,
        **first | columns,
    )


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
    """Return a collected batch without a batch file: a file brought its answers (``sha256``: of these), or nothing of
    them can be sent."""
    shard = Shard(shard_id, "", len(content.custom_ids), 0, sha256, None, None)
    over = {"state": Lifecycle.COLLECTED, "outcome": outcome, "error_class": error_class, "reason": reason}
    return new_batch(job, f"{job.id}.{shard_id}", shard, content, **over)
