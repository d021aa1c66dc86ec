"""Progress of each model: complete, whatever the others do, or how far it is."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.records import Job
from layton_batch.runs.status import JobStatus
from layton_batch.states import Role


def finished(jobs: Sequence[Job]) -> list[Job]:
    """Return the predict jobs that are graded and whose judges' jobs, if any, are graded too."""
    waiting = {job.depends_on for job in jobs if job.role is Role.JUDGE and not job.graded}
    return [job for job in jobs if job.role is Role.PREDICT and job.graded and job.id not in waiting]


def has_models(jobs: Sequence[Job]) -> bool:
    """Return whether a model takes part; a run's manifest may have lost all of them."""
    return any(job.role is Role.PREDICT for job in jobs)


def progress(jobs: Sequence[JobStatus]) -> str:
    """Return the progress of a model that is not complete, such as ``18 of 20 answered``. ``jobs``: its own and its
    judges'."""
    answered, judged = (_answered([job for job in jobs if job.role == role]) for role in (Role.PREDICT, Role.JUDGE))
    return ", ".join(filter(None, (f"{answered or 'none'} answered", judged and f"{judged} judged")))


def _answered(jobs: Sequence[JobStatus]) -> str:
    requests = sum(job.requests for job in jobs)
    return f"{sum(job.succeeded for job in jobs):,} of {requests:,}" if requests else ""
