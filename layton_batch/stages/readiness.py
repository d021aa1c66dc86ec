"""Which models are done, whatever the others do."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.records import Job
from layton_batch.states import Role


def finished(jobs: Sequence[Job]) -> list[Job]:
    """Return the predict jobs that are graded and whose judges' jobs, if any, are graded too."""
    waiting = {job.depends_on for job in jobs if job.role is Role.JUDGE and not job.graded}
    return [job for job in jobs if job.role is Role.PREDICT and job.graded and job.id not in waiting]


def has_models(jobs: Sequence[Job]) -> bool:
    """Return whether a model takes part; a run's manifest may have lost all of them."""
    return any(job.role is Role.PREDICT for job in jobs)
